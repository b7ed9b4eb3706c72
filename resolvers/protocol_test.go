package resolvers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"tidemark/chat"
	"tidemark/resolvers"
)

// node runs a script of web/tests; it must end well.
func node(t *testing.T, script string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{"tests/" + script}, args...)...)
	cmd.Dir = "../web"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("node %s: %v\n%s\n(npm ci in web/ installs what it needs; make test does that)", script, err, out)
	}
	return string(out)
}

// TestGraphQLHTTPAudits: all audits of npm graphql-http pass without a warning.
func TestGraphQLHTTPAudits(t *testing.T) {
	w := newWorld(t)
	if got := node(t, "audits.mjs", w.main.http.URL+"/graphql"); got != "61 audits ok\n" {
		t.Error(got)
	}
}

// TestRealClient: npm graphql-ws as the client.
func TestRealClient(t *testing.T) {
	g := newTrio(t)
	g.a.send(g.conv, 9)
	endpoint := g.main.http.URL + "/graphql"
	if got := node(t, "client.mjs", endpoint, g.b1.token, endpoint, g.b2.token); got != "client ok\n" {
		t.Error(got)
	}
}

// TestSocketProtocol: what the protocol says about each deviation. A step is a
// frame to send, or after "< " what must come: a frame's type, or a close code.
func TestSocketProtocol(t *testing.T) {
	g := newTrio(t)
	init := fmt.Sprintf(`{"type":"connection_init","payload":{"authorization":"Bearer %s"}}`, g.b1.token)
	watch := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"type":"subscribe","payload":{"query":"subscription { inboxChanged { reasons } }"}}`, id)
	}
	for name, steps := range map[string][]string{
		"an unknown credential":            {`{"type":"connection_init","payload":{"authorization":"Bearer nobody"}}`, "< close 4403"},
		"no credential":                    {`{"type":"connection_init"}`, "< close 4403"},
		"the service key":                  {fmt.Sprintf(`{"type":"connection_init","payload":{"authorization":"Bearer %s"}}`, serviceKey), "< close 4403"},
		"a capital Authorization":          {strings.Replace(init, "authorization", "Authorization", 1), "< connection_ack"},
		"subscribe before the ack":         {watch("1"), "< close 4401"},
		"complete before the ack":          {`{"id":"1","type":"complete"}`, "< close 4401"},
		"a second init":                    {init, "< connection_ack", init, "< close 4429"},
		"invalid JSON":                     {init, "< connection_ack", `{`, "< close 4400"},
		"invalid JSON before init":         {`hello`, "< close 4400"},
		"an unknown type":                  {init, "< connection_ack", `{"type":"start","id":"1"}`, "< close 4400"},
		"no type":                          {init, "< connection_ack", `{"id":"1"}`, "< close 4400"},
		"a list instead of a message":      {init, "< connection_ack", `[]`, "< close 4400"},
		"init payload is no object":        {`{"type":"connection_init","payload":7}`, "< close 4400"},
		"subscribe payload is no object":   {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":"x"}`, "< close 4400"},
		"subscribe without payload":        {init, "< connection_ack", `{"id":"1","type":"subscribe"}`, "< close 4400"},
		"subscribe without query":          {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{}}`, "< close 4400"},
		"subscribe without id":             {init, "< connection_ack", `{"type":"subscribe","payload":{"query":"{__typename}"}}`, "< close 4400"},
		"subscribe with an empty id":       {init, "< connection_ack", watch(""), "< close 4400"},
		"variables are no object":          {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"{__typename}","variables":[]}}`, "< close 4400"},
		"complete without id":              {init, "< connection_ack", `{"type":"complete"}`, "< close 4400"},
		"a duplicate id":                   {init, "< connection_ack", watch("1"), "< next", watch("1"), "< close 4409"},
		"a syntax error":                   {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"{"}}`, "< error", `{"type":"ping"}`, "< pong"},
		"a validation error":               {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"{nope}"}}`, "< error", `{"type":"ping"}`, "< pong"},
		"two root fields":                  {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"subscription { inboxChanged { reasons } readChanged { reason } }"}}`, "< error"},
		"two root fields through a spread": {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"subscription S { ...F } fragment F on Subscription { inboxChanged { reasons } readChanged { reason } }"}}`, "< error"},
		"a conditional subscription":       {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"subscription { inboxChanged @skip(if: true) { reasons } }"}}`, "< error"},
		"a huge number":                    {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"{ conversation(id: \"c1\") { events(after: 99999999999999999999) { nodes { seq } } } }"}}`, "< error", `{"type":"ping"}`, "< pong"},
		"extensions are no object":         {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"{__typename}","extensions":5}}`, "< close 4400"},
		"half a surrogate pair":            {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"{__typename}","variables":{"x":"\ud800"}}}`, "< close 4400"},
		"a bad variable":                   {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"query($n: Int) { conversations(first: $n) { nodes { id } } }","variables":{"n":"x"}}}`, "< error"},
		"ping before init":                 {`{"type":"ping"}`, "< pong"},
		"ping with a payload":              {init, "< connection_ack", `{"type":"ping","payload":{"a":1}}`, "< pong"},
		"pong unasked":                     {init, `{"type":"pong"}`, "< connection_ack", `{"type":"ping"}`, "< pong"},
		"a query":                          {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"{ badge { unread } }"}}`, "< next", "< complete"},
		"a mutation":                       {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"mutation { markRead(input: {conversationId: \"c1\", seq: 1}) { badge { unread } } }"}}`, "< next", "< complete"},
		"complete of nothing":              {init, `{"id":"9","type":"complete"}`, "< connection_ack", `{"type":"ping"}`, "< pong"},
		"an id again after complete":       {init, "< connection_ack", watch("1"), "< next", `{"id":"1","type":"complete"}`, watch("1"), "< next"},
		"a frame of a megabyte":            {init, "< connection_ack", `{"id":"1","type":"subscribe","payload":{"query":"` + strings.Repeat(" ", 1<<20) + `"}}`, "< close 1009"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := g.main.dial(t, "graphql-transport-ws")
			for _, step := range steps {
				if want, expected := strings.CutPrefix(step, "< "); expected {
					equal(t, "received", frameOrClose(t, conn), want)
				} else {
					_ = conn.Write(t.Context(), websocket.MessageText, []byte(step)) // a closed socket shows at the next step
				}
			}
		})
	}
}

// frameOrClose reads what comes next: a frame's type, or how the socket closed.
func frameOrClose(t *testing.T, conn *websocket.Conn) string {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	_, b, err := conn.Read(ctx)
	if err != nil {
		return fmt.Sprint("close ", int(websocket.CloseStatus(err)))
	}
	var f wsFrame
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f.Type
}

func TestSocketWithoutTheSubprotocol(t *testing.T) {
	w := newWorld(t)
	for _, protocols := range [][]string{nil, {"graphql-ws"}} {
		equal(t, fmt.Sprint(protocols), frameOrClose(t, w.main.dial(t, protocols...)), "close 4406")
	}
	equal(t, "both offered", w.main.dial(t, "graphql-ws", "graphql-transport-ws").Subprotocol(), "graphql-transport-ws")
}

func TestSocketInitTimeout(t *testing.T) {
	w := newWorld(t)
	equal(t, "a silent client", frameOrClose(t, w.main.dial(t, "graphql-transport-ws")), "close 4408")
}

func TestSocketOfAnotherOrigin(t *testing.T) {
	w := newWorld(t)
	open := w.process(func(c *resolvers.Config) { c.Origins = []string{"app.example"} })
	for _, probe := range []struct {
		p      *process
		origin string
		status int
	}{{w.main, "https://evil.example", 403}, {w.main, "https://app.example", 403}, {open, "https://app.example", 101}, {open, "https://evil.example", 403}} {
		conn, response, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(probe.p.http.URL, "http")+"/graphql",
			&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}, HTTPHeader: http.Header{"Origin": {probe.origin}}})
		if response == nil || response.StatusCode != probe.status {
			t.Errorf("%s: %v %v, want %d", probe.origin, response, err, probe.status)
		}
		if conn != nil {
			_ = conn.CloseNow()
		}
	}
}

func TestSocketCaps(t *testing.T) {
	g := newTrio(t)
	s := g.b1.socket()
	for range 50 {
		s.subscribe(`subscription { inboxChanged { reasons } }`).resync()
	}
	f := s.subscribe(`subscription { inboxChanged { reasons } }`).frame()
	if !strings.Contains(string(f.Payload), "RATE_LIMITED") {
		t.Errorf("subscription 51: %s %s", f.Type, f.Payload)
	}
	s.call(`{ badge { unread } }`, nil) // other operations are not concerned
	for range 31 {
		g.b1.socket()
	}
	conn := g.main.dial(t, "graphql-transport-ws")
	_ = conn.Write(t.Context(), websocket.MessageText, []byte(fmt.Sprintf(`{"type":"connection_init","payload":{"authorization":"Bearer %s"}}`, g.b1.token)))
	equal(t, "socket 33 of one device", frameOrClose(t, conn), "close 1013")
	g.b2.socket() // another device is not concerned
}

// TestABurstOnOneSocket: 600 reports at once are each answered, and the largest wins.
func TestABurstOnOneSocket(t *testing.T) {
	g := newTrio(t)
	g.fill(g.conv, "A", 600)
	s := g.b1.socket()
	var all []*stream
	for seq := range int64(600) {
		all = append(all, s.start(markReadDoc, vars{"c": g.conv, "s": seq + 4}))
	}
	for _, st := range all {
		if f := st.frame(); f.Type != "next" || strings.Contains(string(f.Payload), "errors") {
			t.Fatalf("%s %s", f.Type, f.Payload)
		}
	}
	equal(t, "read", g.b1.see(g.conv).Read, 603)
}

// TestStalledRequestsAreLetGo: a body that does not come, a connection_init that
// does not come, with or without pings, ends.
func TestStalledRequestsAreLetGo(t *testing.T) {
	g := newTrio(t)
	address := g.main.http.Listener.Addr().String()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	unread, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	fmt.Fprintf(unread, "GET /healthz HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n\r\n", address)
	fmt.Fprintf(conn, "POST /graphql HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", address)
	pinging := g.main.dial(t, "graphql-transport-ws")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				_ = pinging.Write(context.Background(), websocket.MessageText, []byte(`{"type":"ping"}`))
			}
		}
	})
	for {
		if f := frameOrClose(t, pinging); f != "pong" {
			equal(t, "a client that only pings", f, "close 4408")
			break
		}
	}
	close(stop)
	wg.Wait()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(answer), "400 Bad Request") {
		t.Errorf("a stalled body: %q %v", answer, err)
	}
	_ = unread.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadAll(unread); err != nil {
		t.Errorf("a body that nobody reads: %v", err)
	}
}

// TestOtherUpgradesAreIgnored: clients that offer HTTP/2 are answered in HTTP/1.1.
func TestOtherUpgradesAreIgnored(t *testing.T) {
	g := newTrio(t)
	request, err := http.NewRequest("POST", g.main.http.URL+"/graphql", strings.NewReader(`{"query":"{ badge { unread } }"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQCAAAAAAIAAAAA",
		"Content-Type": "application/json", "Authorization": "bearer " + g.b1.token} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, _ := io.ReadAll(response.Body)
	equal(t, "answer", string(b), `{"data":{"badge":{"unread":0}}}`)
}

// TestStalledClientsAreLetGo: clients that answered once and then stop reading
// hold nothing for longer than a few seconds.
func TestStalledClientsAreLetGo(t *testing.T) {
	g := newTrio(t)
	g.fillWith(g.conv, "A", 200, strings.Repeat("x", chat.MaxBodyBytes))
	for range 3 {
		conn := rawSocket(t, g.main.http.Listener.Addr().String(), g.b1.token)
		defer conn.Close()
	}
	running := func(function string) int {
		stacks := make([]byte, 1<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), function)
	}
	equal(t, "sockets at first", running("(*Server).serveSocket("), 3)
	g.eventually("they are let go", func() bool {
		return running("(*Server).serveSocket(") == 0 && running("(*wsConnection).subscribe.func1(") == 0
	})
}

// rawSocket opens a socket over a plain connection with a small window, asks for
// more than fits into it, and never reads again.
func rawSocket(t *testing.T, address, token string) net.Conn {
	t.Helper()
	var raw net.Conn
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			raw = conn
			err = conn.(*net.TCPConn).SetReadBuffer(4096)
		}
		return conn, err
	}}}
	ws, _, err := websocket.Dial(t.Context(), "ws://"+address+"/graphql", &websocket.DialOptions{HTTPClient: client, Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		t.Fatal(err)
	}
	write := func(s string) {
		if err := ws.Write(t.Context(), websocket.MessageText, []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf(`{"type":"connection_init","payload":{"authorization":"Bearer %s"}}`, token))
	for n := range 5 {
		write(fmt.Sprintf(`{"id":"%d","type":"subscribe","payload":{"query":"{ conversation(id: \"c1\") { events(last: 200) { nodes { ... on Message { body } } } } }"}}`, n))
	}
	return raw
}

// TestHTTPRefusals: what is no GraphQL request.
func TestHTTPRefusals(t *testing.T) {
	g := newTrio(t)
	url := g.main.http.URL + "/graphql"
	for name, probe := range map[string]struct {
		method, contentType, accept, body string
		status                            int
		contains                          string
	}{
		"a form":            {"POST", "application/x-www-form-urlencoded", "", "query={__typename}", 415, "application/json"},
		"text":              {"POST", "text/plain", "", `{"query":"{__typename}"}`, 415, "application/json"},
		"multipart":         {"POST", "multipart/form-data; boundary=x", "", "--x--", 415, "application/json"},
		"no content type":   {"POST", "", "", `{"query":"{__typename}"}`, 415, "application/json"},
		"latin":             {"POST", "application/json; charset=latin1", "", `{"query":"{__typename}"}`, 415, "UTF-8"},
		"a batch":           {"POST", "application/json", "", `[{"query":"{__typename}"}]`, 400, "one JSON object"},
		"two objects":       {"POST", "application/json", "", `{"query":"{__typename}"}{}`, 400, "one JSON object"},
		"too large":         {"POST", "application/json", "", `{"query":"` + strings.Repeat(" ", 300_000) + `"}`, 413, "262144"},
		"no query":          {"POST", "application/json", "", `{}`, 400, "query"},
		"PUT":               {"PUT", "application/json", "", `{"query":"{__typename}"}`, 405, "POST"},
		"a picture":         {"POST", "application/json", "image/png", `{"query":"{__typename}"}`, 406, "Not acceptable"},
		"half a pair":       {"POST", "application/json", "", `{"query":"{__typename}","variables":{"x":"a\ud800"}}`, 400, "surrogate"},
		"half in the query": {"POST", "application/json", "", `{"query":"{ conversation(id: \"a\\ud800\") { id } }"}`, 400, "surrogate"},
		"a whole pair":      {"POST", "application/json", "", `{"query":"{__typename}","variables":{"x":"a\ud83d\ude00"}}`, 200, "Query"},
		"a broken stream":   {"POST", "application/json", "text/event-stream", `{"query":`, 400, "BAD_USER_INPUT"},
		"a large stream":    {"POST", "application/json", "text/event-stream", `{"query":"` + strings.Repeat(" ", 300_000) + `"}`, 413, "BAD_USER_INPUT"},
		"a typeless stream": {"POST", "", "text/event-stream", `{"query":"{__typename}"}`, 415, "application/json"},
		"a stream at last":  {"POST", "application/json", "application/json, text/event-stream;q=0.1", `{"query":"{__typename}"}`, 200, `{"data"`},
		"no operationName":  {"POST", "application/json", "", `{"query":"query A {__typename} query B {__typename}"}`, 200, "operationName"},
		"a plain subscribe": {"POST", "application/json", "", `{"query":"subscription { inboxChanged { reasons } }"}`, 400, "WebSocket"},
	} {
		request, err := http.NewRequest(probe.method, url, strings.NewReader(probe.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+g.b1.token)
		if probe.contentType != "" {
			request.Header.Set("Content-Type", probe.contentType)
		}
		if probe.accept != "" {
			request.Header.Set("Accept", probe.accept)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != probe.status || !strings.Contains(string(b), probe.contains) {
			t.Errorf("%s: %d %s, want %d and %q", name, response.StatusCode, b, probe.status, probe.contains)
		}
	}
	for what, query := range map[string]string{"half a pair": `%7B__typename%7D&variables=%7B%22x%22%3A%22%5Cud800%22%7D`, "no UTF-8": `%7B__typename%7D&variables=%7B%22x%22%3A%22%FF%22%7D`} {
		response, err := http.Get(url + "?query=" + query)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		equal(t, "a GET with "+what, response.StatusCode, 400)
	}
	if response, err := http.Get(url + `?query=mutation{leaveConversation(input:{conversationId:"c1"}){badge{unread}}}`); err != nil || response.StatusCode != 405 {
		t.Error("a mutation by GET:", response, errors.Join(err))
	} else {
		response.Body.Close()
	}
}
