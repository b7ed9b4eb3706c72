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
	"slices"
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

// table is the groups of rows in their order. growthTables are a group of their own.
var table = []struct {
	name   string
	trials func(*suite, context.Context) ([]trial, func(), error)
}{{"inbox", (*suite).inbox}, {"writes", (*suite).writes}, {"receipts", (*suite).receipts}, {"crowd", (*suite).crowd}}

const growthTables = "growth"

// check refuses options by which nothing would be measured, or a part be taken for the whole.
func (o Options) check() error {
	group, part, parted := strings.Cut(o.Only, "/")
	names := []string{growthTables}
	for _, g := range table {
		names = append(names, g.name)
	}
	switch {
	case o.Only == "":
	case !slices.Contains(names, group):
		return fmt.Errorf("there is no group of rows named %q; there are %s", group, strings.Join(names, ", "))
	case group == growthTables && parted:
		return errors.New("growth has tables and no rows: name it alone")
	case parted && part == "":
		return fmt.Errorf("behind %s/ a part of the names of its rows is missing", group)
	case o.Results != "":
		return errors.New("a part of the table is not written down: leave out what selects it, or the file")
	}
	return nil
}

// Run measures and prints the table. It returns [ErrFailed] if any row failed or
// missed its target, and another error if it could not begin, or had nothing to measure.
func Run(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
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
	only, part, _ := strings.Cut(o.Only, "/")
	for _, g := range table {
		if only != "" && only != g.name {
			continue
		}
		trials, stop, err := g.trials(s, ctx)
		if err != nil {
			return fmt.Errorf("preparing %s: %w", g.name, err)
		}
		// What was loaded must not be written to disk while writes are measured. Not
		// every user of a server may ask for it.
		_ = db.execute(ctx, `CHECKPOINT`)
		var names []string
		for _, t := range trials {
			if names = append(names, t.name); !strings.Contains(t.name, part) {
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
		if len(report.rows) == 0 {
			return fmt.Errorf("no row of %s has %q in its name; they are:\n- %s", g.name, part, strings.Join(names, "\n- "))
		}
	}
	if !o.Quick && only == "" || only == growthTables {
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
		return 400 * time.Millisecond
	}
	return 3 * time.Second
}
