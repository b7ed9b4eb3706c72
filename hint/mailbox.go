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

// Event is what a mailbox hands out: all hints about one conversation, or with
// [Receipts] about one user, since the last event about it, merged.
type Event struct {
	// Reasons has each reason once, in the order of their first arrival. A Resync
	// stands alone and has no conversation: look at everything.
	Reasons      []Reason
	Conversation chat.ConversationID
	// Move is the reason of the newest move of the viewer's own position: the one
	// with the larger revision, then the larger position. Position, Revision and
	// Device are its.
	Move     Reason
	Position chat.Seq
	Revision int32
	Device   chat.DeviceID
	// User is whose position moved, for watchers of receipts; empty for more than
	// can be told one by one. Previous is the smallest position that any of them
	// came from, Position the largest that any came to; Unknown says that one is
	// not known, or of a move of the viewer's own where it came to.
	User     chat.UserID
	Previous chat.Seq
	Unknown  bool
	// Own says that a Sharing is a new policy, or the viewer's own choice.
	Own bool
	// Last says that the mailbox was empty behind this event when it was taken.
	Last bool
}

// because adds a reason.
func (e *Event) because(r Reason) {
	if !slices.Contains(e.Reasons, r) {
		e.Reasons = append(e.Reasons, r)
	}
}

// add merges a hint into the event.
func (e *Event) add(h Hint) {
	e.because(h.Reason)
	switch h.Reason {
	case Read, MarkedUnread, AllRead:
		if !h.place().known() {
			e.Unknown = true
		}
		if h.Revision > e.Revision || h.Revision == e.Revision && h.Position >= e.Position {
			e.Move, e.Position, e.Revision, e.Device = h.Reason, h.Position, h.Revision, h.Device
		}
	}
}

// reach merges a move of somebody else's position, from previous to position (0:
// not known), into the event. Revisions are between a user and their own devices.
func (e *Event) reach(previous, position chat.Seq, unknown bool) {
	if first := e.Position == 0 && !e.Unknown; first || previous < e.Previous {
		e.Previous = previous
	}
	e.Position = max(e.Position, position)
	e.Unknown = e.Unknown || unknown
}

// isMove reports whether a hint to a watcher of receipts is about a position.
func (h Hint) isMove() bool { return h.Reason == Read || h.Reason == AllRead || h.Reason == Delivered }

// maxPending is how many conversations a mailbox remembers one by one. More
// collapse into a Resync, so that a reader who stalls costs bounded memory.
// Beyond as many users, a watcher of receipts gets one event about all of them.
const maxPending = 64

// Mailbox collects the hints for one subscription. At most one event is pending
// for each conversation, or each user.
type Mailbox struct {
	topic Topic
	// conversation is whose receipts are watched.
	conversation chat.ConversationID

	mu      sync.Mutex
	resync  bool
	crowd   bool // too many users: all of them are one
	pending map[subject]*Event
	order   []subject
	told    told // of [Reads] only
	closed  bool
	wake    chan struct{} // holds a token while there is something to take
}

// subject is what events are told apart by.
type subject struct {
	conversation chat.ConversationID
	user         chat.UserID
}

// newMailbox makes a mailbox whose first event is a Resync.
func newMailbox(t Topic, conv chat.ConversationID) *Mailbox {
	m := &Mailbox{topic: t, conversation: conv, wake: make(chan struct{}, 1)}
	m.putResync()
	return m
}

// wants reports whether a hint to the user who owns the mailbox belongs into it.
func (m *Mailbox) wants(h Hint) bool {
	switch m.topic {
	case Reads:
		return h.Reason == Read || h.Reason == MarkedUnread || h.Reason == AllRead && h.Conversation == ""
	case Inbox:
		return h.Conversation != ""
	default: // whether the membership goes on
		return h.Reason == Membership && h.Conversation == m.conversation
	}
}

// put adds a hint. viewer is who owns the mailbox.
func (m *Mailbox) put(h Hint, viewer chat.UserID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resync {
		// It will look at everything, after this hint's commit.
		if m.topic == Reads {
			m.told.reach(h.Conversation, h.place())
		}
		return
	}
	if m.topic == Reads && m.told.passed(h.Conversation, h.place()) {
		return
	}
	about := subject{conversation: h.Conversation}
	if m.topic == Receipts && !m.crowd && h.isMove() {
		about.user = h.User
	}
	e, ok := m.pending[about]
	if !ok {
		if len(m.order) == maxPending && m.topic != Receipts {
			m.collapse()
			return
		}
		if len(m.order) == maxPending {
			m.gather()
			about.user = ""
		}
		if e = m.pending[about]; e == nil {
			e = m.begin(about)
		}
	}
	if m.topic != Receipts {
		e.add(h)
	} else if e.because(h.Reason); h.isMove() {
		e.reach(h.Previous, h.Position, h.Position == 0)
	}
	if h.Reason == Sharing && (h.User == "" || h.User == viewer) {
		e.Own = true
	}
	m.signal()
}

// reach notes a move that is not told here: one of the session's own, or one of
// many that are told as one.
func (m *Mailbox) reach(h Hint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told.reach(h.Conversation, h.place())
}

func (m *Mailbox) begin(about subject) *Event {
	if m.pending == nil {
		m.pending = map[subject]*Event{}
	}
	e := &Event{Conversation: about.conversation, User: about.user}
	m.pending[about] = e
	m.order = append(m.order, about)
	return e
}

// gather makes one event of all that are pending.
func (m *Mailbox) gather() {
	all := &Event{Conversation: m.conversation}
	for _, about := range m.order {
		e := m.pending[about]
		for _, r := range e.Reasons {
			all.because(r)
		}
		if e.Position > 0 || e.Unknown {
			all.reach(e.Previous, e.Position, e.Unknown)
		}
		all.Own = all.Own || e.Own
	}
	about := subject{conversation: m.conversation}
	m.crowd, m.pending, m.order = true, map[subject]*Event{about: all}, []subject{about}
}

func (m *Mailbox) putResync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collapse()
}

func (m *Mailbox) collapse() {
	// What is seen then may be less than was told, if the database was put back.
	m.resync, m.crowd, m.pending, m.order, m.told = true, false, nil, nil, told{}
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

// tellable reports whether a move of the viewer's own is to be told still, and
// notes it. Of one that was passed meanwhile only what is not known is left.
func (m *Mailbox) tellable(e *Event) bool {
	if m.told.passed(e.Conversation, place{e.Revision, e.Position}) {
		e.Position, e.Revision = 0, 0
		return e.Unknown
	}
	m.told.reach(e.Conversation, place{e.Revision, e.Position})
	return true
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
	for _, about := range m.order {
		e := *m.pending[about]
		if m.topic == Reads && !m.tellable(&e) {
			continue
		}
		events = append(events, e)
	}
	if n := len(events); n > 0 {
		events[n-1].Last = true
	}
	m.crowd, m.pending, m.order = false, nil, nil
	return events, false
}
