package resolvers_test

import (
	"bytes"
	"context"
	"log/slog"
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
