package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// client is one keep-alive connection that speaks as much HTTP as a load needs,
// as cheaply as pgbench speaks to PostgreSQL: what is measured is the server.
type client struct {
	host, token string
	conn        net.Conn
	in          *bufio.Reader
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
	return &client{host: u.Host, token: token, conn: conn, in: bufio.NewReaderSize(conn, 32<<10)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// requestLimit is how long one request may take.
const requestLimit = 15 * time.Second

// post sends a GraphQL request and returns the answer's body, which is good
// until the next. An answer with errors is an error.
func (c *client) post(document string, variables any) ([]byte, error) {
	body, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		return nil, err
	}
	if err := c.conn.SetDeadline(time.Now().Add(requestLimit)); err != nil {
		return nil, err
	}
	request := fmt.Appendf(nil, "POST /graphql HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		c.host, c.token, len(body), body)
	if _, err := c.conn.Write(request); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK || strings.HasPrefix(string(answer), `{"errors"`) || strings.Contains(string(answer), `"errors":[`) {
		return nil, fmt.Errorf("HTTP %d: %.300s", response.StatusCode, answer)
	}
	return answer, nil
}

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
