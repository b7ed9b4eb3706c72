package resolvers

import (
	"context"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/store"
)

type conversationFields struct{}

func (conversationFields) LastMessage(ctx context.Context, c *chat.Conversation) (*chat.Message, error) {
	return viewOf(ctx).LastMessage(ctx, c)
}

func (conversationFields) FirstUnread(ctx context.Context, c *chat.Conversation) (*chat.Message, error) {
	return viewOf(ctx).FirstUnread(ctx, c)
}

func (conversationFields) FirstUnreadMention(ctx context.Context, c *chat.Conversation) (*chat.Message, error) {
	return viewOf(ctx).FirstUnreadMention(ctx, c)
}

func (conversationFields) Events(ctx context.Context, c *chat.Conversation, after *chat.Seq, first *int32, before *chat.Seq, last *int32) (*graph.EventConnection, error) {
	if first != nil && last != nil {
		return nil, chat.BadInput("last", "Give either first or last, not both.")
	}
	r := store.EventRange{Before: chat.EndOfLog, Backwards: first == nil}
	field, size := "first", first
	if r.Backwards {
		field, size = "last", last
	}
	var err error
	if r.Limit, err = pageRows(field, size, 50); err != nil {
		return nil, err
	}
	for _, bound := range []struct {
		argument *chat.Seq
		into     *chat.Seq
	}{{after, &r.After}, {before, &r.Before}} {
		if bound.argument == nil {
			continue
		}
		if *bound.argument < 0 {
			return nil, chat.ErrCursorAhead(c.Head)
		}
		*bound.into = *bound.argument
	}
	page, err := viewOf(ctx).Events(ctx, c, r)
	if err != nil {
		return nil, err
	}
	return eventConnection(c, page, r), nil
}

// eventConnection adds to a page what lies around it. What a viewer may see
// begins with the event at MinSeq and ends with the one at Head.
func eventConnection(c *chat.Conversation, page *store.EventPage, r store.EventRange) *graph.EventConnection {
	out := &graph.EventConnection{Edges: []*graph.EventEdge{}, Nodes: []chat.Event{}, PageInfo: &graph.EventPageInfo{}}
	for _, e := range page.Events {
		out.Nodes = append(out.Nodes, e)
		out.Edges = append(out.Edges, &graph.EventEdge{Cursor: e.Header().Seq, Node: e})
	}
	info := out.PageInfo
	before, behind := r.After >= c.MinSeq, r.Before <= c.Head
	if n := len(out.Edges); n > 0 {
		info.StartCursor, info.EndCursor = &out.Edges[0].Cursor, &out.Edges[n-1].Cursor
		before, behind = *info.StartCursor > c.MinSeq, *info.EndCursor < c.Head
	}
	if r.Backwards {
		info.HasPreviousPage, info.HasNextPage = page.More, behind
	} else {
		info.HasPreviousPage, info.HasNextPage = before, page.More
	}
	return out
}

func (conversationFields) Members(ctx context.Context, c *chat.Conversation, first *int32, after *string) (*graph.MemberConnection, error) {
	rows, err := pageRows("first", first, 50)
	if err != nil {
		return nil, err
	}
	from, err := parseMemberCursor(after, c.ID)
	if err != nil {
		return nil, err
	}
	page, err := viewOf(ctx).Members(ctx, c, store.MemberRange{After: from, Limit: rows})
	if err != nil {
		return nil, err
	}
	out := &graph.MemberConnection{Edges: []*graph.MemberEdge{}, Nodes: []*chat.Member{}, TotalCount: page.Total,
		PageInfo: &graph.PageInfo{HasNextPage: page.More, HasPreviousPage: after != nil}}
	for _, m := range page.Members {
		out.Nodes = append(out.Nodes, m)
		out.Edges = append(out.Edges, &graph.MemberEdge{Cursor: memberCursor(c.ID, m.User.ID), Node: m})
	}
	if n := len(out.Edges); n > 0 {
		out.PageInfo.StartCursor, out.PageInfo.EndCursor = &out.Edges[0].Cursor, &out.Edges[n-1].Cursor
	}
	return out, nil
}

type connectionFields struct{}

func (connectionFields) Badge(ctx context.Context, _ *graph.ConversationConnection) (*chat.Badge, error) {
	return viewOf(ctx).Badge(ctx)
}

func (connectionFields) SyncToken(ctx context.Context, _ *graph.ConversationConnection) (string, error) {
	return viewOf(ctx).SyncToken(ctx)
}

func conversationConnection(page *store.InboxPage, r store.InboxRange) *graph.ConversationConnection {
	out := &graph.ConversationConnection{Edges: []*graph.ConversationEdge{}, Nodes: []*chat.Conversation{},
		PageInfo: &graph.PageInfo{HasNextPage: page.More, HasPreviousPage: r.After != nil}}
	for _, c := range page.Conversations {
		out.Nodes = append(out.Nodes, c)
		out.Edges = append(out.Edges, &graph.ConversationEdge{Cursor: inboxCursor(c, r), Node: c})
	}
	if n := len(out.Edges); n > 0 {
		out.PageInfo.StartCursor, out.PageInfo.EndCursor = &out.Edges[0].Cursor, &out.Edges[n-1].Cursor
	}
	return out
}
