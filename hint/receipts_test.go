package hint

import (
	"fmt"
	"slices"
	"testing"

	"tidemark/chat"
)

// watcher subscribes a session to the receipts of a conversation.
func watcher(t *testing.T, s *Session, conv chat.ConversationID) *Mailbox {
	t.Helper()
	m, err := s.Subscribe(Receipts, conv)
	if err != nil {
		t.Fatal(err)
	}
	take(t, m) // RESYNC
	return m
}

// TestWatchersHearOfMovesOnly: of what is shown, of others, in their
// conversation, and not of what they caused.
func TestWatchersHearOfMovesOnly(t *testing.T) {
	d := &database{}
	for _, u := range []chat.UserID{"ana", "ben"} {
		d.set(u, "c1", "c2")
	}
	h := run(t, d)
	s, inbox := open(t, h, "s1", "ana")
	_, bens := open(t, h, "s2", "ben")
	m := watcher(t, s, "c1")
	move := func(reason Reason, conv chat.ConversationID, u chat.UserID, shown bool) Hint {
		return Hint{Reason: reason, Conversation: conv, User: u, Position: 5, Previous: 3, Shown: shown}
	}
	h.Deliver([]Hint{
		move(Read, "c2", "ben", true), move(Read, "c1", "ben", false), move(Read, "c1", "ana", true), {Reason: Message, Conversation: "c1"},
		{Reason: Delivered, Conversation: "c1", User: "ben", Position: 4, Shown: true, Origin: Origin{User: "ana", Session: "s1"}},
	})
	idle(t, m)
	if e := take(t, inbox); len(e) != 1 || e[0].Conversation != "c1" || !slices.Equal(e[0].Reasons, []Reason{Read, Message}) {
		t.Errorf("ana's inbox: %+v", e)
	}
	h.Deliver([]Hint{move(Read, "c1", "ben", true), move(Delivered, "c1", "ben", true), move(AllRead, "c1", "cho", true)})
	events := take(t, m)
	if len(events) != 2 || events[0].User != "ben" || !slices.Equal(events[0].Reasons, []Reason{Read, Delivered}) || events[0].Previous != 3 || events[0].Position != 5 || events[1].User != "cho" {
		t.Errorf("%+v", events)
	}
	idle(t, inbox) // other people's positions are nothing for it
	if e := take(t, bens); len(e) != 2 {
		t.Errorf("ben's own reads: %+v", e)
	}
	s.Unsubscribe(m)
	if len(h.watched) != 0 {
		t.Errorf("still watched: %v", h.watched)
	}
}

// TestWatchersOfACrowd: beyond as many users as a mailbox tells apart, there is
// one event about all of them, from the smallest position to the largest.
func TestWatchersOfACrowd(t *testing.T) {
	m := newMailbox(Receipts, "c")
	take(t, m)
	for n := range maxPending + 10 {
		m.put(Hint{Reason: Read, Conversation: "c", User: chat.UserID(fmt.Sprint("u", n)), Previous: chat.Seq(100 - n), Position: chat.Seq(200 + n)}, "me")
	}
	m.put(Hint{Reason: Sharing, Conversation: "c", User: "me"}, "me")
	events := take(t, m)
	if len(events) != 1 || events[0].User != "" || events[0].Previous != 100-maxPending-9 || events[0].Position != 200+maxPending+9 || !events[0].Own {
		t.Errorf("%+v", events)
	}
	m.put(Hint{Reason: Delivered, Conversation: "c", User: "u1", Position: 7}, "me")
	if events = take(t, m); len(events) != 1 || events[0].User != "u1" {
		t.Errorf("afterwards: %+v", events)
	}
}

// TestWatchersSeeTheLargestPosition: whatever the revisions of the moves are.
func TestWatchersSeeTheLargestPosition(t *testing.T) {
	m := newMailbox(Receipts, "c")
	take(t, m)
	m.put(Hint{Reason: Read, Conversation: "c", User: "ben", Previous: 2, Position: 4, Revision: 3}, "me")
	m.put(Hint{Reason: Delivered, Conversation: "c", User: "ben", Previous: 1, Position: 9}, "me")
	m.put(Hint{Reason: Sharing, Conversation: "c", User: "ben"}, "me")
	m.put(Hint{Reason: Sharing, Conversation: "c", User: "cho"}, "me")
	events := take(t, m)
	if len(events) != 2 || events[0].Previous != 1 || events[0].Position != 9 || events[0].Unknown || len(events[1].Reasons) != 1 || events[1].Own {
		t.Errorf("%+v", events)
	}
	m.put(Hint{Reason: Read, Conversation: "c", User: "ben"}, "me")
	if events = take(t, m); !events[0].Unknown {
		t.Errorf("a move to nobody knows where: %+v", events)
	}
}

// TestAllReadIsToldOncePerTopic: those who watch their reads hear of it once,
// those who watch their inbox of each conversation.
func TestAllReadIsToldOncePerTopic(t *testing.T) {
	d := &database{}
	d.set("ana", "c1", "c2")
	h := run(t, d)
	s, inbox := open(t, h, "s1", "ana")
	reads, err := s.Subscribe(Reads, "")
	if err != nil {
		t.Fatal(err)
	}
	take(t, reads)
	h.Deliver([]Hint{{Reason: AllRead, User: "ana", Device: "d2"}, {Reason: AllRead, User: "ana", Conversation: "c1"}, {Reason: AllRead, User: "ana", Conversation: "c2"}})
	if e := take(t, reads); len(e) != 1 || e[0].Conversation != "" || e[0].Move != AllRead || e[0].Device != "d2" {
		t.Errorf("reads: %+v", e)
	}
	if e := take(t, inbox); len(e) != 2 || e[0].Conversation != "c1" {
		t.Errorf("inbox: %+v", e)
	}
	// Settings are the user's own, or the conversation's.
	h.Deliver([]Hint{{Reason: Settings, Conversation: "c1", User: "ben"}})
	idle(t, inbox)
	h.Deliver([]Hint{{Reason: Settings, Conversation: "c1", User: "ana"}, {Reason: Settings, Conversation: "c2"}})
	if e := take(t, inbox); len(e) != 2 {
		t.Errorf("settings: %+v", e)
	}
}
