package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// querier is what a pool and a transaction have in common.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// one runs a statement that answers exactly one row; none is pgx.ErrNoRows.
func one[T any](ctx context.Context, q querier, scan pgx.RowToFunc[T], sql string, args ...any) (T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		var zero T
		return zero, err
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}

// column collects the only column of a statement's rows.
func column[T any](ctx context.Context, q querier, sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// distinct keeps the first of equal elements.
func distinct[T comparable](list []T) []T {
	seen := make(map[T]bool, len(list))
	var out []T
	for _, v := range list {
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

// columnOf takes one value of each element.
func columnOf[T, V any](list []T, of func(T) V) []V {
	out := make([]V, len(list))
	for i, v := range list {
		out[i] = of(v)
	}
	return out
}

// collectNumbered puts rows into places: scan says which, counted from 1.
func collectNumbered[T any](rows pgx.Rows, into []T, scan func(row pgx.CollectableRow, place *int64) (T, error)) error {
	defer rows.Close()
	for rows.Next() {
		var place int64
		v, err := scan(rows, &place)
		if err != nil {
			return err
		}
		into[place-1] = v
	}
	return rows.Err()
}
