package hint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

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
	m := newMailbox()
	if !isResync(take(t, m)) {
		t.Fatal("the first event is not RESYNC")
	}
	m.put(Hint{Reason: Message, Conversation: "a"})
	m.put(Hint{Reason: Read, Conversation: "b", Position: 5})
	m.put(Hint{Reason: Read, Conversation: "a", Position: 3, Device: "d1"})
	m.put(Hint{Reason: Message, Conversation: "a"})
	m.put(Hint{Reason: Read, Conversation: "a", Position: 2, Device: "d2"}) // overtaken
	events := take(t, m)
	if len(events) != 2 || events[0].Conversation != "a" || events[1].Conversation != "b" {
		t.Fatalf("%+v", events)
	}
	if a := events[0]; !slices.Equal(a.Reasons, []Reason{Message, Read}) || a.Position != 3 || a.Device != "d1" || a.Last || !events[1].Last {
		t.Errorf("%+v", events)
	}
	m.put(Hint{Reason: Read, Conversation: "a", Position: 9})
	m.put(Hint{Reason: Read, Conversation: "a", Position: 4, Revision: 1}) // went back on purpose
	if e := take(t, m)[0]; e.Position != 4 || e.Revision != 1 {
		t.Errorf("a larger revision is newer: %+v", e)
	}
	idle(t, m)
}

func TestMailboxCollapsesIntoResync(t *testing.T) {
	m := newMailbox()
	take(t, m)
	for n := range maxPending + 1 {
		m.put(Hint{Reason: Message, Conversation: chat.ConversationID(fmt.Sprint(n))})
	}
	m.put(Hint{Reason: Message, Conversation: "one more"})
	if events := take(t, m); !isResync(events) {
		t.Errorf("%+v", events)
	}
	idle(t, m)
}

// TestMailboxLosesNothing: whatever is put while others take, the last thing put
// about a conversation is taken afterwards.
func TestMailboxLosesNothing(t *testing.T) {
	m := newMailbox()
	take(t, m)
	const last = 2000
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range last {
			m.put(Hint{Reason: Read, Conversation: "c", Position: chat.Seq(n + 1)})
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

// database is what a hub's loader reads in these tests.
type database struct {
	mu     sync.Mutex
	routes map[chat.UserID]Routes
	loads  int
	before func() // called while a load is under way, after it read
	err    error
}

func (d *database) load(_ context.Context, u chat.UserID) (Routes, error) {
	d.mu.Lock()
	d.loads++
	routes, before, err := d.routes[u], d.before, d.err
	d.mu.Unlock()
	if before != nil {
		before()
	}
	return routes, err
}

func (d *database) set(u chat.UserID, convs ...chat.ConversationID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.routes == nil {
		d.routes = map[chat.UserID]Routes{}
	}
	d.routes[u] = Routes{Conversations: convs, Credentials: map[chat.DeviceID]string{"d": "good"}}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// run runs a hub until the test ends.
func run(t *testing.T, d *database) *Hub {
	h := NewHub(d.load, quiet())
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { h.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return h
}

func open(t *testing.T, h *Hub, id string, u chat.UserID) (*Session, *Mailbox) {
	t.Helper()
	s, err := h.Open(t.Context(), Session{ID: id, User: u, Device: "d", Credential: "good", End: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	m, err := s.Subscribe(Inbox)
	if err != nil {
		t.Fatal(err)
	}
	take(t, m) // RESYNC
	return s, m
}

func TestHubRoutes(t *testing.T) {
	d := &database{}
	d.set("ana", "c1", "c2")
	d.set("ben", "c1")
	h := run(t, d)
	_, ana := open(t, h, "s1", "ana")
	_, ana2 := open(t, h, "s2", "ana")
	_, ben := open(t, h, "s3", "ben")
	h.Deliver([]Hint{{Reason: Message, Conversation: "c2", Origin: Origin{User: "ana", Session: "s1"}}})
	if e := take(t, ana2)[0]; e.Conversation != "c2" {
		t.Errorf("%+v", e)
	}
	idle(t, ana) // caused it
	idle(t, ben) // is no member
	// A session named by somebody else is not left out.
	h.Deliver([]Hint{{Reason: Message, Conversation: "c1", Origin: Origin{User: "ben", Session: "s1"}}})
	for _, m := range []*Mailbox{ana, ana2, ben} {
		take(t, m)
	}
	h.Deliver([]Hint{{Reason: Read, Conversation: "c1", User: "ana", Position: 3}})
	take(t, ana)
	take(t, ana2)
	idle(t, ben)
	h.Deliver([]Hint{{Reason: Message, Conversation: "unknown"}, {Reason: Read, User: "nobody", Conversation: "c1"}})
	for _, m := range []*Mailbox{ana, ana2, ben} {
		idle(t, m)
	}
}

func TestHubMembershipChangesRoutesAtOnce(t *testing.T) {
	d := &database{}
	d.set("ana", "c1")
	d.set("ben")
	h := run(t, d)
	_, ana := open(t, h, "s1", "ana")
	_, ben := open(t, h, "s2", "ben")
	d.set("ben", "c1")
	h.Deliver([]Hint{{Reason: Membership, Conversation: "c1", Joined: []chat.UserID{"ben"}}, {Reason: Message, Conversation: "c1"}})
	if e := take(t, ben)[0]; !slices.Equal(e.Reasons, []Reason{Membership, Message}) {
		t.Errorf("the newcomer: %+v", e)
	}
	take(t, ana)
	d.set("ben")
	h.Deliver([]Hint{{Reason: Membership, Conversation: "c1", Left: []chat.UserID{"ben"}}, {Reason: Message, Conversation: "c1"}})
	if e := take(t, ben)[0]; !slices.Equal(e.Reasons, []Reason{Membership}) {
		t.Errorf("the leaver hears of what came after: %+v", e)
	}
}

// TestHubHintsThatOvertakeEachOther: a leave that arrives after the rejoin that
// followed it does not cut the route for good.
func TestHubHintsThatOvertakeEachOther(t *testing.T) {
	d := &database{}
	d.set("ben", "c1")
	h := run(t, d)
	_, ben := open(t, h, "s", "ben")
	h.Deliver([]Hint{{Reason: Membership, Conversation: "c1", Joined: []chat.UserID{"ben"}}, {Reason: Membership, Conversation: "c1", Left: []chat.UserID{"ben"}}})
	waitFor(t, "the route is back", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.rooms["c1"]) == 1
	})
	take(t, ben)
	h.Deliver([]Hint{{Reason: Message, Conversation: "c1"}})
	for {
		if e := take(t, ben)[0]; slices.Contains(e.Reasons, Message) {
			return
		}
	}
}

// TestHubRepeatsALoadThatIsOlderThanADoubt: what was read before a membership
// hint is not used after it.
func TestHubRepeatsALoadThatIsOlderThanADoubt(t *testing.T) {
	d := &database{}
	d.set("ben")
	h := run(t, d)
	_, ben := open(t, h, "s1", "ben")
	once := sync.OnceFunc(func() {
		d.set("ben", "c1")
		h.Deliver([]Hint{{Reason: Membership, Conversation: "c1", Joined: []chat.UserID{"ben"}}})
	})
	d.mu.Lock()
	d.before = once
	d.mu.Unlock()
	open(t, h, "s2", "ben")
	h.mu.Lock()
	routed := len(h.rooms["c1"])
	h.mu.Unlock()
	if routed != 1 {
		t.Error("a load that read the database before the join undid it")
	}
	take(t, ben)
}

func TestHubEndsSessionsWhoseCredentialEnded(t *testing.T) {
	d := &database{}
	d.set("ben")
	h := run(t, d)
	ended := make(chan struct{})
	s, err := h.Open(t.Context(), Session{ID: "s", User: "ben", Device: "d", Credential: "good", End: sync.OnceFunc(func() { close(ended) })})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d.mu.Lock()
	d.routes["ben"] = Routes{Credentials: map[chat.DeviceID]string{"d": "rotated"}}
	d.mu.Unlock()
	h.Deliver([]Hint{{Reason: Credential, User: "ben"}})
	<-ended
	if _, err := h.Open(t.Context(), Session{ID: "s2", User: "ben", Device: "d", Credential: "good", End: func() {}}); !errors.Is(err, &chat.Error{Code: chat.Unauthenticated}) {
		t.Errorf("a session with the old credential: %v", err)
	}
}

func TestHubKeepsTryingWhenRoutesCannotBeRead(t *testing.T) {
	d := &database{}
	d.set("ben", "c1")
	h := run(t, d)
	_, ben := open(t, h, "s", "ben")
	d.mu.Lock()
	d.err = errors.New("the database is gone")
	d.mu.Unlock()
	h.ResyncAll()
	waitFor(t, "it was tried", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.loads > 2 })
	idle(t, ben)
	d.mu.Lock()
	d.err = nil
	d.mu.Unlock()
	if events := take(t, ben); !isResync(events) {
		t.Errorf("%+v", events)
	}
}

func TestHubForgetsSessions(t *testing.T) {
	d := &database{}
	d.set("ben", "c1")
	h := run(t, d)
	s, err := h.Open(t.Context(), Session{ID: "s", User: "ben", Device: "d", Credential: "good", End: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if len(h.people)+len(h.rooms)+len(h.dirty) != 0 {
		t.Errorf("left behind: %v %v %v", h.people, h.rooms, h.dirty)
	}
	h.Close()
	if _, err := h.Open(t.Context(), Session{User: "ben", Device: "d", Credential: "good"}); err != ErrClosed {
		t.Errorf("a closed hub: %v", err)
	}
}

func waitFor(t *testing.T, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !true(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}

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

// TestHubEndsCredentialsBeforeItResyncs: a revoked session does not wait behind
// everybody's routes.
func TestHubEndsCredentialsBeforeItResyncs(t *testing.T) {
	d := &database{}
	h := NewHub(d.load, quiet())
	for n := range 50 {
		u := chat.UserID(fmt.Sprint("u", n))
		d.set(u)
		open(t, h, "s", u)
	}
	h.ResyncAll()
	h.Deliver([]Hint{{Reason: Credential, User: "u25"}})
	if p, urgent := h.nextDirty(); p.user != "u25" || !urgent {
		t.Errorf("%s is next", p.user)
	}
	left := 0
	for p, _ := h.nextDirty(); p != nil; p, _ = h.nextDirty() {
		left++
	}
	if left != 49 {
		t.Errorf("%d left", left)
	}
}

// TestSessionsHaveFewSubscriptions: a bounded number of mailboxes each.
func TestSessionsHaveFewSubscriptions(t *testing.T) {
	d := &database{}
	d.set("ben")
	s, _ := open(t, run(t, d), "s", "ben")
	for range maxMailboxes - 1 {
		if _, err := s.Subscribe(Inbox); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Subscribe(Inbox); !errors.Is(err, &chat.Error{Code: chat.RateLimited}) {
		t.Errorf("one more: %v", err)
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
