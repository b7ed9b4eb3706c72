package resolvers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
	"tidemark/hint"
	"tidemark/hint/pgbus"
	"tidemark/resolvers"
	"tidemark/store"
	"tidemark/storetest"
)

const serviceKey = "the service key of the tests"

// world is one database with one or more server processes on it.
type world struct {
	t    *testing.T
	url  string
	main *process
	ids  atomic.Int64
}

// process is a server as "tidemark serve" wires it, but for its command line.
type process struct {
	w      *world
	store  *store.Store
	relay  *hint.Relay
	server *resolvers.Server
	http   *httptest.Server
	log    *syncBuffer

	mu         sync.Mutex
	statements []string // all that were sent so far
}

// sent is what was sent to the database while do ran.
func (p *process) sent(do func()) []string {
	p.mu.Lock()
	before := len(p.statements)
	p.mu.Unlock()
	do()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.statements[before:]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, url: storetest.URL(t)}
	w.main = w.process(nil)
	return w
}

// process starts one more server on the same database; change adjusts its configuration.
func (w *world) process(change func(*resolvers.Config)) *process {
	w.t.Helper()
	p := &process{w: w, log: &syncBuffer{}}
	log := slog.New(slog.NewTextHandler(p.log, nil))
	var err error
	p.store, err = store.Open(context.Background(), w.url, store.Options{Log: log, Trace: func(sql string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.statements = append(p.statements, sql)
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(p.store.Close)
	bus, err := pgbus.New(w.url, log)
	if err != nil {
		w.t.Fatal(err)
	}
	hub := hint.NewHub(func(ctx context.Context, u chat.UserID) (hint.Routes, error) {
		convs, tokens, err := p.store.Routes(ctx, u)
		credentials := map[chat.DeviceID]string{}
		for d, hash := range tokens {
			credentials[d] = string(hash[:])
		}
		return hint.Routes{Conversations: convs, Credentials: credentials}, err
	}, log)
	p.relay = hint.NewRelay(hub, bus, log)
	config := resolvers.Config{Store: p.store, Hub: hub, Relay: p.relay, Log: log, ServiceKey: serviceKey, Introspection: true}
	if change != nil {
		change(&config)
	}
	p.server = resolvers.New(config)
	p.http = httptest.NewServer(p.server)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { hub.Run(ctx) })
	running.Go(func() { p.relay.Run(ctx) })
	w.t.Cleanup(func() {
		drain, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		p.server.Drain(drain)
		p.http.Close()
		cancel()
		running.Wait()
		bus.Close()
	})
	w.eventually("the bus works", p.relay.Healthy)
	return p
}

// eventually waits for something that other goroutines bring about.
func (w *world) eventually(what string, true func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !true() {
		if time.Now().After(deadline) {
			w.t.Fatalf("it never came true that %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// client is a caller with a credential, over HTTP.
type client struct {
	p      *process
	user   string
	device string
	token  string
	// session, if set, goes into the header Tidemark-Session.
	session string
}

func (w *world) service() *client { return &client{p: w.main, token: serviceKey} }

// user creates users without devices.
func (w *world) users(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.service().must(`mutation($id: ID!) { putUser(input: {id: $id}) { user { id } } }`, vars{"id": id})
	}
}

// device creates a device of a user, and the user if need be.
func (w *world) device(user, id string) *client {
	w.t.Helper()
	w.users(user)
	var out struct{ CreateDevice struct{ Token string } }
	w.service().must(`mutation($u: ID!, $d: ID!) { createDevice(input: {userId: $u, id: $d}) { token } }`, vars{"u": user, "d": id}).into(&out)
	return &client{p: w.main, user: user, device: id, token: out.CreateDevice.Token}
}

// at is the same caller on another process.
func (c *client) at(p *process) *client {
	other := *c
	other.p = p
	return &other
}

// naming is the same caller with the header that names a socket's session.
func (c *client) naming(session string) *client {
	other := *c
	other.session = session
	return &other
}

func (w *world) conversation(kind, id string, members ...string) string {
	w.t.Helper()
	w.service().must(`mutation($id: ID!, $kind: ConversationKind!, $m: [ID!]!) { createConversation(input: {id: $id, kind: $kind, memberIds: $m}) { conversation { id } } }`,
		vars{"id": id, "kind": kind, "m": members})
	return id
}

func (w *world) group(id string, members ...string) string {
	w.t.Helper()
	return w.conversation("GROUP", id, members...)
}

func (w *world) addMembers(conv, history string, users ...string) {
	w.t.Helper()
	w.service().must(`mutation($c: ID!, $u: [ID!]!, $h: HistoryOnJoin!) { addMembers(input: {conversationId: $c, userIds: $u, history: $h}) { conversation { id } } }`,
		vars{"c": conv, "u": users, "h": history})
}

type vars map[string]any

type apiError struct {
	Message    string
	Path       []any
	Extensions map[string]any
}

type answer struct {
	t      *testing.T
	status int
	Data   json.RawMessage
	Errors []apiError
}

func (a *answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.Data, v); err != nil {
		a.t.Fatalf("%v in %s", err, a.Data)
	}
}

// code is the code of the first error; empty if there is none.
func (a *answer) code() string {
	if len(a.Errors) == 0 {
		return ""
	}
	code, _ := a.Errors[0].Extensions["code"].(string)
	return code
}

// field is the argument that the first error names.
func (a *answer) field() string {
	if len(a.Errors) == 0 {
		return ""
	}
	field, _ := a.Errors[0].Extensions["field"].(string)
	return field
}

// do runs an operation.
func (c *client) do(doc string, v vars) *answer {
	c.p.w.t.Helper()
	a, err := c.try(doc, v)
	if err != nil {
		c.p.w.t.Fatal(err)
	}
	return a
}

// try runs an operation; for goroutines other than the test's own.
func (c *client) try(doc string, v vars) (*answer, error) {
	body, err := json.Marshal(map[string]any{"query": doc, "variables": v})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest("POST", c.p.http.URL+"/graphql", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.session != "" {
		request.Header.Set("Tidemark-Session", c.session)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	a := &answer{t: c.p.w.t, status: response.StatusCode}
	if err := json.Unmarshal(b, a); err != nil {
		return nil, fmt.Errorf("%w in %s", err, b)
	}
	return a, nil
}

// must runs an operation that has to succeed.
func (c *client) must(doc string, v vars) *answer {
	c.p.w.t.Helper()
	a := c.do(doc, v)
	if len(a.Errors) > 0 {
		c.p.w.t.Fatalf("%+v\nin %s", a.Errors, doc)
	}
	return a
}

// row is a conversation with every field of a list.
type row struct {
	ID             string
	Version        int64
	Title          *string
	Head           int64
	MinSeq         int64
	Delivered      int64
	Read           int64
	ReadRevision   int64
	Unread         int64
	LastActivityAt string
	FirstUnread    *struct{ Seq int64 }
	LastMessage    *struct{ Seq int64 }
	Membership     struct {
		Active  bool
		Periods []struct{ FromSeq, ToSeq int64 }
	}
	Members struct {
		TotalCount int
		Nodes      []struct{ User struct{ ID string } }
	}
}

const rowFields = ` id version title head minSeq delivered read readRevision unread lastActivityAt firstUnread { seq } lastMessage { seq }
	membership { active periods { fromSeq toSeq } } members { totalCount nodes { user { id } } } `

// see reads one conversation; nil if the caller cannot.
func (c *client) see(conv string) *row {
	c.p.w.t.Helper()
	var out struct{ Conversation *row }
	c.must(`query($id: ID!) { conversation(id: $id) {`+rowFields+`} }`, vars{"id": conv}).into(&out)
	return out.Conversation
}

type badge struct{ Version, Unread, Conversations int64 }

func (c *client) badge() badge {
	c.p.w.t.Helper()
	var out struct{ Badge badge }
	c.must(`{ badge { version unread conversations } }`, nil).into(&out)
	return out.Badge
}

// inbox reads the first page of a list, with the badge from the same snapshot.
func (c *client) inbox(filter string) ([]row, badge) {
	c.p.w.t.Helper()
	var out struct {
		Conversations struct {
			Nodes []row
			Badge badge
		}
	}
	c.must(`{ conversations(first: 200, filter: {`+filter+`}) { badge { version unread conversations } nodes {`+rowFields+`} } }`, nil).into(&out)
	return out.Conversations.Nodes, out.Conversations.Badge
}

const markReadDoc = `mutation($c: ID!, $s: Seq!) { markRead(input: {conversationId: $c, seq: $s}) {
	conversation { id version read readRevision unread } badge { version unread conversations } } }`

type readPayload struct {
	MarkRead struct {
		Conversation row
		Badge        badge
	}
}

// read reports a position that must be accepted.
func (c *client) read(conv string, seq int64) (p readPayload) {
	c.p.w.t.Helper()
	c.must(markReadDoc, vars{"c": conv, "s": seq}).into(&p)
	return p
}

const ackDoc = `mutation($e: Int!, $c: [CursorInput!]!) { ack(input: {installEpoch: $e, cursors: $c}) {
	cursors { conversationId delivered } rejected { conversationId seq code message } } }`

type ackPayload struct {
	Ack struct {
		Cursors []struct {
			ConversationID string
			Delivered      int64
		}
		Rejected []struct {
			ConversationID string
			Seq            int64
			Code           string
		}
	}
}

func cursorOf(conv string, seq int64) vars { return vars{"conversationId": conv, "seq": seq} }

// ack reports what the device holds; cursors alternate conversation and seq.
func (c *client) ack(epoch int, cursors ...vars) (p ackPayload) {
	c.p.w.t.Helper()
	c.must(ackDoc, vars{"e": epoch, "c": cursors}).into(&p)
	return p
}

func (c *client) install(id string) (epoch int, reinstalled bool) {
	c.p.w.t.Helper()
	var out struct {
		RegisterInstall struct {
			Device      struct{ InstallEpoch int }
			Reinstalled bool
		}
	}
	c.must(`mutation($i: ID!) { registerInstall(input: {installId: $i}) { device { installEpoch } reinstalled } }`, vars{"i": id}).into(&out)
	return out.RegisterInstall.Device.InstallEpoch, out.RegisterInstall.Reinstalled
}

const sendDoc = `mutation($c: ID!, $m: ID!, $b: String!) { sendMessage(input: {conversationId: $c, clientMessageId: $m, body: $b}) {
	duplicate message { seq body clientMessageId recalled actor { id } } conversation { head unread } } }`

type messagePayload struct {
	Duplicate bool
	Message   struct {
		Seq             int64
		Body            *string
		ClientMessageID string
		Recalled        bool
		Actor           struct{ ID string }
	}
	Conversation row
}

// send sends n messages and returns their seqs.
func (c *client) send(conv string, n int) (seqs []int64) {
	c.p.w.t.Helper()
	for range n {
		var out struct{ SendMessage messagePayload }
		id := fmt.Sprint("m", c.p.w.ids.Add(1))
		c.must(sendDoc, vars{"c": conv, "m": id, "b": "message " + id}).into(&out)
		seqs = append(seqs, out.SendMessage.Message.Seq)
	}
	return seqs
}

func (c *client) recall(conv string, seq int64) {
	c.p.w.t.Helper()
	c.must(`mutation($c: ID!, $s: Seq!) { recallMessage(input: {conversationId: $c, seq: $s}) { message { body recalled } } }`, vars{"c": conv, "s": seq})
}

func (c *client) leave(conv string) row {
	c.p.w.t.Helper()
	var out struct{ LeaveConversation struct{ Conversation row } }
	c.must(`mutation($c: ID!) { leaveConversation(input: {conversationId: $c}) { conversation {`+rowFields+`} badge { unread } } }`, vars{"c": conv}).into(&out)
	return out.LeaveConversation.Conversation
}

// event is an entry of a log as events() answers it.
type event struct {
	Typename   string `json:"__typename"`
	Seq        int64
	Body       *string
	Recalled   bool
	MessageSeq int64
	Actor      *struct{ ID string }
	Member     *struct{ ID string }
}

// events reads all events after a position, page by page, as a client syncs.
func (c *client) events(conv string, after int64) (all []event) {
	c.p.w.t.Helper()
	for {
		var out struct {
			Conversation *struct {
				Events struct {
					Nodes    []event
					PageInfo struct{ HasNextPage bool }
				}
			}
		}
		c.must(`query($c: ID!, $a: Seq!) { conversation(id: $c) { events(after: $a, first: 200) { pageInfo { hasNextPage } nodes {
			__typename seq actor { id } ... on Message { body recalled } ... on MessageRecalled { messageSeq } ... on MemberJoined { member { id } } ... on MemberLeft { member { id } } } } } }`,
			vars{"c": conv, "a": after}).into(&out)
		if out.Conversation == nil {
			return all
		}
		all = append(all, out.Conversation.Events.Nodes...)
		if !out.Conversation.Events.PageInfo.HasNextPage {
			return all
		}
		after = all[len(all)-1].Seq
	}
}

func messagesIn(events []event) (n int) {
	for _, e := range events {
		if e.Typename == "Message" {
			n++
		}
	}
	return n
}

// equal fails unless got is want.
func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// refused fails unless the answer carries the code, and the field if one is named.
func refused(t *testing.T, what string, a *answer, code, field string) {
	t.Helper()
	if a.code() != code || a.field() != field {
		t.Errorf("%s: code %q field %q, want %q %q (%+v)", what, a.code(), a.field(), code, field, a.Errors)
	}
	for _, e := range a.Errors {
		if strings.Contains(e.Message, "SQLSTATE") || strings.Contains(e.Message, "ERROR:") {
			t.Errorf("%s: internal text reached the client: %s", what, e.Message)
		}
	}
}

// conn is a plain connection for what a test asks of the tables themselves.
func (w *world) conn() *pgx.Conn {
	w.t.Helper()
	return storetest.Conn(w.t, w.url)
}
