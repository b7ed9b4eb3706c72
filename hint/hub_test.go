package hint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"tidemark/chat"
)

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
	m, err := s.Subscribe(Inbox, "")
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
		if _, err := s.Subscribe(Inbox, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Subscribe(Inbox, ""); !errors.Is(err, &chat.Error{Code: chat.RateLimited}) {
		t.Errorf("one more: %v", err)
	}
}
