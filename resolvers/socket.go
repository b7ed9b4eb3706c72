package resolvers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/coder/websocket"

	"tidemark/chat"
)

const (
	subprotocol = "graphql-transport-ws"
	// initTimeout is how long a client may take to say connection_init.
	initTimeout = 5 * time.Second
	// writeTimeout is how long a small frame may take: a client that stops reading
	// is gone after it. Large ones get more.
	writeTimeout = 5 * time.Second
	// pingInterval is how often a socket is pinged; one that does not answer for
	// two intervals is closed.
	pingInterval = 20 * time.Second
	// maxOperations is how many operations one socket may have running: a burst of
	// reports from an app that was offline must pass. Subscriptions have a limit
	// of their own.
	maxOperations = 1_000
)

// Close codes of graphql-transport-ws and of WebSocket itself.
const (
	closeGoingAway    = 1001
	closeTryAgain     = 1013
	closeBadMessage   = 4400
	closeUnauthorized = 4401
	closeForbidden    = 4403
	closeSubprotocol  = 4406
	closeInitTimeout  = 4408
	closeDuplicate    = 4409
	closeTwoInits     = 4429
)

// socket speaks graphql-transport-ws for gqlgen's WebSocket transport, which
// leaves parts of it open: it looks at every frame first, answers violations
// with the protocol's own close codes, writes with a deadline, and sends nothing
// about an operation that has ended.
//
// Towards gqlgen each operation has an id of our own, so that a client may use
// an id again at once.
type socket struct {
	conn   *websocket.Conn
	cancel context.CancelFunc // ends the context that gqlgen watches
	device chat.DeviceID      // once it is known

	mu       sync.Mutex
	init     *time.Timer // closes the socket if connection_init does not come; nil once it came
	closing  bool
	dead     bool              // a write failed: nothing will be written any more
	draining bool              // no new operations
	active   map[string]string // the client's id -> ours, while the client waits for more
	running  map[string]string // ours -> the client's, until gqlgen has said its last word
	next     int
	deadline *time.Timer
	code     int    // how to close, whatever gqlgen says; 0: as it says
	reason   string // goes with code
}

var (
	_ transport.WebsocketConn          = (*socket)(nil)
	_ transport.WebsocketReadDeadliner = (*socket)(nil)
)

type socketKey struct{}

// socketOf finds the socket that a request was upgraded to.
func socketOf(ctx context.Context) *socket {
	s, _ := ctx.Value(socketKey{}).(*socket)
	return s
}

// acceptSocket upgrades a request. It has answered if it returns nil.
func acceptSocket(w http.ResponseWriter, r *http.Request, origins []string) *socket {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{subprotocol}, OriginPatterns: origins})
	if err != nil {
		return nil
	}
	conn.SetReadLimit(maxBody)
	if conn.Subprotocol() != subprotocol {
		_ = conn.Close(closeSubprotocol, "Subprotocol not acceptable")
		return nil
	}
	s := &socket{conn: conn, active: map[string]string{}, running: map[string]string{}}
	s.init = time.AfterFunc(initTimeout, func() { s.closeWith(closeInitTimeout, "Connection initialisation timeout") })
	return s
}

// acceptedSocket hands gqlgen the socket that was accepted already.
type acceptedSocket struct{}

func (acceptedSocket) Accept(_ http.ResponseWriter, r *http.Request, _ transport.WebsocketAcceptOptions) (transport.WebsocketConn, error) {
	return socketOf(r.Context()), nil
}

func (s *socket) Subprotocol() string { return subprotocol }

// frame is a message of the protocol.
type frame struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// NextReader returns the next frame that gqlgen is to see. Pings are answered
// here, violations close the socket.
func (s *socket) NextReader() (int, io.Reader, error) {
	for {
		kind, data, err := s.readFrame()
		if err != nil {
			return int(kind), nil, err
		}
		f, violation, reason := parseFrame(kind, data)
		if violation == 0 {
			var pass bool
			if pass, violation, reason = s.judge(&f); pass {
				b, err := json.Marshal(f)
				return int(websocket.MessageText), bytes.NewReader(b), err
			}
		}
		if violation != 0 {
			s.closeWith(violation, reason)
			return 0, nil, transport.ErrWebsocketClosed
		}
	}
}

func (s *socket) readFrame() (websocket.MessageType, []byte, error) {
	kind, data, err := s.conn.Read(context.Background()) // Close, CloseNow and deadlines end it
	if err == nil {
		return kind, data, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if code := websocket.CloseStatus(err); s.closing || code == websocket.StatusNormalClosure ||
		code == websocket.StatusGoingAway || code == websocket.StatusNoStatusRcvd {
		return kind, nil, transport.ErrWebsocketClosed
	}
	return kind, nil, err
}

// parseFrame reads a frame and checks its shape.
func parseFrame(kind websocket.MessageType, data []byte) (f frame, violation int, reason string) {
	if kind != websocket.MessageText || !utf8.Valid(data) || loneSurrogate(string(data)) || json.Unmarshal(data, &f) != nil {
		return f, closeBadMessage, "Invalid message received"
	}
	object := len(f.Payload) > 0 && bytes.HasPrefix(bytes.TrimSpace(f.Payload), []byte("{"))
	none := len(f.Payload) == 0 || string(f.Payload) == "null"
	switch f.Type {
	case "connection_init", "ping", "pong":
		if !object && !none {
			return f, closeBadMessage, "The payload of " + f.Type + " must be an object"
		}
	case "subscribe":
		var p struct {
			Query         *string         `json:"query"`
			OperationName *string         `json:"operationName"`
			Variables     *map[string]any `json:"variables"`
			Extensions    *map[string]any `json:"extensions"`
		}
		if f.ID == "" || !object || json.Unmarshal(f.Payload, &p) != nil || p.Query == nil || loneSurrogate(*p.Query) {
			return f, closeBadMessage, "subscribe needs an id and a payload with a query"
		}
	case "complete":
		if f.ID == "" {
			return f, closeBadMessage, "complete needs an id"
		}
	default:
		return f, closeBadMessage, "Unknown message type"
	}
	return f, 0, ""
}

// judge applies the protocol's rules of order to a well-formed frame, and gives
// operations ids of our own. pass says that gqlgen is to see it.
func (s *socket) judge(f *frame) (pass bool, violation int, reason string) {
	reply, pass, violation, reason := s.decide(f)
	if reply != nil && s.writeFrame(*reply) != nil {
		return false, closeGoingAway, "Too slow"
	}
	return pass, violation, reason
}

func (s *socket) decide(f *frame) (reply *frame, pass bool, violation int, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inited := s.init == nil
	ours, waiting := s.active[f.ID]
	switch f.Type {
	case "ping":
		return &frame{Type: "pong", Payload: f.Payload}, false, 0, ""
	case "pong":
		return nil, inited, 0, ""
	case "connection_init":
		if inited {
			return nil, false, closeTwoInits, "Too many initialisation requests"
		}
		s.init.Stop()
		s.init = nil
		return nil, true, 0, ""
	}
	if !inited {
		return nil, false, closeUnauthorized, "Unauthorized"
	}
	if f.Type == "complete" { // for an operation that has ended meanwhile it is no error
		delete(s.active, f.ID)
		f.ID = ours
		return nil, waiting, 0, ""
	}
	switch { // subscribe
	case waiting:
		return nil, false, closeDuplicate, "Subscriber for " + truncate(f.ID) + " already exists"
	case s.draining || len(s.running) >= maxOperations:
		return &frame{ID: f.ID, Type: "error", Payload: notNow()}, false, 0, ""
	}
	s.next++
	ours = strconv.Itoa(s.next)
	s.active[f.ID], s.running[ours] = ours, f.ID
	f.ID = ours
	return nil, true, 0, ""
}

func notNow() json.RawMessage {
	b, _ := json.Marshal([]any{map[string]any{
		"message":    "Too many operations are running on this socket, or the server is shutting down. Try again in a moment.",
		"extensions": map[string]any{"code": string(chat.RateLimited), "retryAfterMs": 1000},
	}})
	return b
}

// truncate keeps a close reason below the 123 bytes that a control frame holds.
func truncate(id string) string {
	if len(id) <= 40 {
		return id
	}
	return strings.ToValidUTF8(id[:40], "") + "…"
}

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

// end closes the socket with a code of ours: gqlgen does it once it sees that its
// context has ended, or we do while gqlgen still waits for connection_init.
func (s *socket) end(code int, reason string) {
	s.mu.Lock()
	if s.code == 0 {
		s.code, s.reason = code, reason
	}
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

// endWith decides how the socket will be closed once its context ends.
func (s *socket) endWith(code int, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.code == 0 {
		s.code, s.reason = code, reason
	}
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
