// Package storetest gives tests a real PostgreSQL: one private server for each
// test binary, one migrated database for each test. Only tests import it.
package storetest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"tidemark/embedpg"
	"tidemark/store"
)

var (
	startOnce sync.Once
	server    *embedpg.Server
	dir       string
	startErr  error
	counter   atomic.Int64
)

const template = "tidemark_template"

// Run runs the tests of a package, stops the private server, and fails if any
// goroutine is left. Call it from TestMain: os.Exit(storetest.Run(m)).
func Run(m *testing.M) int {
	code := m.Run()
	if server != nil {
		server.Stop()
		os.RemoveAll(dir)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// Server is the private server, started by the first call. A machine without
// PostgreSQL fails the test.
func Server(t testing.TB) *embedpg.Server {
	t.Helper()
	startOnce.Do(start)
	if startErr != nil {
		t.Fatal(startErr)
	}
	return server
}

func start() {
	ctx := context.Background()
	if dir, startErr = os.MkdirTemp("", "tidemark-test-"); startErr != nil {
		return
	}
	// As root, PostgreSQL runs as another user, who must be able to enter.
	if startErr = os.Chmod(dir, 0o755); startErr != nil {
		return
	}
	if server, startErr = embedpg.Start(ctx, embedpg.Config{Dir: dir, BinDir: os.Getenv("TIDEMARK_POSTGRES_BIN"), Throwaway: true}); startErr != nil {
		return
	}
	if startErr = execute(ctx, server.URL(), "CREATE DATABASE "+template); startErr == nil {
		startErr = store.Migrate(ctx, server.Database(template))
	}
}

func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// URL makes a migrated database of the test's own, dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	return clone(t, " TEMPLATE "+template)
}

// EmptyURL makes a database without a schema.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return clone(t, "")
}

// copying keeps two copies of the template from meeting: PostgreSQL wants it unused.
var copying sync.Mutex

func clone(t testing.TB, from string) string {
	t.Helper()
	s := Server(t)
	ctx := context.Background()
	name := fmt.Sprintf("test_%d", counter.Add(1))
	copying.Lock()
	err := execute(ctx, s.URL(), "CREATE DATABASE "+name+from)
	copying.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := execute(ctx, s.URL(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil && !strings.Contains(err.Error(), "terminating") {
			t.Error(err)
		}
	})
	return s.Database(name)
}

// Open opens a store on a migrated database of the test's own.
func Open(t testing.TB) *store.Store {
	t.Helper()
	return OpenURL(t, URL(t))
}

// OpenURL opens a store on the database at url, closed when the test ends.
func OpenURL(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Conn opens a plain connection to url, for what a test asks of the tables themselves.
func Conn(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
