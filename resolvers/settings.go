package resolvers

import (
	"context"

	"tidemark/graph"
	"tidemark/hint"
	"tidemark/store"
)

func (m mutation) UpdateConversationSettings(ctx context.Context, in graph.ConversationSettingsInput) (*graph.ConversationPayload, error) {
	d, conv, err := deviceIn(ctx, in.ConversationID)
	if err != nil {
		return nil, err
	}
	changed, err := m.store.UpdateSettings(ctx, d.UserID, conv, store.Settings{Pinned: in.Pinned, Muted: in.Muted, Archived: in.Archived})
	m.tell(changed, err, hint.Hint{Reason: hint.Settings, Conversation: conv, User: d.UserID, Origin: callerOf(ctx).hintOrigin()})
	if err != nil {
		return nil, err
	}
	c, _, err := m.look(ctx, conv, 0)
	return &graph.ConversationPayload{Conversation: c}, err
}

func (m mutation) SetReadSharing(ctx context.Context, in graph.ReadSharingInput) (*graph.ReadSharingPayload, error) {
	d, err := deviceOf(ctx)
	if err != nil {
		return nil, err
	}
	where, err := m.store.SetReadSharing(ctx, d.UserID, in.Share)
	if err != nil {
		return nil, err
	}
	for _, conv := range where {
		m.relay.Tell(hint.Hint{Reason: hint.Sharing, Conversation: conv, User: d.UserID, Origin: callerOf(ctx).hintOrigin()})
	}
	return &graph.ReadSharingPayload{Share: in.Share}, nil
}
