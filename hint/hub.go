package hint

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"tidemark/chat"
)

// Routes is what the database knows about a user's sessions.
type Routes struct {
	// Conversations are those that the user is a member of now.
	Conversations []chat.ConversationID
	// Credentials are those of the user's devices that are still good.
	Credentials map[chat.DeviceID]string
}

// Loader reads a user's routes. It may be called from several goroutines.
type Loader func(ctx context.Context, user chat.UserID) (Routes, error)

// Topic selects which hints a subscription wants.
type Topic int

const (
	// Reads are moves of the user's own read positions.
	Reads Topic = iota
	// Inbox is everything that can change the user's list or badge.
	Inbox
	// Receipts are others' positions in one conversation.
	Receipts
)

// Hub knows the sessions of this process and which hints concern them. Routing
// goes user → conversations; it is read when a session of the user opens, kept
// by membership hints, and read again whenever it is in doubt.
//
// Nothing that calls the hub waits for a session: mailboxes do not block.
type Hub struct {
	load Loader
	log  *slog.Logger

	mu     sync.Mutex
	people map[chat.UserID]*person
	rooms  map[chat.ConversationID]map[*person]struct{}
	// watched has the mailboxes with Receipts of each conversation, and whose they are.
	watched map[chat.ConversationID]map[*Mailbox]*Session
	dirty   map[*person]struct{} // whose routes are to be read again
	urgent  map[*person]struct{} // those of them whose credential has changed
	wake    chan struct{}        // holds a token while dirty is not empty
	closed  bool
}

// person is a user with at least one session here.
type person struct {
	user     chat.UserID
	sessions map[*Session]struct{}
	rooms    map[chat.ConversationID]struct{}
	// generation counts what made the routes doubtful. Routes that were loaded
	// under an older one are not used.
	generation int
	// resync says that hints may have been missed: told once the routes are read again.
	resync bool
}

// NewHub makes a hub that reads routes by load. [Hub.Run] must run for its
// sessions to be kept up to date.
func NewHub(load Loader, log *slog.Logger) *Hub {
	return &Hub{load: load, log: log, wake: make(chan struct{}, 1),
		people: map[chat.UserID]*person{}, rooms: map[chat.ConversationID]map[*person]struct{}{},
		watched: map[chat.ConversationID]map[*Mailbox]*Session{}, dirty: map[*person]struct{}{}, urgent: map[*person]struct{}{}}
}

// loadTimeout is how long one reading of routes may take. A database that does
// not answer must not keep everybody else's routes waiting.
const loadTimeout = 5 * time.Second

// refresh reads a person's routes until nothing made them doubtful meanwhile.
func (h *Hub) refresh(ctx context.Context, p *person) (Routes, error) {
	for {
		h.mu.Lock()
		generation := p.generation
		h.mu.Unlock()
		loading, cancel := context.WithTimeout(ctx, loadTimeout)
		routes, err := h.load(loading, p.user)
		cancel()
		if err != nil {
			return Routes{}, err
		}
		if h.apply(p, routes, generation) {
			return routes, nil
		}
	}
}

// apply makes routes a person's, unless they were read before the newest doubt.
// Sessions whose credential has ended are ended. A conversation that was not
// known before may have sent hints past us, so that it is hinted now.
func (h *Hub) apply(p *person, routes Routes, generation int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.generation != generation {
		return false
	}
	if len(p.sessions) == 0 {
		return true
	}
	now := make(map[chat.ConversationID]struct{}, len(routes.Conversations))
	for _, c := range routes.Conversations {
		now[c] = struct{}{}
		if _, known := p.rooms[c]; !known {
			h.enterRoom(p, c)
			p.put(Hint{Reason: Membership, Conversation: c})
		}
	}
	for c := range p.rooms {
		if _, still := now[c]; !still {
			h.leaveRoom(p, c)
		}
	}
	for s := range p.sessions {
		if routes.Credentials[s.Device] != s.Credential {
			s.End()
		}
	}
	if p.resync {
		p.resync = false
		p.resyncNow()
	}
	return true
}

// resyncNow has all of the person's subscriptions look at everything.
func (p *person) resyncNow() {
	for s := range p.sessions {
		for m := range s.mailboxes {
			m.putResync()
		}
	}
}

func (h *Hub) enterRoom(p *person, c chat.ConversationID) {
	p.rooms[c] = struct{}{}
	room := h.rooms[c]
	if room == nil {
		room = map[*person]struct{}{}
		h.rooms[c] = room
	}
	room[p] = struct{}{}
}

func (h *Hub) leaveRoom(p *person, c chat.ConversationID) {
	delete(p.rooms, c)
	delete(h.rooms[c], p)
	if len(h.rooms[c]) == 0 {
		delete(h.rooms, c)
	}
}

// doubt has a person's routes read again.
func (h *Hub) doubt(p *person) {
	p.generation++
	h.dirty[p] = struct{}{}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// ResyncAll says that hints may have been missed: every user's routes are read
// again, one after the other, and each is then told to look at everything.
func (h *Hub) ResyncAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.people {
		p.resync = true
		h.doubt(p)
	}
}

// Run reads doubtful routes again until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		for p, urgent := h.nextDirty(); p != nil && ctx.Err() == nil; p, urgent = h.nextDirty() {
			if _, err := h.refresh(ctx, p); err != nil {
				h.retryLater(ctx, p, urgent, err)
			}
		}
	}
}

// nextDirty takes who is next: sessions to be ended do not wait behind a resync
// of everybody.
func (h *Hub) nextDirty() (p *person, urgent bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, waiting := range []map[*person]struct{}{h.urgent, h.dirty} {
		for p := range waiting {
			_, urgent := h.urgent[p]
			delete(h.urgent, p)
			delete(h.dirty, p)
			return p, urgent
		}
	}
	return nil, false
}

// retryLater puts a person back after a pause: the database did not answer.
func (h *Hub) retryLater(ctx context.Context, p *person, urgent bool, err error) {
	if ctx.Err() != nil {
		return
	}
	h.log.Warn("reading routes failed, trying again", "error", err.Error())
	select {
	case <-ctx.Done():
	case <-time.After(250 * time.Millisecond):
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(p.sessions) > 0 {
		if urgent {
			h.urgent[p] = struct{}{}
		}
		h.doubt(p)
	}
}

// Close ends every mailbox, so that subscriptions complete, and refuses new
// sessions.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, p := range h.people {
		for s := range p.sessions {
			for m := range s.mailboxes {
				m.close()
			}
		}
	}
}
