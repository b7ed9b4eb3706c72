package resolvers

import (
	"context"
	"sync"
)

// group counts running work and waits for it.
type group struct {
	mu     sync.Mutex
	n      int
	closed bool
	empty  chan struct{}
}

// enter counts one in; false once the group is closed.
func (g *group) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.n++
	return true
}

func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// close refuses newcomers and waits until all have left, or ctx ends.
func (g *group) close(ctx context.Context) {
	g.mu.Lock()
	g.closed = true
	if g.n == 0 {
		g.mu.Unlock()
		return
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}
