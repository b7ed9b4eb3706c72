package hint

// causedBy reports whether the session caused the hint, and so needs none.
func (h Hint) causedBy(s *Session) bool {
	return h.Origin.Session == s.ID && h.Origin.User == s.User
}

// put gives a hint to every mailbox of the person that wants it, but not to the
// session that caused it. That its membership ended a watch of receipts must
// learn whoever caused it. What readChanged is not told, it notes.
func (p *person) put(h Hint) {
	for s := range p.sessions {
		for m := range s.mailboxes {
			switch {
			case m.topic == Reads && (h.causedBy(s) || h.Reason == AllRead && h.Conversation != ""):
				m.reach(h)
			case m.wants(h) && (m.topic == Receipts || !h.causedBy(s)):
				m.put(h, s.User)
			}
		}
	}
}

// show gives a hint to those who watch the conversation's receipts, but not to
// the user whose position it is about.
func (h *Hub) show(hint Hint) {
	for m, s := range h.watched[hint.Conversation] {
		if !hint.causedBy(s) && (s.User != hint.User || hint.Reason == Sharing) {
			m.put(hint, s.User)
		}
	}
}

// Deliver hands hints to the sessions that they concern. It does not block.
func (h *Hub) Deliver(hints []Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hint := range hints {
		switch hint.Reason {
		case Credential:
			if p := h.people[hint.User]; p != nil {
				h.urgent[p] = struct{}{}
				h.doubt(p)
			}
		case Membership:
			h.deliverMembership(hint)
		case Sharing:
			h.show(hint)
		case Resync:
			if p := h.people[hint.User]; p != nil {
				p.resyncNow()
			}
		default:
			h.deliver(hint)
		}
	}
}

// deliver tells the user that the hint names, else everybody in the conversation,
// and of a move those who watch its receipts.
func (h *Hub) deliver(hint Hint) {
	if hint.Shown {
		h.show(hint)
	}
	switch {
	case hint.Reason == Delivered:
	case hint.User == "":
		for p := range h.rooms[hint.Conversation] {
			p.put(hint)
		}
	case h.people[hint.User] != nil:
		h.people[hint.User].put(hint)
	}
}

// deliverMembership tells the members, those who left included, and changes
// routes at once: who joined must not miss the next message, who left must not
// hear of it. Hints may overtake each other, so that the truth is read afterwards.
func (h *Hub) deliverMembership(hint Hint) {
	for _, u := range hint.Joined {
		if p := h.people[u]; p != nil {
			h.enterRoom(p, hint.Conversation)
			h.doubt(p)
		}
	}
	for p := range h.rooms[hint.Conversation] {
		p.put(hint)
	}
	for _, u := range hint.Left {
		p := h.people[u]
		if p == nil {
			continue
		}
		if _, present := p.rooms[hint.Conversation]; !present {
			p.put(hint)
		}
		h.leaveRoom(p, hint.Conversation)
		h.doubt(p)
	}
}
