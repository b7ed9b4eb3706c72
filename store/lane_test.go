package store_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/chat"
	"tidemark/store"
)

// lanes carry reports, acks and messages of all callers of a process together,
// as the server does.
type lanes struct {
	reads *store.Lanes[struct{}, []store.ReadReport, []store.ReadResult]
	acks  *store.Lanes[struct{}, []store.AckReport, []store.AckResult]
	sends *store.Lanes[chat.ConversationID, []store.Draft, []store.Appended]
	// together is how many calls went in company.
	together atomic.Int64
}

func newLanes(s *store.Store) *lanes {
	shared, l := s.ForLanes(), &lanes{}
	l.reads = store.NewLanes(store.LaneOptions[struct{}, []store.ReadReport, []store.ReadResult]{Overlap: 8,
		Carry: func(ctx context.Context, _ struct{}, calls [][]store.ReadReport) ([][]store.ReadResult, error) {
			awaitCompany(l.reads.Waiting)
			return carry(ctx, l, calls, shared.MarkRead)
		},
		Alone: func(ctx context.Context, _ struct{}, calls [][]store.ReadReport) ([][]store.ReadResult, error) {
			return carry(ctx, l, calls, s.MarkRead)
		}, Divide: store.RefusedOrLocked})
	l.acks = store.NewLanes(store.LaneOptions[struct{}, []store.AckReport, []store.AckResult]{Overlap: 8,
		Carry: func(ctx context.Context, _ struct{}, calls [][]store.AckReport) ([][]store.AckResult, error) {
			awaitCompany(l.acks.Waiting)
			return carry(ctx, l, calls, shared.Ack)
		},
		Alone: func(ctx context.Context, _ struct{}, calls [][]store.AckReport) ([][]store.AckResult, error) {
			return carry(ctx, l, calls, s.Ack)
		}, Divide: store.RefusedOrLocked})
	l.sends = store.NewLanes(store.LaneOptions[chat.ConversationID, []store.Draft, []store.Appended]{
		Carry: func(ctx context.Context, conv chat.ConversationID, calls [][]store.Draft) ([][]store.Appended, error) {
			return carry(ctx, l, calls, func(ctx context.Context, drafts []store.Draft) ([]store.Appended, error) {
				return s.Append(ctx, conv, drafts)
			})
		}})
	return l
}

// awaitCompany holds a batch until others wait for the next one, so that batches
// are shared on any machine; not for ever, since the last caller stays alone.
func awaitCompany(waiting func() int) {
	for until := time.Now().Add(100 * time.Millisecond); waiting() < 2 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
}

func carry[In, Out any](ctx context.Context, l *lanes, calls [][]In, do func(context.Context, []In) ([]Out, error)) ([][]Out, error) {
	if len(calls) > 1 {
		l.together.Add(int64(len(calls)))
	}
	outs, err := do(ctx, slices.Concat(calls...))
	if err != nil {
		return nil, err
	}
	results := make([][]Out, len(calls))
	for i, c := range calls {
		results[i], outs = outs[:len(c)], outs[len(c):]
	}
	return results, nil
}

func (w *world) MarkRead(ctx context.Context, reports []store.ReadReport) ([]store.ReadResult, error) {
	if w.lanes == nil || len(reports) == 0 {
		return w.Store.MarkRead(ctx, reports)
	}
	return w.lanes.reads.Do(ctx, struct{}{}, reports)
}

func (w *world) Ack(ctx context.Context, reports []store.AckReport) ([]store.AckResult, error) {
	if w.lanes == nil || len(reports) == 0 {
		return w.Store.Ack(ctx, reports)
	}
	return w.lanes.acks.Do(ctx, struct{}{}, reports)
}

func (w *world) Append(ctx context.Context, conv chat.ConversationID, drafts []store.Draft) ([]store.Appended, error) {
	if w.lanes == nil {
		return w.Store.Append(ctx, conv, drafts)
	}
	return w.lanes.sends.Do(ctx, conv, drafts)
}

// TestRandomHistoriesInBatches: the same random histories, sixty-four of them at
// once, each sure that it is alone: their reports and acks go in the same batches,
// and each gets its own results.
func TestRandomHistoriesInBatches(t *testing.T) {
	const callers = 64
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(flag.Set("rapid.checks", "1"))
	defer func() { must(flag.Set("rapid.checks", histories)) }()
	w := newWorld(t)
	w.Store = historyStore(t, w.url)
	w.lanes = newLanes(w.Store)
	var running sync.WaitGroup
	var steps atomic.Int64
	for n := range callers {
		conn := w.conn(t)
		running.Go(func() {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				_, n := w.histories(t, conn, coverage{})
				steps.Add(int64(n))
			})
		})
	}
	running.Wait()
	w.noDeviations(t)
	t.Logf("%d steps; %d calls went with others", steps.Load(), w.lanes.together.Load())
	if w.lanes.together.Load() < steps.Load()/20 {
		t.Errorf("only %d calls went with others", w.lanes.together.Load())
	}
}

// lane is a lane whose batches wait until the test lets them go.
type lane struct {
	*store.Lanes[string, int, int]
	batches chan []int // what is being carried
	let     chan error // how it ends

	mu      sync.Mutex
	settled []int
}

// newLane makes a lane that doubles numbers; a batch with a negative one is refused.
func newLane() *lane { return newOverlappingLane(0) }

func newOverlappingLane(overlap int) *lane {
	l := &lane{batches: make(chan []int, 100), let: make(chan error, 100)}
	l.Lanes = store.NewLanes(store.LaneOptions[string, int, int]{Overlap: overlap,
		Carry: func(_ context.Context, _ string, batch []int) ([]int, error) {
			l.batches <- batch
			if err := <-l.let; err != nil {
				return nil, err
			}
			out := make([]int, len(batch))
			for i, n := range batch {
				if out[i] = 2 * n; n < 0 {
					return nil, errPoison
				}
			}
			return out, nil
		},
		Divide: func(err error) bool { return err == errPoison },
		Settled: func(batch, _ []int, _ error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.settled = append(l.settled, batch...)
		},
	})
	return l
}

var errPoison = errors.New("poison")

// begin starts calls one after the other, so that they stand in the queue in this order.
func (l *lane) begin(t *testing.T, ctx context.Context, key string, calls ...int) (answers []chan answer) {
	t.Helper()
	for _, n := range calls {
		a := make(chan answer, 1)
		before := l.Waiting()
		go func() {
			v, err := l.Do(ctx, key, n)
			a <- answer{v, err}
		}()
		for deadline := time.Now().Add(5 * time.Second); l.Waiting() == before && len(l.batches) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the call did not enter the lane")
			}
		}
		answers = append(answers, a)
	}
	return answers
}

type answer struct {
	value int
	err   error
}

// TestLaneCarriesWhatArrivesMeanwhile: an idle lane carries at once; what arrives
// meanwhile goes with the next batch, in its order; each caller gets its own result.
func TestLaneCarriesWhatArrivesMeanwhile(t *testing.T) {
	l := newLane()
	ctx := t.Context()
	first := l.begin(t, ctx, "a", 1)
	if b := <-l.batches; !slices.Equal(b, []int{1}) {
		t.Errorf("the first batch is %v", b)
	}
	rest := l.begin(t, ctx, "a", 2, 3, 4)
	other := l.begin(t, ctx, "b", 5) // another key is another lane
	if b := <-l.batches; !slices.Equal(b, []int{5}) {
		t.Errorf("the other lane carries %v", b)
	}
	l.let <- nil
	l.let <- nil
	if b := <-l.batches; !slices.Equal(b, []int{2, 3, 4}) {
		t.Errorf("the second batch is %v", b)
	}
	l.let <- nil
	for i, a := range append(append(first, rest...), other...) {
		if got := <-a; got != (answer{2 * (i + 1), nil}) {
			t.Errorf("call %d was answered %+v", i+1, got)
		}
	}
	l.Wait()
}

// TestLaneOverlaps: a second batch begins while one is under way once enough waits
// for it, and not before; a third never does.
func TestLaneOverlaps(t *testing.T) {
	l := newOverlappingLane(3)
	ctx := t.Context()
	underWay := func(want ...int) {
		t.Helper()
		if b := <-l.batches; !slices.Equal(b, want) {
			t.Errorf("carries %v, not %v", b, want)
		}
	}
	quiet := func() {
		t.Helper()
		select {
		case b := <-l.batches:
			t.Errorf("%v went on its way", b)
		case <-time.After(20 * time.Millisecond):
		}
	}
	answers := l.begin(t, ctx, "a", 1)
	underWay(1)
	answers = append(answers, l.begin(t, ctx, "a", 2, 3)...)
	quiet() // not worth it
	answers = append(answers, l.begin(t, ctx, "a", 4)...)
	underWay(2, 3, 4)
	answers = append(answers, l.begin(t, ctx, "a", 5, 6, 7, 8)...)
	quiet() // two are under way
	l.let <- nil
	underWay(5, 6, 7, 8)
	answers = append(answers, l.begin(t, ctx, "a", 9)...)
	l.let <- nil
	quiet() // the other run waits for its own batch, and takes what is left then
	l.let <- nil
	underWay(9)
	l.let <- nil
	for i, a := range answers {
		if got := <-a; got != (answer{2 * (i + 1), nil}) {
			t.Errorf("call %d was answered %+v", i+1, got)
		}
	}
	l.Wait()
	if l.Waiting() != 0 {
		t.Errorf("%d wait still", l.Waiting())
	}
}

// TestLaneSparesNeighbours: a call that its batch cannot be carried with fails alone.
func TestLaneSparesNeighbours(t *testing.T) {
	blocked := newLane()
	calls := []int{1, 2, -3, 4, 5, -6, 7}
	first := blocked.begin(t, t.Context(), "a", 0)
	<-blocked.batches
	answers := blocked.begin(t, t.Context(), "a", calls...)
	for range 30 {
		blocked.let <- nil
	}
	for i, a := range append(first, answers...) {
		want := answer{0, nil}
		if i > 0 {
			if want = (answer{2 * calls[i-1], nil}); calls[i-1] < 0 {
				want = answer{0, errPoison}
			}
		}
		if got := <-a; got != want {
			t.Errorf("call %d was answered %+v, want %+v", i, got, want)
		}
	}
	blocked.Wait()
	if slices.Sort(blocked.settled); !slices.Equal(blocked.settled, []int{-6, -3, 0, 1, 2, 4, 5, 7}) {
		t.Errorf("settled: %v", blocked.settled)
	}
}

// TestLaneFailsAsAWhole: an error that is nobody's fault is everybody's, once.
func TestLaneFailsAsAWhole(t *testing.T) {
	l := newLane()
	gone := errors.New("the database is gone")
	first := l.begin(t, t.Context(), "a", 1)
	<-l.batches
	rest := l.begin(t, t.Context(), "a", 2, 3)
	l.let <- nil
	l.let <- gone
	for i, a := range append(first, rest...) {
		if got := <-a; i > 0 && got.err != gone {
			t.Errorf("call %d was answered %+v", i+1, got)
		}
	}
	l.Wait()
	if len(l.settled) != 3 {
		t.Errorf("settled: %v", l.settled)
	}
}

// TestLaneSurvivesAPanic: it is the error of its batch, and the lane goes on.
func TestLaneSurvivesAPanic(t *testing.T) {
	l := store.NewLanes(store.LaneOptions[struct{}, int, int]{
		Carry: func(_ context.Context, _ struct{}, batch []int) ([]int, error) { return []int{10 / batch[0]}, nil },
	})
	if _, err := l.Do(t.Context(), struct{}{}, 0); err == nil || !strings.Contains(err.Error(), "divide by zero") {
		t.Errorf("the panic was answered %v", err)
	}
	if got, err := l.Do(t.Context(), struct{}{}, 5); got != 2 || err != nil {
		t.Errorf("afterwards: %d, %v", got, err)
	}
	l.Wait()
}

// TestLaneAndCallersWhoLeave: who leaves is answered at once. Their call stands
// with its batch, and is settled, if that was under way; else it is not carried.
func TestLaneAndCallersWhoLeave(t *testing.T) {
	l := newLane()
	ctx, leave := context.WithCancel(t.Context())
	carried := l.begin(t, ctx, "a", 1)
	<-l.batches
	waiting := l.begin(t, ctx, "a", 2)
	stays := l.begin(t, t.Context(), "a", 3)
	leave()
	for _, a := range append(carried, waiting...) {
		if got := <-a; !errors.Is(got.err, context.Canceled) {
			t.Errorf("who left was answered %+v", got)
		}
	}
	l.let <- nil
	if b := <-l.batches; !slices.Equal(b, []int{3}) {
		t.Errorf("the second batch is %v", b)
	}
	l.let <- nil
	if got := <-stays[0]; got != (answer{6, nil}) {
		t.Errorf("who stayed was answered %+v", got)
	}
	l.Wait()
	if !slices.Equal(l.settled, []int{1, 3}) {
		t.Errorf("settled: %v", l.settled)
	}
}

// TestLaneIsBounded: beyond its limit callers are told to come back, nothing of
// theirs is done, and once the queue is shorter they may.
func TestLaneIsBounded(t *testing.T) {
	var carried atomic.Int64
	let := make(chan struct{})
	l := store.NewLanes(store.LaneOptions[struct{}, int, int]{
		Carry: func(_ context.Context, _ struct{}, batch []int) ([]int, error) {
			<-let
			carried.Add(int64(len(batch)))
			return batch, nil
		},
		Weight: func(n int) int { return n },
	})
	var running sync.WaitGroup
	var busy, fine atomic.Int64
	for range 50 {
		running.Go(func() {
			switch _, err := l.Do(t.Context(), struct{}{}, 1_000); {
			case err == nil:
				fine.Add(1)
			case errors.Is(err, &chat.Error{Code: chat.RateLimited}):
				if busy.Add(1) == 25 {
					close(let)
				}
			default:
				t.Error(err)
			}
		})
	}
	running.Wait()
	if busy.Load() < 25 || fine.Load()+busy.Load() != 50 || carried.Load() != fine.Load() {
		t.Errorf("%d were served, %d told to come back, %d carried", fine.Load(), busy.Load(), carried.Load())
	}
	if _, err := l.Do(t.Context(), struct{}{}, 1_000); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	l.Wait()
}
