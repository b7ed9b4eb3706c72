package hint

import (
	"context"
	"sync"
	"testing"
	"time"
)

// TestWindowMergesWithBothEdges: the first hint passes at once, what follows is
// told once at the end of the window, and a window that held nothing closes.
func TestWindowMergesWithBothEdges(t *testing.T) {
	w := newWindows()
	now := time.Now()
	message := func(session string) Hint {
		return Hint{Reason: Message, Conversation: "big", Merge: true, Origin: Origin{User: "ana", Session: session}}
	}
	passed := w.admit([]Hint{message("s1"), message("s1"), {Reason: Read, Conversation: "big", User: "ben"}, {Reason: Message, Conversation: "small"}, message("s1")}, now)
	if len(passed) != 3 || passed[0].Reason != Message || passed[1].Reason != Read || passed[2].Conversation != "small" {
		t.Fatalf("passed %+v", passed)
	}
	if hints, next := w.ended(now.Add(mergeWindow / 2)); len(hints) != 0 || !next.Equal(now.Add(mergeWindow)) {
		t.Errorf("half way: %+v, next %v", hints, next)
	}
	now = now.Add(mergeWindow)
	hints, _ := w.ended(now)
	if len(hints) != 1 || hints[0].Origin.Session != "s1" {
		t.Errorf("at the end: %+v", hints)
	}
	// The trailing edge opens a window again. Two sessions: both must hear of the other's.
	if passed := w.admit([]Hint{message("s1"), message("s2")}, now); len(passed) != 0 {
		t.Errorf("passed %+v within the next window", passed)
	}
	now = now.Add(mergeWindow)
	if hints, _ = w.ended(now); len(hints) != 1 || hints[0].Origin != (Origin{}) {
		t.Errorf("of two sessions: %+v", hints)
	}
	now = now.Add(mergeWindow)
	if hints, next := w.ended(now); len(hints) != 0 || !next.IsZero() || len(w.open) != 0 || len(w.queue) != 0 {
		t.Errorf("an empty window stays: %+v, %v", hints, next)
	}
	if passed := w.admit([]Hint{message("s1")}, now); len(passed) != 1 {
		t.Error("the first after a pause does not pass at once")
	}
}

// TestWindowTellsTheRestAtTheEnd: what is held when the process ends is told then.
func TestWindowTellsTheRestAtTheEnd(t *testing.T) {
	w := newWindows()
	w.admit([]Hint{{Reason: Message, Conversation: "big", Merge: true}, {Reason: Message, Conversation: "big", Merge: true}}, time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	var told []Hint
	var running sync.WaitGroup
	running.Go(func() { w.run(ctx, func(hints []Hint) { told = append(told, hints...) }) })
	cancel()
	running.Wait()
	if len(told) != 1 {
		t.Errorf("told %+v", told)
	}
}
