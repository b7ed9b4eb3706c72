package resolvers

import (
	"context"
	"slices"
	"time"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/hint"
)

// minPace is the least time between two evaluations for one subscription.
const minPace = 100 * time.Millisecond

type subscription struct{ *Server }

func (s subscription) ReadChanged(ctx context.Context) (<-chan *graph.ReadChanged, error) {
	return subscribe(ctx, s.Server, hint.Reads, "", feed(readChanged))
}

func (s subscription) InboxChanged(ctx context.Context) (<-chan *graph.InboxChanged, error) {
	return subscribe(ctx, s.Server, hint.Inbox, "", feed(inboxChanged))
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

// feed converts events one by one. Those that asked the database for something
// are at least a tenth of a second apart, and ten times what the last evaluation
// took; hints merge meanwhile. The last of many has the badge.
func feed[T any](convert func(hint.Event) *T) func(ctx context.Context, mailbox *hint.Mailbox, out chan<- *T) {
	return func(ctx context.Context, mailbox *hint.Mailbox, out chan<- *T) {
		st := streamOf(ctx)
		for {
			events, err := mailbox.Take(ctx)
			if err != nil {
				return
			}
			began, took := time.Now(), time.Duration(0)
			for _, e := range events {
				st.badge = e.Last
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

// send hands an event over and waits until it was evaluated, for which the
// database took that long; false if ctx ended.
func send[T any](ctx context.Context, st *stream, out chan<- *T, event *T) (took time.Duration, ok bool) {
	select {
	case out <- event:
	case <-ctx.Done():
		return 0, false
	}
	select {
	case took = <-st.done:
		return took, true
	case <-ctx.Done():
		return 0, false
	}
}

// rest waits until pace has passed since began; false if ctx ended.
func rest(ctx context.Context, began time.Time, pace time.Duration) bool {
	select {
	case <-time.After(time.Until(began.Add(pace))):
		return true
	case <-ctx.Done():
		return false
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

func conversationOfEvent(ctx context.Context, id *chat.ConversationID) (*chat.Conversation, error) {
	if id == nil {
		return nil, nil
	}
	return viewOf(ctx).Conversation(ctx, *id)
}

func badgeOfEvent(ctx context.Context) (*chat.Badge, error) {
	if !streamOf(ctx).badge {
		return nil, nil
	}
	return viewOf(ctx).Badge(ctx)
}
