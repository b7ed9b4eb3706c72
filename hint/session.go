package hint

import (
	"context"

	"tidemark/chat"
)

// Session is one connection of a device.
type Session struct {
	ID         string
	User       chat.UserID
	Device     chat.DeviceID
	Credential string
	// End is called, once or more, when the session's credential has ended. It
	// must not block.
	End func()

	hub       *Hub
	mailboxes map[*Mailbox]struct{}
}

// Open registers a session and reads its user's routes. A credential that ended
// between its check and now is UNAUTHENTICATED. The caller must [Session.Close] it.
func (h *Hub) Open(ctx context.Context, s Session) (*Session, error) {
	s.hub, s.mailboxes = h, map[*Mailbox]struct{}{}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, ErrClosed
	}
	p := h.people[s.User]
	if p == nil {
		p = &person{user: s.User, sessions: map[*Session]struct{}{}, rooms: map[chat.ConversationID]struct{}{}}
		h.people[s.User] = p
	}
	p.sessions[&s] = struct{}{}
	h.mu.Unlock()
	routes, err := h.refresh(ctx, p)
	if err == nil && routes.Credentials[s.Device] != s.Credential {
		err = chat.ErrUnauthenticated()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return &s, nil
}

// maxMailboxes is how many subscriptions a session may have.
const maxMailboxes = 50

// Subscribe adds a mailbox for a topic to the session; conv names the
// conversation whose [Receipts] are watched. Its first event is a Resync. More
// than 50 are RATE_LIMITED. The caller must [Session.Unsubscribe] it.
func (s *Session) Subscribe(t Topic, conv chat.ConversationID) (*Mailbox, error) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	if len(s.mailboxes) >= maxMailboxes {
		return nil, &chat.Error{Code: chat.RateLimited, RetryAfterMs: 1000,
			Message: "This connection has too many subscriptions open. Complete some first."}
	}
	m := newMailbox(t, conv)
	s.mailboxes[m] = struct{}{}
	if t == Receipts {
		if h.watched[conv] == nil {
			h.watched[conv] = map[*Mailbox]*Session{}
		}
		h.watched[conv][m] = s
	}
	return m, nil
}

// Unsubscribe forgets a mailbox.
func (s *Session) Unsubscribe(m *Mailbox) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.forget(m)
}

func (s *Session) forget(m *Mailbox) {
	delete(s.mailboxes, m)
	if watching := s.hub.watched[m.conversation]; watching != nil {
		delete(watching, m)
		if len(watching) == 0 {
			delete(s.hub.watched, m.conversation)
		}
	}
}

// Close forgets the session.
func (s *Session) Close() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.people[s.User]
	if p == nil {
		return
	}
	for m := range s.mailboxes {
		s.forget(m)
	}
	delete(p.sessions, s)
	if len(p.sessions) == 0 {
		for c := range p.rooms {
			h.leaveRoom(p, c)
		}
		delete(h.people, s.User)
		delete(h.dirty, p)
		delete(h.urgent, p)
	}
}
