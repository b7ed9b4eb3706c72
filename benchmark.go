package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"tidemark/bench"
	"tidemark/resolvers"
	"tidemark/store"
)

type benchCommand struct {
	Run   benchRunCommand   `cmd:"" default:"withargs" help:"Measure, and print the table."`
	Drive benchDriveCommand `cmd:"" help:"Put one of the same loads on a running server, over its API."`
}

// Help says where the flags are: the command that runs by default hides them.
func (benchCommand) Help() string {
	return "tidemark bench is tidemark bench run, and takes its flags: see tidemark bench run --help."
}

type benchRunCommand struct {
	DatabaseURL string `name:"database-url" env:"TIDEMARK_DATABASE_URL" placeholder:"URL" help:"A PostgreSQL server on which a database is made for this and dropped again. Without one, a private PostgreSQL is run."`
	PostgresBin string `env:"TIDEMARK_POSTGRES_BIN" placeholder:"DIR" help:"Where PostgreSQL's programs are, pgbench among them. Default: PATH, then the usual places."`
	Quick       bool   `help:"Take under two minutes: less data, shorter measures, no growth tables."`
	Only        string `placeholder:"TEXT" help:"Measure only one group of rows (inbox, writes, receipts, crowd, growth), or GROUP/TEXT: rows of it whose names contain the text. Not with --results."`
	Results     string `placeholder:"FILE" help:"Also write the table to this file, as Markdown."`
}

// Run measures; it ends with 1 if a row failed or missed its target.
func (b *benchRunCommand) Run(ctx context.Context, log *slog.Logger) error {
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	// A reader who goes (tidemark bench | head) ends the run, and not the process
	// before it has taken its database down.
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := bench.Run(ctx, bench.Options{URL: b.DatabaseURL, BinDir: b.PostgresBin, Quick: b.Quick, Only: b.Only, Results: b.Results, Out: attended{os.Stdout, cancel},
		Backend: func(ctx context.Context, url string) (bench.Backend, error) { return backend(ctx, url, quiet) }})
	if errors.Is(err, bench.ErrFailed) {
		return errReported
	}
	return err
}

// attended is an output that tells when nobody takes it any more.
type attended struct {
	io.Writer
	left func()
}

func (a attended) Write(p []byte) (int, error) {
	n, err := a.Writer.Write(p)
	if err != nil {
		a.left()
	}
	return n, err
}

type benchDriveCommand struct {
	URL        string        `name:"url" required:"" placeholder:"URL" help:"Where the server is: http://host:port."`
	ServiceKey string        `required:"" env:"TIDEMARK_SERVICE_KEY" placeholder:"KEY" help:"The server's service key. Users and conversations are made with it, and stay."`
	Load       string        `default:"mark-read" help:"One of inbox, mark-read, send, hint (how late the other session hears), burst (600 reports on one socket), sessions."`
	Clients    int           `default:"64" help:"How many call at once; for sessions, how many are opened."`
	Duration   time.Duration `default:"10s" help:"For how long."`
}

// Run drives a server.
func (b *benchDriveCommand) Run(ctx context.Context) error {
	return bench.Drive(ctx, bench.DriveOptions{Address: b.URL, ServiceKey: b.ServiceKey, Load: b.Load, Clients: b.Clients, Length: b.Duration, Out: os.Stdout})
}

// backend is a server as serve makes it, without a listener.
func backend(ctx context.Context, url string, log *slog.Logger) (bench.Backend, error) {
	busy := new(atomic.Int64)
	n, err := openNode(ctx, url, store.Options{Log: log, Busy: func(took time.Duration) { busy.Add(int64(took)) }})
	if err != nil {
		return bench.Backend{}, err
	}
	server := n.serve(resolvers.Config{})
	return bench.Backend{Store: n.store, Handler: server, Busy: func() time.Duration { return time.Duration(busy.Load()) }, Stop: func() {
		drain, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		server.Drain(drain)
		n.close()
	}}, nil
}
