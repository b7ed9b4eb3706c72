package resolvers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"github.com/coder/websocket"
)

// WriteJSON writes a message of gqlgen's under the client's own id. What it says
// about an operation that has ended is dropped: after error, or after the
// client's complete, there is nothing more to say.
func (s *socket) WriteJSON(v any) error {
	s.mu.Lock()
	dead := s.dead
	s.mu.Unlock()
	if dead {
		return net.ErrClosed // not worth encoding
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var f frame
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	if f.Type != "next" && f.Type != "error" && f.Type != "complete" {
		return s.writeFrame(f)
	}
	ours := f.ID
	s.mu.Lock()
	f.ID = s.running[ours]
	waiting := s.active[f.ID] == ours
	s.mu.Unlock()
	if f.Type != "next" {
		defer s.finished(ours)
	}
	if !waiting {
		return nil
	}
	return s.writeFrame(f)
}

// finished notes gqlgen's word that ends an operation. After error it says
// complete as well, for which nobody waits any more.
func (s *socket) finished(ours string) {
	s.mu.Lock()
	theirs := s.running[ours]
	delete(s.running, ours)
	if s.active[theirs] == ours {
		delete(s.active, theirs)
	}
	idle := s.draining && len(s.running) == 0
	s.mu.Unlock()
	if idle {
		s.end(closeGoingAway, "Going away")
	}
}

// endWith decides how the socket will be closed once its context ends.
func (s *socket) endWith(code int, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.code == 0 {
		s.code, s.reason = code, reason
	}
}

// end closes the socket with a code of ours: gqlgen does it once it sees that its
// context has ended, or we do while gqlgen still waits for connection_init.
func (s *socket) end(code int, reason string) {
	s.endWith(code, reason)
	s.mu.Lock()
	inited := s.init == nil
	s.mu.Unlock()
	s.cancel()
	if !inited {
		_ = s.conn.CloseNow()
	}
}

// drain refuses new operations and ends the socket once the running ones are
// finished.
func (s *socket) drain() {
	s.mu.Lock()
	s.draining = true
	idle := len(s.running) == 0
	s.mu.Unlock()
	if idle {
		s.end(closeGoingAway, "Going away")
	}
}

func (s *socket) writeFrame(f frame) error {
	// The payload is JSON already, and may be large: it is not encoded again.
	payload := f.Payload
	f.Payload = nil
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if len(payload) > 0 {
		b = slices.Concat(b[:len(b)-1], []byte(`,"payload":`), payload, []byte("}"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), frameTimeout(len(b)))
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, b); err != nil {
		s.mu.Lock()
		s.dead = true
		s.mu.Unlock()
		_ = s.conn.CloseNow()
		return err
	}
	return nil
}

// frameTimeout is how long a frame of n bytes may take: a client that reads must
// not be taken for one that has stopped.
func frameTimeout(n int) time.Duration {
	return min(writeTimeout+time.Duration(n/(512<<10))*time.Second, answerTimeout)
}

// WriteClose closes with gqlgen's code, or with the one that was decided before.
func (s *socket) WriteClose(code int, reason string) error {
	s.closeWith(code, reason)
	return nil
}

// closeWith sends the close frame and waits shortly for the peer's.
func (s *socket) closeWith(code int, reason string) {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return
	}
	s.closing = true
	if s.code != 0 {
		code, reason = s.code, s.reason
	}
	s.mu.Unlock()
	_ = s.conn.Close(websocket.StatusCode(code), reason)
}

// Close ends the connection at once.
func (s *socket) Close() error {
	s.mu.Lock()
	for _, timer := range []*time.Timer{s.deadline, s.init} {
		if timer != nil {
			timer.Stop()
		}
	}
	s.mu.Unlock()
	return ignoreClosed(s.conn.CloseNow())
}

func ignoreClosed(err error) error {
	if errors.Is(err, io.EOF) || websocket.CloseStatus(err) != -1 {
		return nil
	}
	return err
}

// SetReadDeadline closes the connection at the deadline unless it is moved; the
// zero time removes it.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deadline != nil {
		s.deadline.Stop()
		s.deadline = nil
	}
	if !t.IsZero() {
		s.deadline = time.AfterFunc(time.Until(t), func() { _ = s.conn.CloseNow() })
	}
	return nil
}
