// Package bench measures Tidemark against what everyone else pays: the counting
// query, a transaction for each report, a lock for each message. Each row of its
// table is measured side by side with its reference on the same database, taking
// turns, so that a ratio means something on any machine.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"tidemark/store"
)

// Options say where and how to measure.
type Options struct {
	// URL is a PostgreSQL server on which a database is made and dropped again;
	// empty runs a private server with fsync on.
	URL string
	// BinDir is where PostgreSQL's programs are, pgbench among them; empty searches.
	BinDir string
	// Quick takes under two minutes: less data, shorter runs, no growth tables. Rows that
	// need the data are shown without a target.
	Quick bool
	// Only selects a group of rows (inbox, writes, receipts, crowd, growth), and behind a
	// slash rows of it by a part of their names; empty means all.
	Only string
	// Results is the file that the table is written to; empty writes none.
	Results string
	// Backend makes a server over the database at url.
	Backend func(ctx context.Context, url string) (Backend, error)
	Out     io.Writer
}

// Backend is a Tidemark server in this process.
type Backend struct {
	Store   *store.Store
	Handler http.Handler
	// Busy is for how long the server's connections have been busy altogether.
	Busy func() time.Duration
	Stop func()
}

// ErrFailed says that a row could not be measured, or missed its target.
var ErrFailed = errors.New("some rows failed or missed their targets; see the table")

// Run measures and prints the table. It returns [ErrFailed] if any row failed or
// missed its target.
func Run(ctx context.Context, o Options) error {
	db, err := openDatabase(ctx, o)
	if err != nil {
		return err
	}
	defer db.close()
	s := &suite{Options: o, db: db, rounds: 5}
	report := &report{began: time.Now(), quick: o.Quick}
	if report.machine, err = describe(ctx, db); err != nil {
		return err
	}
	for _, group := range []struct {
		name   string
		trials func(context.Context) ([]trial, func(), error)
	}{{"inbox", s.inbox}, {"writes", s.writes}, {"receipts", s.receipts}, {"crowd", s.crowd}} {
		if o.Only != "" && !strings.HasPrefix(o.Only, group.name) {
			continue
		}
		trials, stop, err := group.trials(ctx)
		if err != nil {
			return fmt.Errorf("preparing %s: %w", group.name, err)
		}
		// What was loaded must not be written to disk while writes are measured. Not
		// every user of a server may ask for it.
		_ = db.execute(ctx, `CHECKPOINT`)
		for _, t := range trials {
			if _, part, _ := strings.Cut(o.Only, "/"); !strings.Contains(t.name, part) {
				continue
			}
			r := s.measure(ctx, t)
			report.rows = append(report.rows, r)
			fmt.Fprintln(o.Out, r.line())
		}
		stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if !o.Quick && o.Only == "" || o.Only == "growth" {
		if report.growth, err = s.growth(ctx); err != nil {
			return fmt.Errorf("growth: %w", err)
		}
	}
	report.print(o.Out)
	if o.Results != "" {
		if err := os.WriteFile(o.Results, report.markdown(), 0o644); err != nil {
			return err
		}
	}
	if report.failed() {
		return ErrFailed
	}
	return nil
}

// suite is one run.
type suite struct {
	Options
	db     *database
	rounds int
}

// seconds is how long one run of a load lasts.
func (s *suite) seconds() time.Duration {
	if s.Quick {
		return 500 * time.Millisecond
	}
	return 3 * time.Second
}
