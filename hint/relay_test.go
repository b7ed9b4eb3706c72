package hint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidemark/chat"
)

// wire is a bus within the test; it can lose payloads.
type wire struct {
	mu        sync.Mutex
	listeners map[int]func([]byte)
	next      int
	lose      func([]byte) bool
	max       int
	sent      [][]byte
}

func (w *wire) MaxPayload() int { return w.max }

func (w *wire) Publish(_ context.Context, payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, payload)
	if w.lose != nil && w.lose(payload) {
		return nil
	}
	for _, deliver := range w.listeners {
		deliver(payload)
	}
	return nil
}

func (w *wire) Listen(ctx context.Context, connected func(), deliver func([]byte)) {
	w.mu.Lock()
	if w.listeners == nil {
		w.listeners = map[int]func([]byte){}
	}
	w.next++
	n := w.next
	w.listeners[n] = deliver
	w.mu.Unlock()
	connected()
	<-ctx.Done()
	w.mu.Lock()
	delete(w.listeners, n)
	w.mu.Unlock()
}

// relays starts n processes on a wire, each with a session of ben.
func relays(t *testing.T, w *wire, n int) (rs []*Relay, ms []*Mailbox) {
	t.Helper()
	if w.max == 0 {
		w.max = 7900
	}
	for i := range n {
		d := &database{}
		d.set("ben", "c1")
		h := run(t, d)
		r := NewRelay(h, w, quiet())
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { r.Run(ctx) })
		t.Cleanup(func() { cancel(); wg.Wait() })
		waitFor(t, "the relay hears itself", r.Healthy)
		_, m := open(t, h, fmt.Sprint("s", i), "ben")
		rs, ms = append(rs, r), append(ms, m)
	}
	return rs, ms
}

func TestRelayPassesHintsOn(t *testing.T) {
	rs, ms := relays(t, &wire{}, 2)
	rs[0].Tell(Hint{Reason: Read, User: "ben", Conversation: "c1", Position: 4})
	for _, m := range ms {
		if e := take(t, m)[0]; e.Position != 4 {
			t.Errorf("%+v", e)
		}
	}
}

func TestRelayResyncsAfterAGap(t *testing.T) {
	w := &wire{}
	rs, ms := relays(t, w, 2)
	tell := func(seq chat.Seq) {
		rs[0].Tell(Hint{Reason: Read, User: "ben", Conversation: "c1", Position: seq})
		take(t, ms[0])
	}
	tell(1)
	take(t, ms[1])
	sent := func() int { w.mu.Lock(); defer w.mu.Unlock(); return len(w.sent) }
	w.mu.Lock()
	w.lose = func(p []byte) bool { return strings.Contains(string(p), `"s":2`) }
	w.mu.Unlock()
	before := sent()
	tell(2) // lost
	waitFor(t, "it was sent", func() bool { return sent() > before })
	tell(3)
	for {
		if isResync(take(t, ms[1])) {
			return
		}
	}
}

func TestRelayResyncsWhenAPeerVanishes(t *testing.T) {
	rs, ms := relays(t, &wire{}, 1)
	r := rs[0]
	send := func(m message) {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		r.receive(b)
	}
	send(message{Process: "polite", Number: 3})
	send(message{Process: "polite", Number: 3, Bye: true})
	r.checkSilence(time.Now())
	idle(t, ms[0])
	send(message{Process: "abrupt", Number: 3})
	idle(t, ms[0]) // it may have spoken before we listened
	r.mu.Lock()
	r.peers["abrupt"].heard = time.Now().Add(-2 * silence)
	r.mu.Unlock()
	r.checkSilence(time.Now())
	if !isResync(take(t, ms[0])) {
		t.Error("no RESYNC")
	}
	r.checkSilence(time.Now())
	idle(t, ms[0]) // once
	// It is back: what it said meanwhile is lost.
	r.mu.Lock()
	r.hearing = time.Now().Add(-2 * silence)
	r.mu.Unlock()
	send(message{Process: "abrupt", Number: 9})
	if !isResync(take(t, ms[0])) {
		t.Error("no RESYNC for what was said while it was given up")
	}
	send(message{Process: "new", Number: 0})
	idle(t, ms[0])
	send(message{Process: "quick", Number: 1, Hints: []Hint{{Reason: Read, User: "nobody"}}})
	idle(t, ms[0]) // its first words, all of them
	send(message{Process: "gone before", Number: 7, Bye: true})
	if !isResync(take(t, ms[0])) {
		t.Error("no RESYNC for what was said before a goodbye out of nowhere")
	}
}

// TestRelayListensAnewWhenItIsDeaf: a connection that is dead without having
// ended is given up.
func TestRelayListensAnewWhenItIsDeaf(t *testing.T) {
	w := &wire{}
	rs, ms := relays(t, w, 1)
	w.mu.Lock()
	clear(w.listeners) // whoever listens now hears nothing any more
	before := w.next
	w.mu.Unlock()
	rs[0].checkSilence(time.Now().Add(2 * silence))
	waitFor(t, "it listens anew", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.next > before && len(w.listeners) == 1 })
	waitFor(t, "it hears itself", func() bool { rs[0].mu.Lock(); defer rs[0].mu.Unlock(); return !rs[0].deaf })
	if !isResync(take(t, ms[0])) {
		t.Error("no RESYNC")
	}
}

// TestRelayEndsWithEverythingSaid: hints that wait at the shutdown leave before
// the goodbye.
func TestRelayEndsWithEverythingSaid(t *testing.T) {
	for range 20 {
		w := &wire{max: 7900}
		d := &database{}
		d.set("ben", "c1")
		r := NewRelay(run(t, d), w, quiet())
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { r.Run(ctx) })
		waitFor(t, "the relay hears itself", r.Healthy)
		r.Tell(Hint{Reason: Read, User: "ben", Conversation: "c1", Position: 7})
		cancel()
		wg.Wait()
		var last, hints message
		for _, payload := range w.sent {
			var m message
			if err := json.Unmarshal(payload, &m); err != nil {
				t.Fatal(err)
			}
			if last = m; len(m.Hints) > 0 {
				hints = m
			}
		}
		if !last.Bye || len(hints.Hints) != 1 || hints.Number != last.Number {
			t.Fatalf("hints %+v, then %+v", hints, last)
		}
	}
}

func TestRelayResyncsWhenItDoesNotHearItself(t *testing.T) {
	rs, ms := relays(t, &wire{}, 1)
	r := rs[0]
	r.checkSilence(time.Now().Add(2 * silence))
	if !isResync(take(t, ms[0])) {
		t.Error("no RESYNC")
	}
}

func TestRelayTellsOfDroppedHints(t *testing.T) {
	w := &wire{}
	rs, ms := relays(t, w, 2)
	rs[0].Tell(slices.Repeat([]Hint{{Reason: Read, User: "ben", Conversation: "c1", Position: 1}}, maxQueue+1)...)
	for {
		if isResync(take(t, ms[1])) {
			return
		}
	}
}

// TestSplitKeepsEveryHintAndTheLimit: whatever the hints, no message is too
// large, and together they say the same.
func TestSplitKeepsEveryHintAndTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[<a-zé"\\]{1,60}`)
		users := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) chat.UserID { return chat.UserID(id.Draw(t, "user")) }), 0, 300)
		hints := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Hint {
			return Hint{Reason: Membership, Conversation: chat.ConversationID(id.Draw(t, "conversation")), Joined: users.Draw(t, "joined"), Left: users.Draw(t, "left")}
		}), 0, 20).Draw(t, "hints")
		var joined, left, wantJoined, wantLeft int
		for _, h := range hints {
			wantJoined, wantLeft = wantJoined+len(h.Joined), wantLeft+len(h.Left)
		}
		for _, part := range split(hints, 7900-envelope) {
			b, err := json.Marshal(message{Process: strings.Repeat("x", 26), Number: 1 << 50, Hints: part})
			if err != nil || len(b) > 7900 {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
			for _, h := range part {
				joined, left = joined+len(h.Joined), left+len(h.Left)
			}
		}
		if joined != wantJoined || left != wantLeft {
			t.Fatalf("%d joined and %d left of %d and %d", joined, left, wantJoined, wantLeft)
		}
	})
}
