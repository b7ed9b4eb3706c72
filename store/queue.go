package store

import (
	"context"
	"sync"
	"time"
)

// queue is what waits on a lane, and who carries it. All of it is under the lock of its lanes.
type queue[In, Out any] struct {
	entries []*entry[In, Out]
	weight  int
	runs    int // goroutines that carry, at most two
	// attempts is how many batches are being written, and ended is told of each end.
	attempts int
	ended    sync.Cond
}

// singleFor is for how long batches go one by one after two have met.
const singleFor = time.Second

// entry is one call on its way.
type entry[In, Out any] struct {
	ctx    context.Context
	call   In
	weight int
	out    Out
	err    error
	done   chan struct{} // closed when out and err are there
}

// overlaps reports whether what waits is worth a batch beside the one that is under way.
func (l *Lanes[K, In, Out]) overlaps(q *queue[In, Out]) bool {
	return q.runs == 1 && l.o.Overlap > 0 && q.weight >= l.o.Overlap && time.Now().After(l.single)
}

// take removes the next batch from the queue, or ends the run. Callers who have gone
// are left out; of an empty queue nothing is kept.
func (l *Lanes[K, In, Out]) take(key K, q *queue[In, Out]) (batch []*entry[In, Out], more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.runs--; len(q.entries) == 0 || q.runs == 1 && !l.overlaps(q) {
		if q.runs == 0 {
			delete(l.queues, key)
		}
		return nil, false
	}
	q.runs++
	weight, n := 0, 0
	for n < len(q.entries) && (n == 0 || weight+q.entries[n].weight <= l.o.Batch) {
		weight += q.entries[n].weight
		n++
	}
	for _, e := range q.entries[:n] {
		if e.ctx.Err() == nil {
			batch = append(batch, e)
		}
	}
	l.waiting -= weight
	q.weight -= weight
	q.entries = append([]*entry[In, Out](nil), q.entries[n:]...)
	return batch, true
}

// write does a batch, and tells whether another of the queue was being written
// meanwhile. Parted it first waits until none is, and lets batches go one by one for a
// while: where two want the same rows and commits are slow, the later one would only
// wait for the earlier, and too long.
func (l *Lanes[K, In, Out]) write(key K, q *queue[In, Out], calls []In, parted bool) (outs []Out, beside bool, err error) {
	l.mu.Lock()
	if parted {
		l.single = time.Now().Add(singleFor)
		for q.attempts > 0 {
			q.ended.Wait()
		}
	}
	q.attempts++
	beside = q.attempts > 1
	l.mu.Unlock()
	outs, err = attempt(l.o.Carry, l.o.Limit, key, calls)
	l.mu.Lock()
	defer l.mu.Unlock()
	beside = beside || q.attempts > 1
	q.attempts--
	q.ended.Broadcast()
	return outs, beside, err
}
