package resolvers

import (
	"context"
	"time"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/hint"
)

// minPace is the least time between two evaluations for one subscription.
const minPace = 100 * time.Millisecond

type subscription struct{ *Server }

func (s subscription) ReadChanged(ctx context.Context) (<-chan *graph.ReadChanged, error) {
	return subscribe(ctx, s.Server, hint.Reads, readChanged)
}

func (s subscription) InboxChanged(ctx context.Context) (<-chan *graph.InboxChanged, error) {
	return subscribe(ctx, s.Server, hint.Inbox, inboxChanged)
}

func readChanged(e hint.Event) *graph.ReadChanged {
	if e.Reasons[0] == hint.Resync {
		return &graph.ReadChanged{Reason: graph.ReadReasonResync}
	}
	r := &graph.ReadChanged{Reason: graph.ReadReasonRead, ConversationID: &e.Conversation}
	if e.Position > 0 {
		r.Read, r.Revision = &e.Position, &e.Revision
	}
	if e.Device != "" {
		r.OriginDeviceID = &e.Device
	}
	return r
}

func inboxChanged(e hint.Event) *graph.InboxChanged {
	out := &graph.InboxChanged{}
	for _, r := range e.Reasons {
		out.Reasons = append(out.Reasons, graph.InboxReason(r))
	}
	if e.Reasons[0] != hint.Resync {
		out.ConversationID = &e.Conversation
	}
	return out
}

// subscribe feeds a channel from a mailbox until ctx ends, the session's
// credential ends, or the hub is closed. Events that asked the database for
// something are at least a tenth of a second apart, and ten times what the last
// evaluation took; hints merge meanwhile. The last of many has the badge.
func subscribe[T any](ctx context.Context, s *Server, topic hint.Topic, convert func(hint.Event) *T) (<-chan *T, error) {
	if _, err := deviceOf(ctx); err != nil {
		return nil, err
	}
	if !s.running.enter() {
		return nil, errShuttingDown
	}
	ctx, cancel := context.WithCancel(ctx)
	session, close, err := s.sessionFor(ctx, cancel)
	if err == nil {
		var mailbox *hint.Mailbox
		if mailbox, err = session.Subscribe(topic); err == nil {
			events := make(chan *T)
			go func() {
				defer s.running.leave()
				defer cancel()
				defer close()
				defer session.Unsubscribe(mailbox)
				feed(ctx, mailbox, streamOf(ctx), events, convert)
			}()
			return events, nil
		}
		close()
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

func feed[T any](ctx context.Context, mailbox *hint.Mailbox, st *stream, out chan<- *T, convert func(hint.Event) *T) {
	defer close(out)
	for {
		events, err := mailbox.Take(ctx)
		if err != nil {
			return
		}
		began, took := time.Now(), time.Duration(0)
		for _, e := range events {
			st.badge = e.Last
			select {
			case out <- convert(e):
			case <-ctx.Done():
				return
			}
			select {
			case d := <-st.done:
				took += d
			case <-ctx.Done():
				return
			}
		}
		if took == 0 {
			continue
		}
		select {
		case <-time.After(time.Until(began.Add(max(minPace, 10*took)))):
		case <-ctx.Done():
			return
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
