package resolvers

import (
	"context"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/hint"
	"tidemark/store"
)

func (m mutation) SendMessage(ctx context.Context, in graph.SendMessageInput) (*graph.MessagePayload, error) {
	d, conv, err := deviceIn(ctx, in.ConversationID)
	if err != nil {
		return nil, err
	}
	if err := chat.CheckID("clientMessageId", string(in.ClientMessageID)); err != nil {
		return nil, err
	}
	if err := chat.CheckBody("body", in.Body); err != nil {
		return nil, err
	}
	if err := checkRevision("readRevision", in.ReadRevision); err != nil {
		return nil, err
	}
	mentions, err := userIDs("mentions", in.Mentions, chat.MaxMentions)
	if err != nil {
		return nil, err
	}
	r, err := m.lanes.sends.Do(ctx, conv, call[store.Draft, store.Appended]{
		in: store.Draft{Sender: d.UserID, ClientMessageID: string(in.ClientMessageID), Body: in.Body,
			Mentions: mentions, MentionsAll: in.MentionsAll != nil && *in.MentionsAll, ReadUpTo: in.ReadUpTo, ReadRevision: in.ReadRevision},
		hints: func(r store.Appended, err error) []hint.Hint {
			if err == nil {
				err = r.Err
			}
			hints := []hint.Hint{{Reason: hint.Message, Conversation: conv, Merge: r.Mode == chat.Pull, Origin: callerOf(ctx).hintOrigin()}}
			if r.Read.Moved || err != nil && in.ReadUpTo != nil {
				hints = append(hints, readHint(ctx, conv, r.Read))
			}
			return worthTelling(!r.Duplicate, err, hints...)
		}})
	if err == nil {
		err = r.Err
	}
	if err != nil {
		return nil, err
	}
	return m.messagePayload(ctx, conv, r.Seq, r.Duplicate)
}

func (m mutation) EditMessage(ctx context.Context, in graph.EditMessageInput) (*graph.MessagePayload, error) {
	d, conv, err := deviceIn(ctx, in.ConversationID)
	if err != nil {
		return nil, err
	}
	if err := chat.CheckBody("body", in.Body); err != nil {
		return nil, err
	}
	edit := store.Edit{Body: in.Body, MentionsAll: in.MentionsAll}
	if in.Mentions != nil {
		mentions, err := userIDs("mentions", in.Mentions, chat.MaxMentions)
		if err != nil {
			return nil, err
		}
		edit.Mentions = &mentions
	}
	changed, err := m.store.Edit(ctx, d.UserID, conv, in.Seq, edit)
	m.tell(changed, err, hint.Hint{Reason: hint.Edit, Conversation: conv, Origin: callerOf(ctx).hintOrigin()})
	if err != nil {
		return nil, err
	}
	return m.messagePayload(ctx, conv, in.Seq, false)
}

func (m mutation) RecallMessage(ctx context.Context, in graph.RecallMessageInput) (*graph.MessagePayload, error) {
	d, conv, err := deviceIn(ctx, in.ConversationID)
	if err != nil {
		return nil, err
	}
	changed, err := m.store.Recall(ctx, d.UserID, conv, in.Seq)
	m.tell(changed, err, hint.Hint{Reason: hint.Recall, Conversation: conv, Origin: callerOf(ctx).hintOrigin()})
	if err != nil {
		return nil, err
	}
	return m.messagePayload(ctx, conv, in.Seq, false)
}

func (m mutation) messagePayload(ctx context.Context, conv chat.ConversationID, seq chat.Seq, duplicate bool) (*graph.MessagePayload, error) {
	c, message, err := m.look(ctx, conv, seq)
	return &graph.MessagePayload{Message: message, Conversation: c, Duplicate: duplicate}, err
}

func (m mutation) LeaveConversation(ctx context.Context, in graph.LeaveConversationInput) (*graph.ConversationPayload, error) {
	d, conv, err := deviceIn(ctx, in.ConversationID)
	if err != nil {
		return nil, err
	}
	left, err := m.store.Leave(ctx, d.UserID, conv)
	m.tell(left, err, hint.Hint{Reason: hint.Membership, Conversation: conv, Left: []chat.UserID{d.UserID}, Origin: callerOf(ctx).hintOrigin()})
	if err != nil {
		return nil, err
	}
	c, _, err := m.look(ctx, conv, 0)
	return &graph.ConversationPayload{Conversation: c}, err
}

type conversationPayloadFields struct{}

func (conversationPayloadFields) Badge(ctx context.Context, _ *graph.ConversationPayload) (*chat.Badge, error) {
	return viewOf(ctx).Badge(ctx)
}
