package resolvers

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

var errHandlerReturned = errors.New("the handler has returned")

// guardedWriter protects a response that is written from more than one
// goroutine and for a long time: each write has a deadline, and a write or a
// flush that comes after the handler returned does nothing. Without it the
// keep-alive of a server-sent stream touches a finished response and takes the
// process down, and a client that stops reading is never let go.
type guardedWriter struct {
	mu   sync.Mutex
	w    http.ResponseWriter
	rc   *http.ResponseController
	done bool
}

func guard(w http.ResponseWriter) *guardedWriter {
	return &guardedWriter{w: w, rc: http.NewResponseController(w)}
}

// Header is for use before the first write, by the handler's own goroutine.
func (g *guardedWriter) Header() http.Header { return g.w.Header() }

func (g *guardedWriter) WriteHeader(status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.done {
		g.w.WriteHeader(status)
	}
}

func (g *guardedWriter) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done {
		return 0, errHandlerReturned
	}
	_ = g.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every test's writer has one
	return g.w.Write(b)
}

// Flush implements http.Flusher.
func (g *guardedWriter) Flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done {
		return
	}
	_ = g.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	_ = g.rc.Flush() // an error shows at the next write
}

// finish is called when the handler returns. The connection may serve another
// request, which must not inherit the deadline.
func (g *guardedWriter) finish() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done = true
	_ = g.rc.SetWriteDeadline(time.Time{}) // the next request sets its own
}
