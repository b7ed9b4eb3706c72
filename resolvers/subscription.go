package resolvers

import (
	"context"
	"slices"
	"time"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/hint"
)

type subscription struct{ *Server }

func (s subscription) ReadChanged(ctx context.Context) (<-chan *graph.ReadChanged, error) {
	return subscribe(ctx, s.Server, hint.Reads, "", feed(s.evaluation(ctx), readChanged))
}

func (s subscription) InboxChanged(ctx context.Context) (<-chan *graph.InboxChanged, error) {
	return subscribe(ctx, s.Server, hint.Inbox, "", feed(s.evaluation(ctx), inboxChanged))
}

func readChanged(e hint.Event) *graph.ReadChanged {
	if e.Reasons[0] == hint.Resync {
		return &graph.ReadChanged{Reason: graph.ReadReasonResync}
	}
	r := &graph.ReadChanged{Reason: graph.ReadReason(e.Move)}
	if e.Device != "" {
		r.OriginDeviceID = &e.Device
	}
	if e.Conversation == "" { // all read
		return r
	}
	r.ConversationID = &e.Conversation
	if e.Position > 0 || e.Revision > 0 {
		r.Read, r.Revision = &e.Position, &e.Revision
	}
	return r
}

func inboxChanged(e hint.Event) *graph.InboxChanged {
	out := &graph.InboxChanged{}
	for _, r := range e.Reasons {
		reason := graph.InboxReason(r)
		if r == hint.MarkedUnread || r == hint.AllRead {
			reason = graph.InboxReasonRead
		}
		if !slices.Contains(out.Reasons, reason) {
			out.Reasons = append(out.Reasons, reason)
		}
	}
	if e.Reasons[0] != hint.Resync {
		out.ConversationID = &e.Conversation
	}
	return out
}

// subscribe makes a channel that run fills from a mailbox until ctx ends, the
// session's credential ends, or the hub is closed. The channel is closed when run returns.
func subscribe[T any](ctx context.Context, s *Server, topic hint.Topic, conv chat.ConversationID, run func(ctx context.Context, mailbox *hint.Mailbox, out chan<- *T)) (<-chan *T, error) {
	if _, err := deviceOf(ctx); err != nil {
		return nil, err
	}
	if !s.running.enter() {
		return nil, errShuttingDown
	}
	ctx, cancel := context.WithCancel(ctx)
	session, closeSession, err := s.sessionFor(ctx, cancel)
	if err == nil {
		var mailbox *hint.Mailbox
		if mailbox, err = session.Subscribe(topic, conv); err == nil {
			events := make(chan *T)
			go func() {
				defer s.running.leave()
				defer cancel()
				defer closeSession()
				defer session.Unsubscribe(mailbox)
				defer close(events)
				run(ctx, mailbox, events)
			}()
			return events, nil
		}
		closeSession()
	}
	cancel()
	s.running.leave()
	if err == hint.ErrClosed {
		err = errShuttingDown
	}
	return nil, err
}

// sessionFor is the session of the socket, or one for the length of a stream.
func (s *Server) sessionFor(ctx context.Context, end func()) (session *hint.Session, close func(), err error) {
	c := callerOf(ctx)
	if c.session != nil {
		return c.session, func() {}, nil
	}
	if !s.sockets.claim(c.device.ID) {
		return nil, nil, errTooManySockets
	}
	opening, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	session, err = s.hub.Open(opening, hint.Session{User: c.device.UserID, Device: c.device.ID, Credential: string(c.hash[:]), End: end})
	if err != nil {
		s.sockets.release(c.device.ID)
		return nil, nil, err
	}
	return session, func() {
		session.Close()
		s.sockets.release(c.device.ID)
	}, nil
}

// feed converts events one by one; hints merge in the mailbox meanwhile.
func feed[T any](ev evaluation, convert func(hint.Event) *T) func(ctx context.Context, mailbox *hint.Mailbox, out chan<- *T) {
	return func(ctx context.Context, mailbox *hint.Mailbox, out chan<- *T) {
		st := streamOf(ctx)
		for {
			events, err := mailbox.Take(ctx)
			if err != nil {
				return
			}
			began := time.Now()
			found, took, err := ev.see(ctx, events)
			for i, e := range events {
				st.badge, st.held, st.err = e.Last, found[i], err
				d, ok := send(ctx, st, out, convert(e))
				if !ok {
					return
				}
				took += d
			}
			if took > 0 && !rest(ctx, began, max(minPace, 10*took)) {
				return
			}
		}
	}
}

type readChangedFields struct{}

func (readChangedFields) Conversation(ctx context.Context, e *graph.ReadChanged) (*chat.Conversation, error) {
	return conversationOfEvent(ctx, e.ConversationID)
}

func (readChangedFields) Badge(ctx context.Context, _ *graph.ReadChanged) (*chat.Badge, error) {
	return badgeOfEvent(ctx)
}

type inboxChangedFields struct{}

func (inboxChangedFields) Conversation(ctx context.Context, e *graph.InboxChanged) (*chat.Conversation, error) {
	return conversationOfEvent(ctx, e.ConversationID)
}

func (inboxChangedFields) Badge(ctx context.Context, _ *graph.InboxChanged) (*chat.Badge, error) {
	return badgeOfEvent(ctx)
}

// conversationOfEvent and badgeOfEvent take what was read together with others',
// if it was, else they read through the event's own snapshot.
func conversationOfEvent(ctx context.Context, id *chat.ConversationID) (*chat.Conversation, error) {
	if id == nil {
		return nil, nil
	}
	switch st := streamOf(ctx); {
	case st.err != nil:
		return nil, st.err
	case st.held.Conversation != nil:
		return st.held.Conversation, nil
	}
	return viewOf(ctx).Conversation(ctx, *id)
}

func badgeOfEvent(ctx context.Context) (*chat.Badge, error) {
	switch st := streamOf(ctx); {
	case !st.badge:
		return nil, nil
	case st.err != nil:
		return nil, st.err
	case st.held.Badge != nil:
		return st.held.Badge, nil
	}
	return viewOf(ctx).Badge(ctx)
}
