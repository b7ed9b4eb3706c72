package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"tidemark/bench"
	"tidemark/resolvers"
	"tidemark/store"
)

type benchCommand struct {
	DatabaseURL string `name:"database-url" env:"TIDEMARK_DATABASE_URL" placeholder:"URL" help:"A PostgreSQL server on which a database is made for this and dropped again. Without one, a private PostgreSQL is run."`
	PostgresBin string `env:"TIDEMARK_POSTGRES_BIN" placeholder:"DIR" help:"Where PostgreSQL's programs are, pgbench among them. Default: PATH, then the usual places."`
	Quick       bool   `help:"Take under two minutes: less data, shorter measures, no growth tables."`
	Only        string `placeholder:"TEXT" help:"Measure only one group of rows (inbox, writes, receipts, crowd), or GROUP/TEXT: rows of it whose names contain the text."`
	Results     string `placeholder:"FILE" help:"Also write the table to this file, as Markdown."`
}

// Run measures; it ends with 1 if a row failed or missed its target.
func (b *benchCommand) Run(ctx context.Context, log *slog.Logger) error {
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	err := bench.Run(ctx, bench.Options{URL: b.DatabaseURL, BinDir: b.PostgresBin, Quick: b.Quick, Only: b.Only, Results: b.Results, Out: os.Stdout,
		Backend: func(ctx context.Context, url string) (bench.Backend, error) { return backend(ctx, url, quiet) }})
	if errors.Is(err, bench.ErrFailed) {
		return errReported
	}
	return err
}

// backend is a server as serve makes it, without a listener.
func backend(ctx context.Context, url string, log *slog.Logger) (bench.Backend, error) {
	n, err := openNode(ctx, url, store.Options{Log: log})
	if err != nil {
		return bench.Backend{}, err
	}
	server := n.serve(resolvers.Config{})
	return bench.Backend{Store: n.store, Handler: server, Stop: func() {
		drain, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		server.Drain(drain)
		n.close()
	}}, nil
}
