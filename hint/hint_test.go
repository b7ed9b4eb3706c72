package hint

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidemark/chat"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func take(t *testing.T, m *Mailbox) []Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	events, err := m.Take(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// idle fails if something is pending.
func idle(t *testing.T, m *Mailbox) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resync || len(m.order) > 0 {
		t.Fatalf("pending: resync %v, %v", m.resync, m.order)
	}
}

func isResync(events []Event) bool {
	return len(events) == 1 && slices.Equal(events[0].Reasons, []Reason{Resync}) && events[0].Conversation == ""
}

func TestMailboxMergesPerConversation(t *testing.T) {
	m := newMailbox(Inbox, "")
	if !isResync(take(t, m)) {
		t.Fatal("the first event is not RESYNC")
	}
	m.put(Hint{Reason: Message, Conversation: "a"}, "me")
	m.put(Hint{Reason: Read, Conversation: "b", Position: 5}, "me")
	m.put(Hint{Reason: Read, Conversation: "a", Position: 3, Device: "d1"}, "me")
	m.put(Hint{Reason: Message, Conversation: "a"}, "me")
	m.put(Hint{Reason: Read, Conversation: "a", Position: 2, Device: "d2"}, "me") // overtaken
	events := take(t, m)
	if len(events) != 2 || events[0].Conversation != "a" || events[1].Conversation != "b" {
		t.Fatalf("%+v", events)
	}
	if a := events[0]; !slices.Equal(a.Reasons, []Reason{Message, Read}) || a.Position != 3 || a.Device != "d1" || a.Last || !events[1].Last {
		t.Errorf("%+v", events)
	}
	m.put(Hint{Reason: Read, Conversation: "a", Position: 9}, "me")
	m.put(Hint{Reason: Read, Conversation: "a", Position: 4, Revision: 1}, "me") // went back on purpose
	if e := take(t, m)[0]; e.Position != 4 || e.Revision != 1 {
		t.Errorf("a larger revision is newer: %+v", e)
	}
	idle(t, m)
}

func TestMailboxCollapsesIntoResync(t *testing.T) {
	m := newMailbox(Inbox, "")
	take(t, m)
	for n := range maxPending + 1 {
		m.put(Hint{Reason: Message, Conversation: chat.ConversationID(fmt.Sprint(n))}, "me")
	}
	m.put(Hint{Reason: Message, Conversation: "one more"}, "me")
	if events := take(t, m); !isResync(events) {
		t.Errorf("%+v", events)
	}
	idle(t, m)
}

// TestMailboxLosesNothing: whatever is put while others take, the last thing put
// about a conversation is taken afterwards.
func TestMailboxLosesNothing(t *testing.T) {
	m := newMailbox(Inbox, "")
	take(t, m)
	const last = 2000
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range last {
			m.put(Hint{Reason: Read, Conversation: "c", Position: chat.Seq(n + 1)}, "me")
		}
	})
	for position := chat.Seq(0); position < last; {
		for _, e := range take(t, m) {
			if e.Position <= position {
				t.Fatalf("position %d after %d", e.Position, position)
			}
			position = e.Position
		}
	}
	wg.Wait()
	idle(t, m)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func waitFor(t *testing.T, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !true(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}

// TestReadsNeverGoBack: in whatever order a user's moves are told, to how many
// of their sessions and however they are taken, the positions of a conversation
// that a session hears of never go back, and the last one is the furthest. What
// the session moved itself counts as told.
func TestReadsNeverGoBack(t *testing.T) {
	var d database
	d.set("me", "c")
	h := run(t, &d)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		s, _ := open(t, h, fmt.Sprint("s", seed), "me")
		m, err := s.Subscribe(Reads, "")
		if err != nil {
			t.Fatal(err)
		}
		take(t, m)
		var hints []Hint
		var at place
		for range 1 + r.IntN(12) { // a reminder goes back and raises the revision
			hint := Hint{Reason: Read, User: "me", Conversation: "c"}
			if r.IntN(4) == 0 && at.position > 0 {
				hint.Reason, at.position = MarkedUnread, chat.Seq(r.Int64N(int64(at.position)))
				at.revision++
			} else {
				at.position += 1 + chat.Seq(r.IntN(5))
			}
			if hint.Position, hint.Revision = at.position, at.revision; r.IntN(5) == 0 {
				hint.Origin = Origin{User: "me", Session: s.ID}
			}
			hints = append(hints, hint)
		}
		own := place{}
		for _, hint := range hints {
			if p := (place{hint.Revision, hint.Position}); hint.causedBy(s) && own.behind(p) {
				own = p
			}
		}
		r.Shuffle(len(hints), func(i, j int) { hints[i], hints[j] = hints[j], hints[i] })
		var heard, moved place
		hear := func() {
			events, _ := m.drain()
			for i, e := range events {
				p := place{e.Revision, e.Position}
				if p.behind(heard) || p.behind(moved) || e.Last != (i == len(events)-1) {
					t.Fatalf("seed %d: %+v after %+v and its own %+v", seed, p, heard, moved)
				}
				heard = p
			}
		}
		for _, hint := range hints {
			h.Deliver([]Hint{hint})
			if p := (place{hint.Revision, hint.Position}); hint.causedBy(s) && moved.behind(p) {
				moved = p
			}
			if r.IntN(2) == 0 {
				hear()
			}
		}
		hear()
		if own != at && heard != at {
			t.Errorf("seed %d: heard of %+v at last, not of %+v", seed, heard, at)
		}
		s.Close()
	}
}

// TestReadsThatAreNotKnown: a move whose end the server could not learn is told
// whatever was told before, also where it is told as one with a move that was passed.
func TestReadsThatAreNotKnown(t *testing.T) {
	read := func(position chat.Seq) Hint { return Hint{Reason: Read, Conversation: "c", Position: position} }
	for name, order := range map[string][]chat.Seq{"alone": {0}, "behind": {5, 0}, "before": {0, 5}} {
		m := newMailbox(Reads, "")
		take(t, m)
		for _, position := range order {
			m.put(read(position), "me")
		}
		m.reach(read(9))
		if e := take(t, m)[0]; e.Position != 0 || e.Revision != 0 || !slices.Equal(e.Reasons, []Reason{Read}) {
			t.Errorf("%s: %+v", name, e)
		}
		idle(t, m)
	}
}

// TestWhatReadsRemember: what is told later than a RESYNC is not held against what
// was told before it, since a database may have been put back; but what the RESYNC
// finds is. Moves that are told as one, ALL_READ, count for each conversation. Of
// more than [maxPending] conversations those that moved last are remembered, and what was
// passed takes no place in the mailbox.
func TestWhatReadsRemember(t *testing.T) {
	var d database
	d.set("me", "c")
	h := run(t, &d)
	s, _ := open(t, h, "s", "me")
	m, err := s.Subscribe(Reads, "")
	if err != nil {
		t.Fatal(err)
	}
	tell := func(reason Reason, conv chat.ConversationID, position chat.Seq) {
		h.Deliver([]Hint{{Reason: reason, User: "me", Conversation: conv, Position: position}})
	}
	told := func(want ...chat.Seq) {
		t.Helper()
		events, _ := m.drain()
		var got []chat.Seq
		for _, e := range events {
			got = append(got, e.Position)
		}
		if !slices.Equal(got, want) {
			t.Errorf("told %v, not %v", got, want)
		}
	}
	tell(Read, "c", 7)
	told(0) // RESYNC, which finds 7
	tell(Read, "c", 5)
	told()
	tell(Read, "c", 100)
	told(100)
	m.putResync()
	told(0)
	tell(Read, "c", 60)
	told(60)
	tell(AllRead, "", 0)
	tell(AllRead, "c", 80)
	told(0)
	tell(Read, "c", 70)
	told()
	for n := range maxPending {
		tell(Read, chat.ConversationID(fmt.Sprint(n)), 2)
		tell(Read, "c", chat.Seq(100+n))
		told(2, chat.Seq(100+n))
	}
	tell(Read, "c", 90)
	tell(Read, "5", 1)
	told()
	if n := len(m.told.places); n != maxPending || len(m.told.order) != n {
		t.Errorf("%d places are remembered", n)
	}
	for n := range maxPending {
		tell(Read, chat.ConversationID(fmt.Sprint("new", n)), 3)
	}
	tell(Read, "c", 90)
	if events, _ := m.drain(); len(events) != maxPending || isResync(events) {
		t.Errorf("%d events", len(events))
	}
}
