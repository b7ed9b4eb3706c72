package resolvers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// testSocket is a client of graphql-transport-ws.
type testSocket struct {
	t       *testing.T
	conn    *websocket.Conn
	session string
	mu      sync.Mutex
	next    int
	streams map[string]*stream
	closed  chan struct{}
	err     error // why the socket closed; read after closed
}

// stream is what a socket receives for one operation.
type stream struct {
	t      *testing.T
	socket *testSocket
	id     string
	frames chan wsFrame
}

type wsFrame struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// hinted is an event of either subscription.
type hinted struct {
	Reason         string
	Reasons        []string
	ConversationID *string
	Read           int64
	Revision       int64
	OriginDeviceID *string
	Conversation   *row
	Badge          *badge
}

// dial opens a raw socket.
func (p *process) dial(t *testing.T, protocols ...string) *websocket.Conn {
	t.Helper()
	return p.dialBy(t, http.DefaultClient, protocols...)
}

// dialNarrow opens a raw socket that holds little of what its client does not read.
func (p *process) dialNarrow(t *testing.T, protocols ...string) *websocket.Conn {
	t.Helper()
	narrow := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(4096)
		}
		return conn, err
	}}}
	return p.dialBy(t, narrow, protocols...)
}

func (p *process) dialBy(t *testing.T, by *http.Client, protocols ...string) *websocket.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(p.http.URL, "http")+"/graphql", &websocket.DialOptions{Subprotocols: protocols, HTTPClient: by})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// socket opens a socket and says who is there.
func (c *client) socket() *testSocket {
	t := c.p.w.t
	t.Helper()
	s := &testSocket{t: t, conn: c.p.dial(t, "graphql-transport-ws"), streams: map[string]*stream{}, closed: make(chan struct{})}
	s.send(wsFrame{Type: "connection_init", Payload: json.RawMessage(fmt.Sprintf(`{"authorization":"Bearer %s"}`, c.token))})
	ack := s.receive()
	var payload struct{ SessionID string }
	if ack.Type != "connection_ack" || json.Unmarshal(ack.Payload, &payload) != nil {
		t.Fatalf("no connection_ack but %+v", ack)
	}
	s.session = payload.SessionID
	go s.readLoop()
	t.Cleanup(s.close)
	return s
}

func (s *testSocket) close() {
	_ = s.conn.CloseNow()
	<-s.closed
}

func (s *testSocket) send(f wsFrame) {
	s.t.Helper()
	b, err := json.Marshal(f)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, b); err != nil {
		s.t.Fatal(err)
	}
}

func (s *testSocket) receive() (f wsFrame) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, b, err := s.conn.Read(ctx)
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

func (s *testSocket) readLoop() {
	defer close(s.closed)
	for {
		_, b, err := s.conn.Read(context.Background())
		if err != nil {
			s.err = err
			return
		}
		var f wsFrame
		if json.Unmarshal(b, &f) != nil || f.ID == "" {
			continue
		}
		s.mu.Lock()
		stream := s.streams[f.ID]
		s.mu.Unlock()
		if stream != nil {
			stream.frames <- f
		}
	}
}

// start begins an operation.
func (s *testSocket) start(doc string, v vars) *stream {
	s.t.Helper()
	s.mu.Lock()
	s.next++
	st := &stream{t: s.t, socket: s, id: fmt.Sprint("op", s.next), frames: make(chan wsFrame, 1000)}
	s.streams[st.id] = st
	s.mu.Unlock()
	payload, err := json.Marshal(map[string]any{"query": doc, "variables": v})
	if err != nil {
		s.t.Fatal(err)
	}
	s.send(wsFrame{ID: st.id, Type: "subscribe", Payload: payload})
	return st
}

func (s *testSocket) subscribe(doc string) *stream {
	s.t.Helper()
	return s.start(doc, nil)
}

// call runs a query or a mutation over the socket.
func (s *testSocket) call(doc string, v vars) *answer {
	s.t.Helper()
	st := s.start(doc, v)
	f := st.frame()
	if f.Type == "error" {
		a := &answer{t: s.t}
		if err := json.Unmarshal(f.Payload, &a.Errors); err != nil {
			s.t.Fatal(err)
		}
		return a
	}
	a := &answer{t: s.t}
	if err := json.Unmarshal(f.Payload, a); err != nil {
		s.t.Fatal(err)
	}
	if end := st.frame(); end.Type != "complete" {
		s.t.Fatalf("%s instead of complete", end.Type)
	}
	return a
}

func (st *stream) frame() wsFrame {
	st.t.Helper()
	select {
	case f := <-st.frames:
		return f
	case <-st.socket.closed:
		st.t.Fatalf("the socket closed: %v", st.socket.err)
	case <-time.After(15 * time.Second):
		st.t.Fatal("nothing came for 15 s")
	}
	return wsFrame{}
}

// next is the next event of a subscription.
func (st *stream) next() (h hinted) {
	st.t.Helper()
	f := st.frame()
	var payload struct {
		Data   map[string]*hinted
		Errors []apiError
	}
	if err := json.Unmarshal(f.Payload, &payload); err != nil || f.Type != "next" || len(payload.Errors) > 0 {
		st.t.Fatalf("%s %s: %v", f.Type, f.Payload, err)
	}
	for _, h := range payload.Data {
		return *h
	}
	st.t.Fatalf("an event without data: %s", f.Payload)
	return h
}

// resync expects the first event of every subscription.
func (st *stream) resync() {
	st.t.Helper()
	h := st.next()
	if h.Reason != "RESYNC" && !slices.Equal(h.Reasons, []string{"RESYNC"}) {
		st.t.Fatalf("the first event is %+v, not RESYNC", h)
	}
	if h.ConversationID != nil || h.Conversation != nil {
		st.t.Fatalf("RESYNC names a conversation: %+v", h)
	}
}

// about skips events until one is about the conversation and satisfies enough.
func (st *stream) about(conv string, enough func(hinted) bool) hinted {
	st.t.Helper()
	for {
		if h := st.next(); h.ConversationID != nil && *h.ConversationID == conv && enough(h) {
			return h
		}
	}
}

// silent fails if an event is waiting that is not about the conversation
// sentinel, whose hint the caller has just caused: what was sent before it would
// have come before it.
func (st *stream) silentUntil(sentinel string) {
	st.t.Helper()
	if h := st.next(); h.ConversationID == nil || *h.ConversationID != sentinel {
		st.t.Fatalf("an event that should not be: %+v", h)
	}
}
