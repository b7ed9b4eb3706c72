package store_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"tidemark/chat"
	"tidemark/store"
)

// TestOverlapEndsWhereBatchesMeet: where two batches want the same rows and a
// commit takes longer than one waits for a lock, the later one goes as a whole once
// the earlier is done, and none is halved: batches go one by one for a while.
func TestOverlapEndsWhereBatchesMeet(t *testing.T) {
	const callers, rows = 64, 4
	locked := &chat.Error{Code: chat.RateLimited}
	var locks [rows]chan struct{}
	for i := range locks {
		locks[i] = make(chan struct{}, 1)
	}
	var mu sync.Mutex
	var failed [][]int
	apart := 0
	together, under := 0, 0
	// carry locks the rows of its calls in order, each for as long as it is patient, and commits.
	carry := func(_ context.Context, _ struct{}, calls []int) ([]int, error) {
		mu.Lock()
		under++
		together = max(together, under)
		mu.Unlock()
		var held []int
		defer func() {
			for _, row := range held {
				<-locks[row]
			}
			mu.Lock()
			defer mu.Unlock()
			under--
		}()
		wanted := make([]int, len(calls))
		for i, call := range calls {
			wanted[i] = call % rows
		}
		slices.Sort(wanted)
		for _, row := range slices.Compact(wanted) {
			select {
			case locks[row] <- struct{}{}:
				held = append(held, row)
			case <-time.After(10 * time.Millisecond):
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, calls)
				return nil, locked
			}
		}
		time.Sleep(30 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		failed = slices.DeleteFunc(failed, func(f []int) bool { return slices.Equal(f, calls) })
		return calls, nil
	}
	l := store.NewLanes(store.LaneOptions[struct{}, int, int]{Overlap: 8, Divide: store.RefusedOrLocked, Carry: carry,
		Alone: func(ctx context.Context, key struct{}, calls []int) ([]int, error) {
			mu.Lock()
			defer mu.Unlock()
			apart++
			return calls, nil
		}})
	var wg sync.WaitGroup
	for n := range callers {
		wg.Go(func() {
			for turn := range 10 {
				call := turn*callers + n
				if out, err := l.Do(t.Context(), struct{}{}, call); err != nil || out != call {
					t.Errorf("call %d was answered %d, %v", call, out, err)
				}
			}
		})
	}
	wg.Wait()
	l.Wait()
	if together != 2 {
		t.Errorf("%d batches were under way at once", together)
	}
	if len(failed) > 0 || apart > 0 {
		t.Errorf("%v failed and never went whole, %d calls went alone", failed, apart)
	}
}

// TestBatchesThatMetGoOneByOne: the batch that failed beside another begins again
// when that one is done, and for a while no second batch begins, also if the lane was
// empty meanwhile.
func TestBatchesThatMetGoOneByOne(t *testing.T) {
	began := make(chan []int, 10)
	let := map[int]chan error{} // by the first call of the batch
	for n := range 10 {
		let[n] = make(chan error)
	}
	l := store.NewLanes(store.LaneOptions[struct{}, int, int]{Overlap: 2, Divide: store.RefusedOrLocked,
		Carry: func(_ context.Context, _ struct{}, calls []int) ([]int, error) {
			began <- calls
			return calls, <-let[calls[0]]
		}})
	var wg sync.WaitGroup
	call := func(n int) {
		wg.Go(func() {
			if out, err := l.Do(t.Context(), struct{}{}, n); out != n || err != nil {
				t.Errorf("call %d was answered %d, %v", n, out, err)
			}
		})
	}
	waiting := func(n int) {
		for l.Waiting() != n {
			time.Sleep(time.Millisecond)
		}
	}
	underWay := func(want ...int) {
		t.Helper()
		if got := <-began; !slices.Equal(got, want) {
			t.Errorf("%v went on its way, not %v", got, want)
		}
	}
	quiet := func() {
		t.Helper()
		select {
		case b := <-began:
			t.Errorf("%v went on its way", b)
		case <-time.After(20 * time.Millisecond):
		}
	}
	call(1)
	underWay(1)
	call(2)
	waiting(1)
	call(3)
	underWay(2, 3)
	let[2] <- &chat.Error{Code: chat.RateLimited}
	quiet()
	let[1] <- nil
	underWay(2, 3)
	let[2] <- nil
	wg.Wait()
	l.Wait()
	call(4)
	underWay(4)
	call(5)
	waiting(1)
	call(6)
	waiting(2)
	quiet()
	let[4] <- nil
	underWay(5, 6)
	let[5] <- nil
	wg.Wait()
	l.Wait()
}
