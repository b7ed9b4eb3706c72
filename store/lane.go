package store

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"tidemark/chat"
)

// Lanes carry small calls together. For each key there is one lane: what arrives
// while its previous batch is under way goes with the next one, in the order of
// arrival, so that an idle lane answers at once and a busy one grows its batches.
// Nothing waits for company. A lane is a goroutine only while it has something to do.
//
// A caller whose context ends is answered at once; its call, once it is in a
// batch, stands or falls with that, and is settled like any other.
type Lanes[K comparable, In, Out any] struct {
	o LaneOptions[K, In, Out]

	mu      sync.Mutex
	queues  map[K]*queue[In, Out] // a key is here while its lane runs
	waiting int                   // the weight of what is in all queues
	running int                   // goroutines
	single  time.Time             // until when no second batch begins, since two have met
	idle    sync.Cond             // told when running comes to 0
}

// LaneOptions say what lanes carry. Carry alone is required.
type LaneOptions[K comparable, In, Out any] struct {
	// Carry does a batch and answers one result for each call, or the error of
	// the whole. It is called with a context of the lanes' own.
	Carry func(ctx context.Context, key K, batch []In) ([]Out, error)
	// Alone does a batch of one apart from the lane, after it failed in any other
	// company and on its own; nil means Carry. It may take longer, since nobody
	// waits behind it.
	Alone func(ctx context.Context, key K, batch []In) ([]Out, error)
	// Divide reports whether an error may be one call's fault, and changed
	// nothing; nil means [Refused].
	Divide func(error) bool
	// Settled is told once of each call, with its result or the error of the whole,
	// before the callers are; nil tells nobody. It must not block.
	Settled func(batch []In, results []Out, err error)
	// Limit is how long a batch may take; 0 means 10 s.
	Limit time.Duration
	// Rest is for how long a lane rests after a batch that took that long: what
	// arrives meanwhile goes with the next. nil means not at all.
	Rest func(took time.Duration) time.Duration
	// Overlap is what must wait, by weight, for a second batch of a lane to begin
	// while one is under way; 0 means that none ever does. Two batches of one lane may
	// meet on a row: then the later one waits for the earlier to commit, and if that takes
	// too long goes after it, and for a second no two are under way.
	Overlap int
	// Batch is the largest batch by weight, unless a single call is larger; 0 means 256.
	Batch int
	// Weight is how much a call counts for against the limits; nil means 1.
	Weight func(In) int
}

// maxWaiting is how much may wait in all lanes of one kind, by weight. More is
// RATE_LIMITED: it could not be answered in time anyway.
const maxWaiting = 20_000

// WorthOverlap is the overlap of reports and acks: one statement keeps one process of
// PostgreSQL busy, and while one batch commits another can work. With less that waits,
// two small batches cost more than they gain.
const WorthOverlap = 24

// eventLanes is how many lanes carry events.
const eventLanes = 2

var laneSeed = maphash.MakeSeed()

// EventLane is the lane of a user's events: always the same, so that what their
// sessions want is read once.
func EventLane(user chat.UserID) int {
	return int(maphash.String(laneSeed, string(user)) % eventLanes)
}

// longestRest bounds a lane's rest: after a batch that was slow for reasons of its
// own nobody must wait for long, a shutdown neither.
const longestRest = time.Second

// carryTimeout is how long a batch may take, if the options do not say.
const carryTimeout = 10 * time.Second

// NewLanes makes lanes. [Lanes.Wait] must be called before what they use is closed.
func NewLanes[K comparable, In, Out any](o LaneOptions[K, In, Out]) *Lanes[K, In, Out] {
	if o.Alone == nil {
		o.Alone = o.Carry
	}
	if o.Divide == nil {
		o.Divide = Refused
	}
	if o.Settled == nil {
		o.Settled = func([]In, []Out, error) {}
	}
	if o.Limit == 0 {
		o.Limit = carryTimeout
	}
	if o.Batch == 0 {
		o.Batch = 256
	}
	if o.Rest == nil {
		o.Rest = func(time.Duration) time.Duration { return 0 }
	}
	if o.Weight == nil {
		o.Weight = func(In) int { return 1 }
	}
	l := &Lanes[K, In, Out]{o: o, queues: map[K]*queue[In, Out]{}}
	l.idle.L = &l.mu
	return l
}

// Do puts a call on its key's lane and waits for its result, or for the end of
// ctx: then what becomes of it is not known. Too many waiting calls are
// RATE_LIMITED, and then nothing was done.
func (l *Lanes[K, In, Out]) Do(ctx context.Context, key K, call In) (Out, error) {
	e := &entry[In, Out]{ctx: ctx, call: call, weight: l.o.Weight(call), done: make(chan struct{})}
	if err := l.enter(key, e); err != nil {
		return e.out, err
	}
	select {
	case <-e.done:
		return e.out, e.err
	case <-ctx.Done():
		var none Out
		return none, ctx.Err()
	}
}

// Waiting is the weight of the calls that wait for their batch.
func (l *Lanes[K, In, Out]) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// Wait waits until nothing is under way. Calls may still come.
func (l *Lanes[K, In, Out]) Wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.running > 0 {
		l.idle.Wait()
	}
}

// begin runs do in a goroutine that Wait waits for. It is called with the lock.
func (l *Lanes[K, In, Out]) begin(do func()) {
	l.running++
	go func() {
		do()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running--; l.running == 0 {
			l.idle.Broadcast()
		}
	}()
}

func (l *Lanes[K, In, Out]) enter(key K, e *entry[In, Out]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting > 0 && l.waiting+e.weight > maxWaiting {
		return errBusy()
	}
	l.waiting += e.weight
	q := l.queues[key]
	if q == nil {
		q = &queue[In, Out]{ended: sync.Cond{L: &l.mu}}
		l.queues[key] = q
	}
	q.entries = append(q.entries, e)
	q.weight += e.weight
	if q.runs == 0 || l.overlaps(q) {
		q.runs++
		l.begin(func() { l.run(key, q) })
	}
	return nil
}

// run carries batches until the queue is empty, or another run does for the rest.
func (l *Lanes[K, In, Out]) run(key K, q *queue[In, Out]) {
	for {
		// Whoever is about to enter gets in: their calls go along for almost nothing.
		runtime.Gosched()
		batch, more := l.take(key, q)
		if !more {
			return
		}
		began := time.Now()
		l.carry(key, q, batch)
		if rest := min(l.o.Rest(time.Since(began)), longestRest); rest > 0 {
			time.Sleep(rest)
		}
	}
}

// carry does a batch. If another was being written meanwhile, a failure that may be
// one call's fault may be that other batch's: it goes once more as it is, after the other.
func (l *Lanes[K, In, Out]) carry(key K, q *queue[In, Out], batch []*entry[In, Out]) {
	if len(batch) == 0 {
		return
	}
	calls := callsOf(batch)
	outs, beside, err := l.write(key, q, calls, false)
	if beside && err != nil && l.o.Divide(err) {
		outs, _, err = l.write(key, q, calls, true)
	}
	l.divide(key, q, batch, calls, outs, err)
}

// divide settles a batch. One that failed in a way that a single call may have caused
// is halved, and what is left alone at the end goes apart, so that nobody waits for it.
func (l *Lanes[K, In, Out]) divide(key K, q *queue[In, Out], batch []*entry[In, Out], calls []In, outs []Out, err error) {
	switch {
	case err == nil || !l.o.Divide(err):
		l.settle(batch, calls, outs, err)
	case len(batch) > 1:
		for _, half := range [][]*entry[In, Out]{batch[:len(batch)/2], batch[len(batch)/2:]} {
			calls := callsOf(half)
			outs, _, err := l.write(key, q, calls, false)
			l.divide(key, q, half, calls, outs, err)
		}
	default:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.begin(func() {
			outs, err := attempt(l.o.Alone, carryTimeout, key, calls)
			l.settle(batch, calls, outs, err)
		})
	}
}

func callsOf[In, Out any](batch []*entry[In, Out]) []In {
	calls := make([]In, len(batch))
	for i, e := range batch {
		calls[i] = e.call
	}
	return calls
}

// attempt does a batch within limit. A panic is the batch's error: nobody
// above this goroutine would recover it.
func attempt[K, In, Out any](do func(context.Context, K, []In) ([]Out, error), limit time.Duration, key K, calls []In) (outs []Out, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	defer recovered(&err)
	if outs, err = do(ctx, key, calls); err == nil && len(outs) != len(calls) {
		err = fmt.Errorf("%d results for a batch of %d", len(outs), len(calls))
	}
	return outs, err
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic in a batch: %v\n%s", p, debug.Stack())
	}
}

func (l *Lanes[K, In, Out]) settle(batch []*entry[In, Out], calls []In, outs []Out, err error) {
	func() {
		defer recovered(&err)
		l.o.Settled(calls, outs, err)
	}()
	for i, e := range batch {
		if e.err = err; err == nil {
			e.out = outs[i]
		}
		close(e.done)
	}
}

func errBusy() error {
	return &chat.Error{Code: chat.RateLimited, RetryAfterMs: 1000, Message: "The server has more to write than it can. Try again in a moment."}
}
