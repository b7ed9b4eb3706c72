package resolvers

import (
	"context"

	"github.com/99designs/gqlgen/graphql"

	"tidemark/chat"
	"tidemark/store"
)

// parts are the fields that are read by themselves, through a snapshot of the
// operation's own. All others come with the row that they belong to.
var parts = map[string][]string{
	"Conversation": {"lastMessage", "firstUnread", "firstUnreadMention", "events", "members"},
	"Message":      {"receipt"},
}

// selected is what an operation selects of the payload or the event that is
// being resolved.
type selected struct {
	conversation, message, badge bool
	// rows says that rows alone answer it, so that they can be read together
	// with those of others.
	rows bool
}

// selectionOf looks at the fields below the one that is being resolved.
func selectionOf(ctx context.Context) selected {
	s := selected{rows: true}
	for _, f := range graphql.CollectFieldsCtx(ctx, nil) {
		switch f.Name {
		case "conversation":
			s.conversation = true
			s.rows = s.rows && !selectsPart(ctx, f, "Conversation")
		case "message":
			s.message = true
			s.rows = s.rows && !selectsPart(ctx, f, "Message")
		case "badge":
			s.badge = true
		}
	}
	return s
}

func selectsPart(ctx context.Context, f graphql.CollectedField, of string) bool {
	// Without a type, so that fragments on interfaces are looked into as well.
	for _, child := range graphql.CollectFields(graphql.GetOperationContext(ctx), f.Selections, nil) {
		for _, part := range parts[of] {
			if child.Name == part {
				return true
			}
		}
	}
	return false
}

// want is what of a conversation and a message in it is selected.
func (s selected) want(v store.Viewer, conv chat.ConversationID, seq chat.Seq) store.Want {
	w := store.Want{Viewer: v, Badge: s.badge}
	if s.conversation {
		w.Conversation = conv
	}
	if s.message && seq != 0 {
		w.Message = chat.MessageKey{Conversation: conv, Seq: seq}
	}
	return w
}

// look reads what a mutation's payload selects of the conversation that it was
// about, and of the message at seq, if that is not 0: together with what other
// callers wait for, if rows alone answer it, else in a snapshot of its own.
func (m mutation) look(ctx context.Context, conv chat.ConversationID, seq chat.Seq) (c *chat.Conversation, message *chat.Message, err error) {
	s, view := selectionOf(ctx), viewOf(ctx)
	if s.rows && (s.conversation || s.message || s.badge) {
		found, err := m.lanes.payloads.Do(ctx, struct{}{}, s.want(callerOf(ctx).viewer(), conv, seq))
		if err == nil {
			view.Hold(found)
		} else if ctx.Err() != nil {
			return nil, nil, err
		} // otherwise in a snapshot of its own: what was written must be answered
	}
	if s.message && seq != 0 {
		if message, err = view.Message(ctx, conv, seq); err != nil {
			return nil, nil, err
		}
	}
	if s.conversation {
		c, err = view.Conversation(ctx, conv)
	}
	return c, message, err
}
