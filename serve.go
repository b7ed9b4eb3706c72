package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"tidemark/chat"
	"tidemark/hint"
	"tidemark/hint/pgbus"
	"tidemark/resolvers"
	"tidemark/store"
)

type serveCommand struct {
	databaseSettings
	Listen        string        `default:"127.0.0.1:8080" env:"TIDEMARK_LISTEN" help:"The address to serve on."`
	ServiceKey    string        `env:"TIDEMARK_SERVICE_KEY" placeholder:"KEY" help:"The credential of your own back end, at least 16 characters. Without one, nobody may call the fields that need it."`
	Connections   int           `default:"16" env:"TIDEMARK_CONNECTIONS" help:"Database connections for requests. Some 14 more serve batches, hints and the bus."`
	PullMembers   int           `default:"500" env:"TIDEMARK_PULL_MEMBERS" help:"Above this many members hints about new messages are merged over a second."`
	ReceiptNames  int           `default:"200" env:"TIDEMARK_RECEIPT_NAMES" help:"From this many members on, receipts have counts instead of names."`
	ReceiptMerge  time.Duration `default:"1s" env:"TIDEMARK_RECEIPT_MERGE" help:"How long receiptsChanged gathers moves where receipts have no names."`
	Origins       []string      `env:"TIDEMARK_ORIGINS" placeholder:"HOST" help:"Hosts of web pages that may open WebSockets, besides the server's own; * matches within a name."`
	Playground    bool          `default:"true" negatable:"" env:"TIDEMARK_PLAYGROUND" help:"Serve GraphiQL at /playground."`
	Introspection bool          `default:"true" negatable:"" env:"TIDEMARK_INTROSPECTION" help:"Answer questions about the schema and suggest names in errors."`
	DrainTimeout  time.Duration `default:"10s" env:"TIDEMARK_DRAIN_TIMEOUT" help:"How long running requests may take after SIGTERM."`
	Demo          bool          `env:"TIDEMARK_DEMO" help:"Fill in a small demo once, and print fresh tokens for it."`
}

// maxPrivateConnections leaves room for hints and operators' commands among the
// 200 connections of the private PostgreSQL.
const maxPrivateConnections = 150

// minServiceKey keeps keys that can be guessed out.
const minServiceKey = 16

// Run serves until ctx ends, then drains.
func (c *serveCommand) Run(ctx context.Context, log *slog.Logger) error {
	if err := c.check(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("the address %s is taken by another process; stop it, or choose another with --listen", c.Listen)
	} else if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", c.Listen, err)
	}
	defer listener.Close()
	db, err := c.migrated(ctx, log, false)
	if err != nil {
		return err
	}
	defer db.stop()
	n, err := openNode(ctx, db.url, store.Options{Connections: c.Connections, Direct: db.direct, PullMembers: c.PullMembers, ReceiptNames: c.ReceiptNames, Log: log})
	if err != nil {
		return err
	}
	defer n.close()

	tabs := emptyTabs()
	if c.Demo {
		demo, err := fillDemo(ctx, n.store)
		if err != nil {
			return fmt.Errorf("filling in the demo: %w", err)
		}
		demo.print(listener.Addr())
		tabs = demo.tabs()
	}
	if !c.Playground {
		tabs = nil
	}

	server := n.serve(resolvers.Config{ServiceKey: c.ServiceKey, Introspection: c.Introspection, Playground: tabs, Origins: c.Origins, ReceiptMerge: c.ReceiptMerge})
	log.Info("serving", "address", "http://"+listener.Addr().String())
	return c.serve(ctx, log, server, listener, db.exited)
}

// node is what one process has: the store, and the hub with its way to the others.
type node struct {
	store *store.Store
	bus   *pgbus.Bus
	hub   *hint.Hub
	relay *hint.Relay
	log   *slog.Logger

	running sync.WaitGroup
	stop    context.CancelFunc

	// heap is never touched, and so takes no memory. The collector runs when the heap
	// has doubled: without it that would be several times a second, since a request
	// leaves some 25 KB behind and a quiet server keeps next to nothing.
	heap []byte
}

// heapFloor is the size in bytes of what the heap has at least.
const heapFloor = 16 << 20

func openNode(ctx context.Context, url string, o store.Options) (*node, error) {
	s, err := store.Open(ctx, url, o)
	if err != nil {
		return nil, err
	}
	bus, err := pgbus.New(cmp.Or(o.Direct, url), o.Log)
	if err != nil {
		s.Close()
		return nil, err
	}
	hub := hint.NewHub(routesFrom(s), o.Log)
	return &node{store: s, bus: bus, hub: hub, relay: hint.NewRelay(hub, bus, o.Log), log: o.Log, stop: func() {}, heap: make([]byte, heapFloor)}, nil
}

// serve makes the server and lets hints travel until close.
func (n *node) serve(c resolvers.Config) *resolvers.Server {
	c.Store, c.Hub, c.Relay, c.Log = n.store, n.hub, n.relay, n.log
	var background context.Context
	background, n.stop = context.WithCancel(context.Background())
	n.running.Go(func() { n.hub.Run(background) })
	n.running.Go(func() { n.relay.Run(background) })
	return resolvers.New(c)
}

// close ends what serve began, after the last request was answered.
func (n *node) close() {
	n.stop()
	n.running.Wait()
	n.bus.Close()
	n.store.Close()
}

// check refuses settings that make no sense.
func (c *serveCommand) check() error {
	switch {
	case c.ServiceKey != "" && len(c.ServiceKey) < minServiceKey:
		return fmt.Errorf("the service key is shorter than %d characters; choose a longer one", minServiceKey)
	case c.Connections < 1:
		return errors.New("--connections must be at least 1")
	case c.DatabaseURL == "" && c.Connections > maxPrivateConnections:
		return fmt.Errorf("the private PostgreSQL takes --connections up to %d; name a database of your own for more", maxPrivateConnections)
	case c.PullMembers < 1 || c.PullMembers > math.MaxInt32 || c.ReceiptNames < 1 || c.ReceiptNames > math.MaxInt32:
		return errors.New("--pull-members and --receipt-names must be at least 1")
	case c.ReceiptMerge <= 0:
		return errors.New("--receipt-merge must be longer than nothing")
	case c.DrainTimeout < 0:
		return errors.New("--drain-timeout must not be negative")
	}
	return nil
}

// serve answers requests until ctx ends or the private database does.
func (c *serveCommand) serve(ctx context.Context, log *slog.Logger, server *resolvers.Server, listener net.Listener, databaseExited <-chan struct{}) error {
	web := &http.Server{
		Handler:           server,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { failed <- web.Serve(listener) })
	defer serving.Wait()

	var cause error
	select {
	case <-ctx.Done():
		log.Info("draining")
	case cause = <-failed:
	case <-databaseExited:
		cause = errors.New("the private PostgreSQL has ended; see postgres.log in the data directory")
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.DrainTimeout)
	defer cancel()
	var draining sync.WaitGroup
	draining.Go(func() { server.Drain(drain) })
	if err := web.Shutdown(drain); err != nil {
		log.Warn("some requests did not finish in time")
		_ = web.Close()
	}
	draining.Wait()
	log.Info("stopped")
	return cause
}

// routesFrom reads the hub's routes from the store.
func routesFrom(s *store.Store) hint.Loader {
	return func(ctx context.Context, user chat.UserID) (hint.Routes, error) {
		convs, tokens, err := s.Routes(ctx, user)
		if err != nil {
			return hint.Routes{}, err
		}
		routes := hint.Routes{Conversations: convs, Credentials: make(map[chat.DeviceID]string, len(tokens))}
		for device, hash := range tokens {
			routes.Credentials[device] = string(hash[:])
		}
		return routes, nil
	}
}
