package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// client is one keep-alive connection that speaks as much HTTP as a load needs,
// as cheaply as pgbench speaks to PostgreSQL: what is measured is the server.
type client struct {
	token string
	head  string // of every request, up to the length of its body
	conn  net.Conn
	in    *bufio.Reader
	// documents are those that were sent, as JSON strings.
	documents map[string][]byte
	request   []byte
	answer    []byte
}

// dial opens a connection to the server at address (http://host:port).
func dial(address, token string) (*client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" {
		return nil, errors.New("the address must be http://host:port")
	}
	conn, err := net.DialTimeout("tcp", u.Host, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &client{token: token, conn: conn, in: bufio.NewReaderSize(conn, 32<<10), documents: map[string][]byte{},
		head: fmt.Sprintf("POST /graphql HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: ", u.Host, token)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// requestLimit is how long one request may take.
const requestLimit = 15 * time.Second

// post sends a GraphQL request and returns the answer's body, which is good
// until the next. An answer with errors is an error.
func (c *client) post(document string, variables any) ([]byte, error) {
	if err := c.send(document, variables); err != nil {
		return nil, err
	}
	status, err := c.receive()
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK || bytes.HasPrefix(c.answer, []byte(`{"errors"`)) || bytes.Contains(c.answer, []byte(`"errors":[`)) {
		return nil, fmt.Errorf("HTTP %d: %.300s", status, c.answer)
	}
	return c.answer, nil
}

func (c *client) send(document string, variables any) (err error) {
	text := c.documents[document]
	if text == nil {
		if text, err = json.Marshal(document); err != nil {
			return err
		}
		c.documents[document] = text
	}
	values, err := json.Marshal(variables)
	if err != nil {
		return err
	}
	const query, and, end = `{"query":`, `,"variables":`, `}`
	r := append(c.request[:0], c.head...)
	r = strconv.AppendInt(r, int64(len(query)+len(text)+len(and)+len(values)+len(end)), 10)
	r = append(append(r, "\r\n\r\n"+query...), text...)
	r = append(append(append(r, and...), values...), end...)
	c.request = r
	if err := c.conn.SetDeadline(time.Now().Add(requestLimit)); err != nil {
		return err
	}
	_, err = c.conn.Write(r)
	return err
}

// receive reads an answer of a known length.
func (c *client) receive() (status int, err error) {
	length := -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			break
		}
		if status == 0 {
			if status, err = statusOf(line); err != nil {
				return 0, err
			}
		} else if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
	if length < 0 || length > longestAnswer {
		return 0, errors.New("the server does not say how long its answer is, as Tidemark does; is something between?")
	}
	c.answer = slices.Grow(c.answer[:0], length)[:length]
	_, err = io.ReadFull(c.in, c.answer)
	return status, err
}

// statusOf reads the first line of an answer.
func statusOf(line []byte) (int, error) {
	_, rest, ok := bytes.Cut(line, []byte("HTTP/1.1 "))
	if !ok || len(rest) < 3 {
		return 0, fmt.Errorf("the server does not speak HTTP/1.1: %.100s", line)
	}
	return strconv.Atoi(string(rest[:3]))
}

// longestAnswer is how large an answer may be, in bytes.
const longestAnswer = 64 << 20

// query is [client.post] with the data of the answer decoded.
func (c *client) query(document string, variables, into any) error {
	answer, err := c.post(document, variables)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, &struct{ Data any }{into})
}

// socket is a WebSocket that speaks graphql-transport-ws.
type socket struct {
	conn *websocket.Conn
}

type frame struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// open opens a socket and identifies itself.
func open(ctx context.Context, address, token string) (*socket, error) {
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(address, "http")+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(1 << 20)
	s := &socket{conn}
	init, _ := json.Marshal(map[string]string{"authorization": "Bearer " + token})
	if err := s.send(ctx, frame{Type: "connection_init", Payload: init}); err == nil {
		var ack frame
		if ack, err = s.next(ctx); err == nil && ack.Type != "connection_ack" {
			err = fmt.Errorf("connection_init was answered with %s", ack.Type)
		}
		if err == nil {
			return s, nil
		}
	}
	_ = conn.CloseNow()
	return nil, err
}

// start begins an operation.
func (s *socket) start(ctx context.Context, id, document string, variables any) error {
	payload, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		return err
	}
	return s.send(ctx, frame{ID: id, Type: "subscribe", Payload: payload})
}

func (s *socket) send(ctx context.Context, f frame) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return s.conn.Write(ctx, websocket.MessageText, text)
}

// next is the next frame that is not a ping, which it answers.
func (s *socket) next(ctx context.Context) (f frame, err error) {
	for {
		_, text, err := s.conn.Read(ctx)
		if err != nil {
			return f, err
		}
		if err := json.Unmarshal(text, &f); err != nil {
			return f, err
		}
		if f.Type != "ping" {
			return f, nil
		}
		if err := s.send(ctx, frame{Type: "pong"}); err != nil {
			return f, err
		}
	}
}
