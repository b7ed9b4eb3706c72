package resolvers

import (
	"context"
	"crypto/rand"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/hint"
	"tidemark/store"
)

func (m mutation) PutUser(ctx context.Context, in graph.PutUserInput) (*graph.PutUserPayload, error) {
	id, err := userID("id", in.ID)
	if err != nil {
		return nil, err
	}
	name, rename := in.Name.ValueOK()
	if err := checkOptionalName("name", name); err != nil {
		return nil, err
	}
	u, err := m.store.PutUser(ctx, id, name, rename)
	if err != nil {
		return nil, err
	}
	return &graph.PutUserPayload{User: u}, nil
}

func (m mutation) CreateConversation(ctx context.Context, in graph.CreateConversationInput) (*graph.ConversationRefPayload, error) {
	name := chat.ID("c-" + rand.Text())
	if in.ID != nil {
		name = *in.ID
	}
	id, err := conversationID("id", name)
	if err != nil {
		return nil, err
	}
	if err := checkOptionalName("title", in.Title); err != nil {
		return nil, err
	}
	members, err := userIDs("memberIds", in.MemberIds, chat.MaxMembers)
	if err != nil {
		return nil, err
	}
	fresh := store.NewConversation{ID: id, Kind: in.Kind, Title: in.Title, Members: members}
	if in.ReceiptPolicy != nil {
		fresh.Policy = *in.ReceiptPolicy
	}
	made, created, err := m.store.CreateConversation(ctx, fresh)
	if err == nil {
		id = made // of a pair that exists, whatever id was asked for
	}
	m.tell(created, err, hint.Hint{Reason: hint.Membership, Conversation: id, Joined: members})
	if err != nil {
		return nil, err
	}
	return m.refPayload(ctx, id)
}

func (m mutation) AddMembers(ctx context.Context, in graph.AddMembersInput) (*graph.ConversationRefPayload, error) {
	id, users, err := membersOf(in.ConversationID, in.UserIds)
	if err != nil {
		return nil, err
	}
	history := chat.HistoryMembership
	if in.History != nil {
		history = *in.History
	}
	added, err := m.store.AddMembers(ctx, id, users, history)
	m.tell(len(added) > 0, err, hint.Hint{Reason: hint.Membership, Conversation: id, Joined: concerned(added, err, users)})
	if err != nil {
		return nil, err
	}
	return m.refPayload(ctx, id)
}

func (m mutation) RemoveMembers(ctx context.Context, in graph.RemoveMembersInput) (*graph.ConversationRefPayload, error) {
	id, users, err := membersOf(in.ConversationID, in.UserIds)
	if err != nil {
		return nil, err
	}
	removed, err := m.store.RemoveMembers(ctx, id, users)
	m.tell(len(removed) > 0, err, hint.Hint{Reason: hint.Membership, Conversation: id, Left: concerned(removed, err, nil)})
	if err != nil {
		return nil, err
	}
	return m.refPayload(ctx, id)
}

func (m mutation) UpdateConversation(ctx context.Context, in graph.UpdateConversationInput) (*graph.ConversationRefPayload, error) {
	id, err := conversationID("conversationId", in.ConversationID)
	if err != nil {
		return nil, err
	}
	change := store.ConversationChange{Policy: in.ReceiptPolicy}
	if change.Title, change.Retitle = in.Title.ValueOK(); change.Retitle {
		if err := checkOptionalName("title", change.Title); err != nil {
			return nil, err
		}
	}
	changed, err := m.store.UpdateConversation(ctx, id, change)
	m.tell(changed.Title, err, hint.Hint{Reason: hint.Notice, Conversation: id})
	m.tell(changed.Policy, err, hint.Hint{Reason: hint.Settings, Conversation: id}, hint.Hint{Reason: hint.Sharing, Conversation: id})
	if err != nil {
		return nil, err
	}
	return m.refPayload(ctx, id)
}

// concerned is whose membership changed, or may have when the answer was lost.
func concerned(changed []chat.UserID, err error, perhaps []chat.UserID) []chat.UserID {
	if err != nil {
		return perhaps
	}
	return changed
}

func membersOf(conv chat.ID, users []chat.ID) (chat.ConversationID, []chat.UserID, error) {
	id, err := conversationID("conversationId", conv)
	if err != nil {
		return "", nil, err
	}
	list, err := userIDs("userIds", users, chat.MaxMembers)
	return id, list, err
}

func (mutation) refPayload(ctx context.Context, id chat.ConversationID) (*graph.ConversationRefPayload, error) {
	ref, err := snapshotOf(ctx).Ref(ctx, id)
	return &graph.ConversationRefPayload{Conversation: ref}, err
}
