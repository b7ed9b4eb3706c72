package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/embedpg"
	"tidemark/store"
)

// database is where everything is measured: one of its own.
type database struct {
	url     string
	pgbench string
	close   func()
	// seq is where the numbers of a run of pgbench begin: beyond all earlier ones,
	// so that whatever merges by maximum moves.
	seq atomic.Int64
}

// openDatabase makes a migrated database, on a private server with fsync on if
// none is named.
func openDatabase(ctx context.Context, o Options) (db *database, err error) {
	pgbench, err := embedpg.Program("pgbench", o.BinDir)
	if err != nil {
		return nil, fmt.Errorf("pgbench, which the floors are measured with, was not found: %w", err)
	}
	if o.URL != "" {
		return openDatabaseOn(ctx, o.URL, pgbench)
	}
	dir, err := os.MkdirTemp("", "tidemark-bench-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL's user must be able to enter
		return nil, err
	}
	server, err := embedpg.Start(ctx, embedpg.Config{Dir: dir, BinDir: o.BinDir})
	if err != nil {
		return nil, err
	}
	db = &database{url: server.URL(), pgbench: pgbench, close: func() { server.Stop(); os.RemoveAll(dir) }}
	if err := store.Migrate(ctx, db.url); err != nil {
		db.close()
		return nil, err
	}
	return db, nil
}

func openDatabaseOn(ctx context.Context, at, pgbench string) (*database, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme == "" {
		return nil, errors.New("name the database server by a URL, such as postgres://user@host/postgres")
	}
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	name := "tidemark_bench_" + strings.ToLower(rand.Text()[:8])
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	ours := *u
	ours.Path = "/" + name
	db := &database{url: ours.String(), pgbench: pgbench, close: func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if conn, err := pgx.Connect(ctx, at); err == nil {
			_, _ = conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
			conn.Close(ctx)
		}
	}}
	if err := store.Migrate(ctx, db.url); err != nil {
		db.close()
		return nil, err
	}
	return db, nil
}

// execute runs statements one by one on a connection of its own.
func (db *database) execute(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%w in %s", err, sql)
		}
	}
	return nil
}

// value asks for one number.
func (db *database) value(ctx context.Context, sql string, args ...any) (v float64, err error) {
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, sql, args...).Scan(&v)
	return v, err
}

var tps = regexp.MustCompile(`tps = ([0-9.]+) \(without`)

// floor is what PostgreSQL's own pgbench makes of a script, in transactions a
// second: the best of 1, 16 and 64 clients. A quick run finds the best number of
// clients at first and keeps to it.
func (s *suite) floor(script string) func(ctx context.Context) (float64, error) {
	candidates := []int{1, 16, 64}
	return func(ctx context.Context) (best float64, err error) {
		var of int
		for _, clients := range candidates {
			rate, err := s.db.runPgbench(ctx, script, clients, s.seconds())
			if err != nil {
				return 0, err
			}
			if rate > best {
				best, of = rate, clients
			}
		}
		if s.Quick {
			candidates = []int{of}
		}
		return best, nil
	}
}

// runPgbench runs a script with prepared statements for a while.
func (db *database) runPgbench(ctx context.Context, script string, clients int, length time.Duration) (float64, error) {
	file, err := os.CreateTemp("", "tidemark-pgbench-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	if _, err := file.WriteString(script); err != nil {
		return 0, err
	}
	if err := file.Close(); err != nil {
		return 0, err
	}
	seconds := max(1, int(length.Seconds()))
	cmd := exec.CommandContext(ctx, db.pgbench, "--no-vacuum", "--protocol=prepared", "--client="+strconv.Itoa(clients),
		"--define=seq="+strconv.FormatInt(db.seq.Add(10_000_000), 10), "--jobs="+strconv.Itoa(min(clients, runtime.NumCPU())), "--time="+strconv.Itoa(seconds), "--file="+file.Name(), db.url)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", filepath.Base(db.pgbench), err, lastLine(problems.String()))
	}
	if strings.Contains(problems.String(), "aborted") {
		return 0, fmt.Errorf("pgbench: %s", lastLine(problems.String()))
	}
	found := tps.FindStringSubmatch(out.String())
	if found == nil {
		return 0, fmt.Errorf("pgbench did not say how fast it was: %s", out.String())
	}
	return strconv.ParseFloat(found[1], 64)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
