package hint

import (
	"context"
	"errors"
	"slices"
	"sync"

	"tidemark/chat"
)

// ErrClosed says that the hub was closed: no hint will come any more.
var ErrClosed = errors.New("the hub is closed")

// Event is what a mailbox hands out: all hints about one conversation since the
// last event about it, merged.
type Event struct {
	// Reasons has each reason once, in the order of their first arrival. A Resync
	// stands alone and has no conversation: look at everything.
	Reasons      []Reason
	Conversation chat.ConversationID
	// Position, Revision and Device are of the newest Read hint: the one with the
	// larger revision, then the larger position.
	Position chat.Seq
	Revision int32
	Device   chat.DeviceID
	// Last says that the mailbox was empty behind this event when it was taken.
	Last bool
}

// maxPending is how many conversations a mailbox remembers one by one. More
// collapse into a Resync, so that a reader who stalls costs bounded memory.
const maxPending = 64

// Mailbox collects the hints for one subscription. At most one event is pending
// for each conversation.
type Mailbox struct {
	mu      sync.Mutex
	resync  bool
	pending map[chat.ConversationID]*Event
	order   []chat.ConversationID
	closed  bool
	wake    chan struct{} // holds a token while there is something to take
}

// newMailbox makes a mailbox whose first event is a Resync.
func newMailbox() *Mailbox {
	m := &Mailbox{wake: make(chan struct{}, 1)}
	m.putResync()
	return m
}

func (m *Mailbox) put(h Hint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resync {
		return // it will look at everything, after this hint's commit
	}
	e, ok := m.pending[h.Conversation]
	if !ok {
		if len(m.order) == maxPending {
			m.collapse()
			return
		}
		if m.pending == nil {
			m.pending = map[chat.ConversationID]*Event{}
		}
		e = &Event{Conversation: h.Conversation}
		m.pending[h.Conversation] = e
		m.order = append(m.order, h.Conversation)
	}
	if !slices.Contains(e.Reasons, h.Reason) {
		e.Reasons = append(e.Reasons, h.Reason)
	}
	if h.Reason == Read && (h.Revision > e.Revision || h.Revision == e.Revision && h.Position >= e.Position) {
		e.Position, e.Revision, e.Device = h.Position, h.Revision, h.Device
	}
	m.signal()
}

func (m *Mailbox) putResync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collapse()
}

func (m *Mailbox) collapse() {
	m.resync, m.pending, m.order = true, nil, nil
	m.signal()
}

func (m *Mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.signal()
}

func (m *Mailbox) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Take waits until something is pending and takes all of it. What is taken is
// gone from the mailbox, so that a hint that comes while its event is being
// evaluated makes a new event. It ends with the error of ctx, or with
// [ErrClosed]. Only one goroutine may take.
func (m *Mailbox) Take(ctx context.Context) ([]Event, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.wake:
		}
		events, closed := m.drain()
		if closed {
			return nil, ErrClosed
		}
		if len(events) > 0 {
			return events, nil
		}
	}
}

func (m *Mailbox) drain() (events []Event, closed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, true
	}
	if m.resync {
		m.resync = false
		return []Event{{Reasons: []Reason{Resync}, Last: true}}, false
	}
	for i, c := range m.order {
		e := *m.pending[c]
		e.Last = i == len(m.order)-1
		events = append(events, e)
	}
	m.pending, m.order = nil, nil
	return events, false
}
