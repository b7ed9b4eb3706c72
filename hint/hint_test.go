package hint

import (
	"context"
	"fmt"
	"log/slog"
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
