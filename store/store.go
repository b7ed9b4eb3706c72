// Package store is the truth: every SQL statement of Tidemark stands here.
//
// One exported write is one transaction. Reads go through a [Snapshot], which
// shows one state of the database however many reads it serves. Locks are
// always taken in the order conversation, user, member, read position or cursor,
// each sorted by key.
package store

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Store holds the connections to one database. It is safe for concurrent use.
type Store struct {
	// requests serves queries and mutations, hints the evaluation of
	// subscription events: a flood of hints must not starve requests.
	// routes serves what connecting and revoking wait for, lanes what many
	// callers share.
	requests, hints, routes, lanes *pgxpool.Pool
	log                            *slog.Logger
	// Above pullAbove members a conversation is PULL; below namesBelow its receipts have names.
	pullAbove, namesBelow int32
	receipts              *receiptCache
}

// Options configure [Open].
type Options struct {
	// Connections is how many connections requests may use at once; 0 means 16.
	Connections int
	// Direct is a URL of the same database, if that of [Open] leads to a pooler in
	// transaction mode, such as pgbouncer: then only requests go through the pooler.
	Direct string
	// PullMembers is the largest number of members of a PUSH conversation; 0 means 500.
	PullMembers int
	// ReceiptNames is the number of members from which receipts have counts
	// instead of names; 0 means 200.
	ReceiptNames int
	// Log receives failures that are retried; nil discards them.
	Log *slog.Logger
	// Trace, if set, is called with the text of each statement before it is sent,
	// from many goroutines.
	Trace func(sql string)
	// Busy, if set, is called after each statement, or batch of them, with how long
	// its connection was busy with it, from many goroutines.
	Busy func(took time.Duration)
}

// Open prepares the pools for the database at url (a PostgreSQL URL or DSN). It
// connects lazily: an unreachable server shows at the first call, see [Store.Ready].
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	s := &Store{log: o.Log, pullAbove: 500, namesBelow: 200, receipts: newReceiptCache()}
	if o.PullMembers != 0 {
		s.pullAbove = int32(o.PullMembers)
	}
	if o.ReceiptNames != 0 {
		s.namesBelow = int32(o.ReceiptNames)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if o.Connections == 0 {
		o.Connections = 16
	}
	direct := cmp.Or(o.Direct, url)
	for _, p := range []struct {
		pool        **pgxpool.Pool
		url         string
		connections int
		lockTimeout string
	}{
		{&s.requests, url, o.Connections, patientLock},
		{&s.hints, direct, hintConnections, patientLock},
		{&s.routes, direct, routeConnections, patientLock},
		{&s.lanes, direct, laneConnections, laneLock},
	} {
		var err error
		pooled := p.pool == &s.requests && direct != url
		if *p.pool, err = openPool(ctx, p.url, p.connections, p.lockTimeout, pooled, o); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Connections beside those for requests.
const (
	// hintConnections is one for each lane of events, and some for events that
	// need a snapshot of their own.
	hintConnections  = 2 + eventLanes
	routeConnections = 2
	// laneConnections is one for each batch that may be under way: of credentials, two
	// of reports, two of acks, and of what their callers are answered.
	laneConnections = 1 + 2 + 2 + 1
)

// ForLanes is the same store by connections of their own, on which nobody waits
// long for a lock: what many callers share must not wait for one of them. Only
// the store itself is to be closed.
func (s *Store) ForLanes() *Store { return s.by(s.lanes) }

// ForHints is the same store by the connections for subscription events.
func (s *Store) ForHints() *Store { return s.by(s.hints) }

func (s *Store) by(pool *pgxpool.Pool) *Store {
	other := *s
	other.requests = pool
	return &other
}

// Close waits for running calls and closes all connections.
func (s *Store) Close() {
	for _, pool := range []*pgxpool.Pool{s.hints, s.routes, s.lanes, s.requests} {
		if pool != nil {
			pool.Close()
		}
	}
}

func openPool(ctx context.Context, url string, conns int, lockTimeout string, pooled bool, o Options) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the database URL cannot be read: %w", err)
	}
	cfg.MaxConns = int32(conns)
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	if o.Trace != nil || o.Busy != nil {
		cfg.ConnConfig.Tracer = tracer{o.Trace, o.Busy}
	}
	params := cfg.ConnConfig.RuntimeParams
	params["application_name"] = "tidemark"
	if pooled {
		// What is prepared by a name belongs to one session of the pooler's. Of one
		// that follows names (pgbouncer since 1.21) the URL may ask for cache_statement.
		if !strings.Contains(url, "default_query_exec_mode") {
			cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		cfg.AfterConnect = checkSession
		return pgxpool.NewWithConfig(ctx, cfg)
	}
	for _, setting := range SessionSettings {
		params[setting.Name] = setting.Value
	}
	params["lock_timeout"] = lockTimeout
	return pgxpool.NewWithConfig(ctx, cfg)
}

// write runs do in one READ COMMITTED transaction and commits it. The
// transaction ends when write returns, also if do panics.
func (s *Store) write(ctx context.Context, do func(pgx.Tx) error) error {
	return domainError(s.requests.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		err := transact(ctx, conn, do)
		if err != nil && conn.Conn().IsClosed() {
			return &lostConnection{err}
		}
		return err
	}))
}

func transact(ctx context.Context, conn *pgxpool.Conn, do func(pgx.Tx) error) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		// After a commit it does nothing; otherwise the connection must go back
		// even if the caller is gone. pgx.BeginFunc would answer this error in the
		// place of the one that says what happened.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(end)
	}()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// rollbackTimeout is how long the end of a transaction may take before its
// connection is given up.
const rollbackTimeout = 5 * time.Second

// tracer adapts Options.Trace and Options.Busy, either of which may be nil, to pgx.
type tracer struct {
	trace func(sql string)
	busy  func(took time.Duration)
}

var (
	_ pgx.QueryTracer = tracer{}
	_ pgx.BatchTracer = tracer{}
)

type tracedSince struct{}

func (t tracer) sent(sql string) {
	if t.trace != nil {
		t.trace(sql)
	}
}

func (t tracer) began(ctx context.Context) context.Context {
	if t.busy == nil {
		return ctx
	}
	return context.WithValue(ctx, tracedSince{}, time.Now())
}

func (t tracer) ended(ctx context.Context) {
	if since, ok := ctx.Value(tracedSince{}).(time.Time); ok {
		t.busy(time.Since(since))
	}
}

func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	t.sent(d.SQL)
	return t.began(ctx)
}

func (t tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	t.ended(ctx)
}

func (t tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return t.began(ctx)
}

func (t tracer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	t.sent(d.SQL)
}

func (t tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	t.ended(ctx)
}
