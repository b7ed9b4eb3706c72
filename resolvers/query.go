package resolvers

import (
	"context"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/store"
)

type query struct{ *Server }

func (query) Viewer(ctx context.Context) (*graph.Viewer, error) {
	if _, err := deviceOf(ctx); err != nil {
		return nil, err
	}
	return &graph.Viewer{}, nil
}

func (query) Conversation(ctx context.Context, id chat.ID) (*chat.Conversation, error) {
	if _, err := deviceOf(ctx); err != nil {
		return nil, err
	}
	conv, err := conversationID("id", id)
	if err != nil {
		return nil, err
	}
	return viewOf(ctx).Conversation(ctx, conv)
}

func (query) Conversations(ctx context.Context, first *int32, after *string, filter *graph.ConversationFilter) (*graph.ConversationConnection, error) {
	if _, err := deviceOf(ctx); err != nil {
		return nil, err
	}
	rows, err := pageRows("first", first, 20)
	if err != nil {
		return nil, err
	}
	r := store.InboxRange{First: rows}
	if filter != nil {
		r.Unread, r.Mentioned = filter.Unread, filter.Mentioned
		r.Left = filter.Active != nil && !*filter.Active
		r.Archived = filter.Archived != nil && *filter.Archived
	}
	if r.After, err = parseInboxCursor(after, r); err != nil {
		return nil, err
	}
	page, err := viewOf(ctx).Inbox(ctx, r)
	if err != nil {
		return nil, err
	}
	return conversationConnection(page, r), nil
}

func (query) Badge(ctx context.Context) (*chat.Badge, error) {
	if _, err := deviceOf(ctx); err != nil {
		return nil, err
	}
	return viewOf(ctx).Badge(ctx)
}

func (query) UserBadge(ctx context.Context, id chat.ID) (*chat.Badge, error) {
	view, err := viewOfUser(ctx, id)
	if err != nil {
		return nil, err
	}
	return view.Badge(ctx)
}

func (query) UserDevices(ctx context.Context, id chat.ID) ([]*chat.Device, error) {
	view, err := viewOfUser(ctx, id)
	if err != nil {
		return nil, err
	}
	return view.Devices(ctx)
}

// viewOfUser looks with the eyes of a user that the service names; NOT_FOUND if
// there is none.
func viewOfUser(ctx context.Context, id chat.ID) (*store.View, error) {
	user, err := userID("userId", id)
	if err != nil {
		return nil, err
	}
	view := snapshotOf(ctx).View(store.Viewer{User: user})
	_, err = view.User(ctx)
	return view, err
}

func (query) ConversationRef(ctx context.Context, id chat.ID) (*chat.ConversationRef, error) {
	conv, err := conversationID("id", id)
	if err != nil {
		return nil, err
	}
	return snapshotOf(ctx).Ref(ctx, conv)
}

type viewerFields struct{}

func (viewerFields) User(ctx context.Context, _ *graph.Viewer) (*chat.User, error) {
	return viewOf(ctx).User(ctx)
}

func (viewerFields) Device(ctx context.Context, _ *graph.Viewer) (*chat.Device, error) {
	return viewOf(ctx).Device(ctx)
}

func (viewerFields) Devices(ctx context.Context, _ *graph.Viewer) ([]*chat.Device, error) {
	return viewOf(ctx).Devices(ctx)
}

func (viewerFields) Badge(ctx context.Context, _ *graph.Viewer) (*chat.Badge, error) {
	return viewOf(ctx).Badge(ctx)
}

func (viewerFields) SharesReads(ctx context.Context, _ *graph.Viewer) (bool, error) {
	return viewOf(ctx).SharesReads(ctx)
}
