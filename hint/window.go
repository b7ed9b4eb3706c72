package hint

import (
	"context"
	"sync"
	"time"

	"tidemark/chat"
)

// mergeWindow is for how long hints that may be merged are held back, from the
// first one on, which is told at once. What came meanwhile is told at its end.
const mergeWindow = time.Second

// windows merges hints to large conversations before they are told to anybody.
type windows struct {
	mu   sync.Mutex
	open map[chat.ConversationID]*window
	// queue has the open windows in the order of their ends.
	queue []*window
	wake  chan struct{}
}

type window struct {
	conversation chat.ConversationID
	ends         time.Time
	held         *Hint
}

func newWindows() windows {
	return windows{open: map[chat.ConversationID]*window{}, wake: make(chan struct{}, 1)}
}

// admit passes on what may be told now and holds the rest back.
func (w *windows) admit(hints []Hint, now time.Time) []Hint {
	var passed []Hint
	for _, h := range hints {
		if !h.Merge || w.enter(h, now) {
			passed = append(passed, h)
		}
	}
	return passed
}

// enter reports whether the hint opens a window and so may pass.
func (w *windows) enter(h Hint, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if open := w.open[h.Conversation]; open != nil {
		if open.held != nil && open.held.Origin != h.Origin {
			h.Origin = Origin{} // each of the sessions needs to hear of the other's
		}
		open.held = &h
		return false
	}
	w.begin(&window{conversation: h.Conversation}, now)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return true
}

func (w *windows) begin(of *window, now time.Time) {
	of.held, of.ends = nil, now.Add(mergeWindow)
	w.open[of.conversation] = of
	w.queue = append(w.queue, of)
}

// ended takes the windows that are over: those that held nothing close, the
// others begin anew. next is when the next one ends; zero if none is open.
func (w *windows) ended(now time.Time) (hints []Hint, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 && !w.queue[0].ends.After(now) {
		first := w.queue[0]
		w.queue = w.queue[1:]
		if first.held == nil {
			delete(w.open, first.conversation)
			continue
		}
		hints = append(hints, *first.held)
		w.begin(first, now)
	}
	if len(w.queue) > 0 {
		next = w.queue[0].ends
	}
	return hints, next
}

// run tells what was held back until ctx ends, then the rest at once.
func (w *windows) run(ctx context.Context, tell func([]Hint)) {
	for {
		hints, next := w.ended(time.Now())
		tell(hints)
		var due <-chan time.Time
		if !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			hints, _ := w.ended(time.Now().Add(mergeWindow))
			tell(hints)
			return
		case <-w.wake:
		case <-due:
		}
	}
}
