package resolvers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

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
	if kind != websocket.MessageText || !validText(string(data)) || json.Unmarshal(data, &f) != nil {
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
		if f.ID == "" || !object || json.Unmarshal(f.Payload, &p) != nil || p.Query == nil || !validText(*p.Query) {
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
