// Package pgbus is the bus over PostgreSQL's LISTEN and NOTIFY. It uses two
// connections of its own, never one of a transaction: a NOTIFY inside a
// transaction makes all notifying commits of the whole cluster wait for each
// other. The connections must be session-pooled, if pooled at all.
package pgbus

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgxlisten"
)

const channel = "tidemark_hints"

// Bus implements hint.Bus.
type Bus struct {
	config *pgx.ConnConfig
	log    *slog.Logger
	conn   *pgx.Conn // for Publish; nil until the first, and after an error
}

// New makes a bus on the database at url. It connects when it is used.
func New(url string, log *slog.Logger) (*Bus, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnectTimeout = 5 * time.Second
	config.RuntimeParams["application_name"] = "tidemark hints"
	return &Bus{config: config, log: log}, nil
}

// MaxPayload is just below NOTIFY's 8,000 bytes.
func (b *Bus) MaxPayload() int { return 7_900 }

// Publish sends one payload. After an error the next call connects anew.
func (b *Bus) Publish(ctx context.Context, payload []byte) error {
	if b.conn == nil {
		conn, err := pgx.ConnectConfig(ctx, b.config)
		if err != nil {
			return err
		}
		b.conn = conn
	}
	if _, err := b.conn.Exec(ctx, `SELECT pg_notify($1, $2)`, channel, string(payload)); err != nil {
		_ = b.conn.Close(ctx)
		b.conn = nil
		return err
	}
	return nil
}

// Close closes the connection of Publish, which must not be running.
func (b *Bus) Close() {
	if b.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = b.conn.Close(ctx)
		b.conn = nil
	}
}

// Listen hears payloads until ctx ends. A lost connection is replaced within
// about half a second of the server's return.
func (b *Bus) Listen(ctx context.Context, connected func(), deliver func([]byte)) {
	l := pgxlisten.Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, b.config) },
		LogError: func(ctx context.Context, err error) {
			if ctx.Err() == nil {
				b.log.Warn("listening for hints failed, connecting again", "error", err.Error())
			}
		},
		ReconnectDelay: 500 * time.Millisecond,
	}
	l.Handle(channel, handler{connected, deliver})
	_ = l.Listen(ctx) // it ends with ctx's error only
}

// handler is told of the backlog right after LISTEN: from then on it hears.
type handler struct {
	connected func()
	deliver   func([]byte)
}

func (h handler) HandleBacklog(context.Context, string, *pgx.Conn) error {
	h.connected()
	return nil
}

func (h handler) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	h.deliver([]byte(n.Payload))
	return nil
}
