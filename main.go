// Tidemark keeps the read state of a chat product correct on every device.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"tidemark/embedpg"
	"tidemark/store"
)

// commands is the command line. Every setting is also an environment variable.
type commands struct {
	Serve    serveCommand    `cmd:"" help:"Migrate the database, then serve the GraphQL API."`
	Migrate  migrateCommand  `cmd:"" help:"Migrate the database and exit."`
	Device   deviceCommand   `cmd:"" help:"Create a user's device and print its token."`
	Export   exportCommand   `cmd:"" help:"Print all that is stored about one user, as JSON."`
	Verify   verifyCommand   `cmd:"" help:"Recompute what is stored from the logs and list what deviates; exits with 1 if anything does."`
	Bench    benchCommand    `cmd:"" help:"Measure this binary against what everyone else pays, on a database of its own."`
	Restored restoredCommand `cmd:"" help:"Tell a database that it was restored from a backup, before it is served again."`

	LogLevel string `default:"info" enum:"debug,info,warn,error" env:"TIDEMARK_LOG_LEVEL" help:"What to log: ${enum}."`
}

// databaseSettings say where the database is.
type databaseSettings struct {
	DatabaseURL string `name:"database-url" env:"TIDEMARK_DATABASE_URL" placeholder:"URL" help:"The PostgreSQL database (14 or newer). Without one, a private PostgreSQL is run from the binaries on this machine."`
	DirectURL   string `name:"direct-url" env:"TIDEMARK_DIRECT_URL" placeholder:"URL" help:"The same database without a pooler between. With it, --database-url leads to a pooler in transaction mode, which serves requests only."`
	DataDir     string `env:"TIDEMARK_DATA_DIR" placeholder:"DIR" help:"Where the private PostgreSQL keeps its data. Default: /var/lib/tidemark as root, else the user's data directory."`
	PostgresBin string `env:"TIDEMARK_POSTGRES_BIN" placeholder:"DIR" help:"Where initdb and postgres are. Default: PATH, then the usual places."`
}

func main() {
	var c commands
	parser := kong.Must(&c, kong.Name("tidemark"),
		kong.Description("The read state of a chat product: delivered, read and unread, correct on every device."))
	command, err := parser.Parse(os.Args[1:])
	if err != nil {
		fail(fmt.Errorf("%w; see tidemark --help", err))
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	command.Bind(newLog(c.LogLevel))
	if err := command.Run(); err != nil {
		stop()
		if errors.Is(err, errReported) {
			os.Exit(1)
		}
		fail(err)
	}
}

// fail says why in one line, whatever the error has gathered on its way.
func fail(err error) {
	fmt.Fprintln(os.Stderr, "tidemark: "+strings.Join(strings.Fields(err.Error()), " "))
	os.Exit(1)
}

// errReported ends with 1 after the command itself has said why.
var errReported = errors.New("reported")

func newLog(level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		panic(err) // the command line takes known levels only
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l}))
}

// dataDir is where the private PostgreSQL lives.
func (d databaseSettings) dataDir() (string, error) {
	if d.DataDir != "" {
		return filepath.Abs(d.DataDir)
	}
	if os.Geteuid() == 0 {
		return "/var/lib/tidemark", nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "tidemark"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory to keep data in; name one with --data-dir: %w", err)
	}
	return filepath.Join(home, ".local", "share", "tidemark"), nil
}

// database is a database to work with. exited is closed if a private one ends.
type database struct {
	url    string
	direct string // the same, or without the pooler that url leads to
	exited <-chan struct{}
	stop   func()
}

// open finds the database: the one at the URL, the private one that a running
// server has, or a private one started now.
func (d databaseSettings) open(ctx context.Context, log *slog.Logger, mayShare bool) (*database, error) {
	if d.DatabaseURL == "" && d.DirectURL != "" {
		return nil, errors.New("--direct-url is the way around a pooler; name the pooler with --database-url, or leave --direct-url out")
	}
	if d.DatabaseURL != "" {
		return &database{url: d.DatabaseURL, direct: cmp.Or(d.DirectURL, d.DatabaseURL), stop: func() {}}, nil
	}
	dir, err := d.dataDir()
	if err != nil {
		return nil, err
	}
	if mayShare {
		if url, ok := embedpg.Running(dir); ok {
			return &database{url: url, direct: url, stop: func() {}}, nil
		}
	}
	log.Info("starting a private PostgreSQL", "dir", dir)
	server, err := embedpg.Start(ctx, embedpg.Config{Dir: dir, BinDir: d.PostgresBin})
	if err != nil {
		return nil, err
	}
	return &database{url: server.URL(), direct: server.URL(), exited: server.Exited(), stop: server.Stop}, nil
}

// migrated opens the database and brings its schema up to date.
func (d databaseSettings) migrated(ctx context.Context, log *slog.Logger, mayShare bool) (*database, error) {
	db, err := d.open(ctx, log, mayShare)
	if err != nil {
		return nil, err
	}
	if err := store.Migrate(ctx, db.direct); err != nil {
		db.stop()
		return nil, err
	}
	return db, nil
}

type migrateCommand struct {
	databaseSettings
}

// Run migrates the database.
func (m *migrateCommand) Run(ctx context.Context, log *slog.Logger) error {
	db, err := m.migrated(ctx, log, true)
	if err != nil {
		return err
	}
	db.stop()
	fmt.Println("the schema is up to date")
	return nil
}
