package resolvers

import (
	"context"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/hint"
)

func (m mutation) PostNotice(ctx context.Context, in graph.PostNoticeInput) (*graph.ConversationRefPayload, error) {
	conv, err := conversationID("conversationId", in.ConversationID)
	if err != nil {
		return nil, err
	}
	if err := chat.CheckBody("text", in.Text); err != nil {
		return nil, err
	}
	var id *string
	if in.NoticeID != nil {
		text := string(*in.NoticeID)
		if err := chat.CheckID("noticeId", text); err != nil {
			return nil, err
		}
		id = &text
	}
	appended, err := m.store.PostNotice(ctx, conv, in.Text, id)
	m.tell(appended, err, hint.Hint{Reason: hint.Notice, Conversation: conv})
	if err != nil {
		return nil, err
	}
	return m.refPayload(ctx, conv)
}

func (m mutation) TakeDownMessage(ctx context.Context, in graph.TakeDownMessageInput) (*graph.ConversationRefPayload, error) {
	conv, err := conversationID("conversationId", in.ConversationID)
	if err != nil {
		return nil, err
	}
	changed, err := m.store.TakeDown(ctx, conv, in.Seq)
	m.tell(changed, err, hint.Hint{Reason: hint.TakeDown, Conversation: conv})
	if err != nil {
		return nil, err
	}
	return m.refPayload(ctx, conv)
}

// erasureTimeout is how long an erasure may take; its answer must still fit into slowAnswer.
const erasureTimeout = slowAnswer - requestTimeout

func (m mutation) EraseUser(ctx context.Context, in graph.EraseUserInput) (*graph.EraseUserPayload, error) {
	user, err := userID("userId", in.UserID)
	if err != nil {
		return nil, err
	}
	// Somebody who has written a lot takes longer to forget than other calls may.
	erasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), erasureTimeout)
	defer cancel()
	erased, err := m.store.EraseUser(erasing, user)
	hints := []hint.Hint{{Reason: hint.Credential, User: user}}
	for _, c := range erased.Left {
		hints = append(hints, hint.Hint{Reason: hint.Membership, Conversation: c, Left: []chat.UserID{user}})
	}
	for _, c := range erased.Unmentioned {
		hints = append(hints, hint.Hint{Reason: hint.Edit, Conversation: c})
	}
	for _, c := range erased.Ever {
		hints = append(hints, hint.Hint{Reason: hint.Sharing, Conversation: c, User: user})
	}
	m.tell(true, err, hints...)
	if err == nil {
		err = m.forgetMessages(erasing, user)
	}
	if err == nil {
		err = m.store.ForgetTraces(erasing, user)
	}
	if err != nil {
		return nil, err
	}
	return &graph.EraseUserPayload{UserID: user}, nil
}

// forgetMessages forgets what an erased user wrote, piece by piece. A call that
// fails on the way has erased the user all the same; called again it goes on.
func (m mutation) forgetMessages(ctx context.Context, user chat.UserID) error {
	for after := (chat.MessageKey{}); ; {
		through, err := m.store.ForgetMessages(ctx, user, after)
		if through != nil {
			m.relay.Tell(hint.Hint{Reason: hint.TakeDown, Conversation: through.Conversation})
		}
		if err != nil || through == nil {
			return err
		}
		after = *through
	}
}
