// Package resolvers is the edge: GraphQL in, one call of the store, GraphQL out.
// It knows transports, credentials, limits and error codes; it knows no rule and
// no SQL.
package resolvers

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/vektah/gqlparser/v2/ast"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/hint"
	"tidemark/store"
	"tidemark/web"
)

// Config is what a server is made of.
type Config struct {
	Store *store.Store
	Hub   *hint.Hub
	Relay *hint.Relay
	Log   *slog.Logger
	// ServiceKey is the credential of the application's back end; empty: nobody has it.
	ServiceKey string
	// Introspection answers questions about the schema, and suggests names in errors.
	Introspection bool
	// Playground serves GraphiQL at /playground with these tabs; nil does not.
	Playground []web.Tab
	// Origins are host patterns of web pages that may open sockets, besides the
	// server's own host.
	Origins []string
	// ReceiptMerge is for how long receiptsChanged gathers moves in conversations
	// whose receipts have no names; 0 means one second.
	ReceiptMerge time.Duration
}

// Server answers GraphQL over HTTP, WebSocket and server-sent events.
type Server struct {
	store      *store.Store
	hub        *hint.Hub
	relay      *hint.Relay
	log        *slog.Logger
	serviceKey *[sha256.Size]byte
	origins    []string
	graphql    *handler.Server
	mux        *http.ServeMux

	receiptMerge time.Duration

	lanes   lanes
	sockets sockets
	// running counts what outlives its HTTP handler: operations on sockets and
	// the goroutines that feed subscriptions.
	running group
}

// requestTimeout is how long a query or a mutation may take.
const requestTimeout = 10 * time.Second

// New wires a server.
func New(c Config) *Server {
	s := &Server{store: c.Store, hub: c.Hub, relay: c.Relay, log: c.Log, serviceKey: hashServiceKey(c.ServiceKey), origins: c.Origins, receiptMerge: c.ReceiptMerge}
	if s.receiptMerge == 0 {
		s.receiptMerge = time.Second
	}
	s.lanes = newLanes(s.store, s.relay)
	s.graphql = s.newGraphQL(c)
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("/graphql", s.serveGraphQL)
	s.mux.HandleFunc("GET /healthz", s.healthz)
	s.mux.HandleFunc("GET /readyz", s.readyz)
	if c.Playground != nil {
		web.Register(s.mux, "/graphql", c.Playground)
	}
	return s
}

// slowAnswer is how long a client may take to receive anything but a stream.
const slowAnswer = time.Minute

// ServeHTTP implements http.Handler. Whoever sends a body has ten seconds for it,
// also where nobody reads it: the server does, before it answers. Upgrades and
// streams set deadlines of their own.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	if r.ContentLength != 0 {
		_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // not every test's writer has one
	}
	_ = rc.SetWriteDeadline(time.Now().Add(slowAnswer))
	s.mux.ServeHTTP(w, r)
}

// withoutDefer is schema without @defer, which the parser adds to every schema: an
// answer here is one, read from one snapshot, and has no later parts.
func withoutDefer(schema *ast.Schema) *ast.Schema {
	own := *schema
	own.Directives = maps.Clone(schema.Directives)
	delete(own.Directives, "defer")
	return &own
}

func (s *Server) newGraphQL(c Config) *handler.Server {
	config := graph.Config{Resolvers: &root{s}}
	config.Directives.Service = func(ctx context.Context, _ any, next graphql.Resolver) (any, error) {
		if err := requireService(ctx); err != nil {
			return nil, err
		}
		return next(ctx)
	}
	complexity(&config.Complexity)

	config.Schema = withoutDefer(graph.NewExecutableSchema(config).Schema())
	g := handler.New(graph.NewExecutableSchema(config))
	readLimit := int64(maxBody)
	g.AddTransport(transport.Websocket{
		Implementation:   acceptedSocket{},
		InitFunc:         s.openSession,
		PingPongInterval: pingInterval,
		PayloadReadLimit: &readLimit,
	})
	g.AddTransport(httpTransport{}) // before SSE, which would take any request that accepts a stream at all
	g.AddTransport(transport.SSE{KeepAlivePingInterval: pingInterval})

	g.SetQueryCache(smallDocuments{lru.New[*ast.QueryDocument](500)})
	g.SetParserTokenLimit(maxTokens)
	g.SetDisableSuggestion(!c.Introspection)
	g.SetErrorPresenter(present)
	g.SetRecoverFunc(s.recovered)
	g.Use(operationLimit{}) // before the complexity limit, whose walk it keeps short
	g.Use(extension.FixedComplexityLimit(maxComplexity))
	if c.Introspection {
		g.Use(extension.Introspection{})
	}
	g.AroundOperations(s.aroundOperation)
	g.AroundRootFields(s.aroundRootField)
	g.AroundResponses(s.aroundResponse)
	return g
}

// serveGraphQL serves the one endpoint: sockets, streams and plain requests.
func (s *Server) serveGraphQL(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(withFailures(r.Context()))
	if wantsSocket(r) {
		s.serveSocket(w, r)
		return
	}
	r.Header.Del("Upgrade") // whatever else it names is not spoken here
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "Send GraphQL requests with POST.", http.StatusMethodNotAllowed)
		return
	}
	params, status, problem := read(w, r)
	out := answer{w: w, mediaType: negotiate(r.Header.Values("Accept"))}
	switch {
	case out.mediaType == "":
		http.Error(w, "Not acceptable: this endpoint answers "+typeResponse+", "+typeJSON+" and "+typeStream+".", http.StatusNotAcceptable)
	case problem != "":
		out.refuse(status, problem)
	case out.mediaType == typeStream && r.Method == http.MethodPost:
		s.serveStream(w, r, params)
	case out.mediaType == typeStream:
		out.refuse(http.StatusMethodNotAllowed, "Open a stream with POST and a JSON body.")
	default:
		s.graphql.ServeHTTP(w, r.WithContext(withRequest(s.identifyRequest(r), request{out, params})))
	}
}

// serveStream serves one operation as server-sent events. gqlgen reads the
// request itself: it gets what was checked, in a form that cannot fail.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, params parameters) {
	body, err := json.Marshal(params)
	if err != nil {
		http.Error(w, "The request cannot be encoded.", http.StatusInternalServerError)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Set("Content-Type", typeJSON)
	r.Header.Set("Accept", typeStream)
	g := guard(w)
	defer g.finish()
	s.graphql.ServeHTTP(g, r.WithContext(s.identifyRequest(r)))
}

// wantsSocket reports whether a request asks to become a WebSocket. Clients also
// offer other protocols by Upgrade (h2c, for one), which are not for us.
func wantsSocket(r *http.Request) bool {
	for _, header := range r.Header.Values("Upgrade") {
		for protocol := range strings.SplitSeq(header, ",") {
			if strings.EqualFold(strings.TrimSpace(protocol), "websocket") {
				return true
			}
		}
	}
	return false
}

// serveSocket serves one WebSocket from its upgrade to its end.
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	if !s.running.enter() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "The server is shutting down.", http.StatusServiceUnavailable)
		return
	}
	defer s.running.leave()
	socket := acceptSocket(w, r, s.origins)
	if socket == nil {
		return
	}
	c := &caller{err: chat.ErrUnauthenticated()}
	ctx, cancel := context.WithCancel(withCaller(context.WithValue(r.Context(), socketKey{}, socket), c))
	defer cancel()
	socket.cancel = cancel
	s.sockets.add(socket)
	defer func() {
		s.sockets.remove(socket)
		s.sockets.release(socket.device)
		if c.session != nil {
			c.session.Close()
		}
		_ = socket.Close()
	}()
	s.graphql.ServeHTTP(w, r.WithContext(ctx))
}

// openSession answers connection_init: it identifies the caller, registers the
// session, and tells its id. A bad credential closes with 4403.
func (s *Server) openSession(ctx context.Context, init transport.InitPayload) (context.Context, *transport.InitPayload, error) {
	socket := socketOf(ctx)
	refuse := func(code int, reason string, err error) (context.Context, *transport.InitPayload, error) {
		socket.endWith(code, reason)
		return ctx, nil, err
	}
	checking, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found := s.identify(checking, init.Authorization())
	if found.err == nil && found.service {
		found.err = chat.ErrUnauthenticated() // the service has no sessions
	}
	if isUnauthenticated(found.err) {
		return refuse(closeForbidden, "Forbidden", found.err)
	} else if found.err != nil {
		return refuse(closeTryAgain, "Try again later", found.err)
	}
	if !s.sockets.claim(found.device.ID) {
		return refuse(closeTryAgain, "Too many connections of this device", errTooManySockets)
	}
	socket.device = found.device.ID
	session, err := s.hub.Open(checking, hint.Session{
		ID: rand.Text(), User: found.device.UserID, Device: found.device.ID, Credential: string(found.hash[:]),
		End: func() { socket.end(closeForbidden, "Forbidden") },
	})
	if err != nil {
		if isUnauthenticated(err) {
			return refuse(closeForbidden, "Forbidden", err)
		}
		return refuse(closeTryAgain, "Try again later", err)
	}
	c := callerOf(ctx)
	*c = caller{device: found.device, hash: found.hash, session: session, origin: session.ID}
	return ctx, &transport.InitPayload{"sessionId": session.ID}, nil
}

// Drain lets what runs come to its end: new operations are refused, those on
// sockets finish, subscriptions complete, and then the sockets are closed. It
// returns when all is done; when ctx ends it closes the sockets and waits only
// for mutations that still run, which have ten seconds each. Plain requests and streams are waited for
// by the HTTP server in front, which should be shut down at the same time.
func (s *Server) Drain(ctx context.Context) {
	s.hub.Close()
	s.sockets.drain()
	s.running.close(ctx)
	s.sockets.endAll()
	// A mutation runs on when its connection is cut, and its hint must leave
	// before we say goodbye on the bus.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	s.running.close(last)
	s.lanes.wait()
}

// newRequestID names a request in the log and in answers that withhold a text.
func newRequestID() string { return rand.Text()[:16] }
