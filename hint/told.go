package hint

import (
	"slices"

	"tidemark/chat"
)

// place is how far a move of the viewer's own position came.
type place struct {
	revision int32
	position chat.Seq
}

func (h Hint) place() place { return place{h.Revision, h.Position} }

func (p place) behind(q place) bool {
	return p.revision < q.revision || p.revision == q.revision && p.position < q.position
}

// known reports whether the hint or event said how far: zero means that it did not.
func (p place) known() bool { return p != place{} }

// told is how far a subscription has told, or its own session has gone, in the
// conversations that moved last. Hints overtake each other, between processes and
// between batches of one: a position that was passed must not come back.
type told struct {
	places map[chat.ConversationID]place
	order  []chat.ConversationID // by their last move
}

// passed reports whether more than p was told of the conversation.
func (t *told) passed(conv chat.ConversationID, p place) bool {
	return p.known() && p.behind(t.places[conv])
}

// reach notes a move, and forgets the conversation whose last move is the oldest
// beyond [maxPending].
func (t *told) reach(conv chat.ConversationID, p place) {
	if !p.known() || conv == "" {
		return
	}
	if at, ok := t.places[conv]; ok {
		if at.behind(p) {
			t.places[conv] = p
		}
		i := slices.Index(t.order, conv)
		t.order = append(slices.Delete(t.order, i, i+1), conv)
		return
	}
	if len(t.order) == maxPending {
		delete(t.places, t.order[0])
		t.order = slices.Delete(t.order, 0, 1)
	}
	if t.places == nil {
		t.places = map[chat.ConversationID]place{}
	}
	t.places[conv] = p
	t.order = append(t.order, conv)
}
