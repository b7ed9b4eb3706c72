package resolvers

import (
	"context"
	"time"

	"tidemark/hint"
	"tidemark/store"
)

// evaluation is how the events of one subscription are evaluated. Where rows
// alone answer what is selected, the events of all sessions are read together, so
// that a message to a crowd costs a few statements; otherwise each event has a
// snapshot of its own.
type evaluation struct {
	*Server
	selected selected
	viewer   store.Viewer
}

func (s *Server) evaluation(ctx context.Context) evaluation {
	return evaluation{s, selectionOf(ctx), callerOf(ctx).viewer()}
}

// see reads what events select, if rows alone answer it: one result for each.
// took is this subscription's share of the time.
func (ev evaluation) see(ctx context.Context, events []hint.Event) (found []store.Found, took time.Duration, err error) {
	found = make([]store.Found, len(events))
	if !ev.selected.rows {
		return found, 0, nil
	}
	var wants []store.Want
	var places []int
	for i, e := range events {
		w := ev.selected.want(ev.viewer, e.Conversation, 0)
		if w.Badge = w.Badge && e.Last; w.Badge || w.Conversation != "" {
			wants, places = append(wants, w), append(places, i)
		}
	}
	if len(wants) == 0 {
		return found, 0, nil
	}
	seen, err := ev.lanes.events.Do(ctx, store.EventLane(ev.viewer.User), wants)
	for k, f := range seen {
		found[places[k]] = f
		took += f.Took
	}
	return found, took, err
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

// Pace. The events of one subscription are evaluated at most every minPace, and
// not more often than ten times what the last evaluation took. What all of them
// read together goes in small batches, and their lanes rest twice as long as they
// were busy: two keep the database two thirds as busy as one core could, and leave
// the rest to requests.
const (
	minPace    = 100 * time.Millisecond
	eventBatch = 64
)

func restOfEvents(took time.Duration) time.Duration { return 2 * took }
