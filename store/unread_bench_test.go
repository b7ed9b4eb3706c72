package store_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/store"
	"tidemark/storetest"
)

// countingUnreadOfEach answers what store.SQLUnreadOfEach answers, by counting.
const countingUnreadOfEach = `
SELECT v.conv_id, v.unread, sum(v.unread) OVER ()::bigint FROM (
  SELECT m.conv_id, (
    SELECT count(*) FROM events e
    WHERE e.conv_id = m.conv_id AND e.kind = 1 AND e.withdrawn_kind IS NULL AND e.sender <> m.user_id AND e.seq > coalesce(rp.read_seq, 0)
      AND (e.seq >= m.from_seq AND (m.to_seq IS NULL OR e.seq <= m.to_seq)
           OR EXISTS (SELECT FROM membership_periods p WHERE p.user_id = m.user_id AND p.conv_id = m.conv_id AND NOT p.hidden AND e.seq BETWEEN p.from_seq AND p.to_seq))) AS unread
  FROM members m LEFT JOIN read_positions rp ON rp.user_id = m.user_id AND rp.conv_id = m.conv_id
  WHERE m.user_id = $1 AND m.left_at IS NULL) v`

// BenchmarkUnreadOfInbox measures one user's 200 conversations with 5,000 unread
// each, as the median of prepared statements that have run ten times before:
// by ordinals, by counting in its fairest form (custom plan, no JIT), and by
// counting as a driver runs it by default (a generic plan from the sixth run).
// "make bench" prints the three and their ratios from one run.
func BenchmarkUnreadOfInbox(b *testing.B) {
	url := storetest.URL(b)
	conn := storetest.Conn(b, url)
	fillInbox(b, conn, 200, 5000)
	const unread = 200 * 5000
	measure := func(b *testing.B, sql string, settings ...string) time.Duration {
		conn := storetest.Conn(b, url)
		for _, s := range settings {
			if _, err := conn.Exec(context.Background(), s); err != nil {
				b.Fatal(err)
			}
		}
		var took []time.Duration
		for run := range 10 + 15 {
			began := time.Now()
			if got := unreadOfEach(b, conn, sql); got != unread {
				b.Fatalf("badge %d, want %d", got, unread)
			}
			if run >= 10 {
				took = append(took, time.Since(began))
			}
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	ordinals := measure(b, store.SQLUnreadOfEach)
	fairest := measure(b, countingUnreadOfEach, `SET plan_cache_mode = force_custom_plan`, `SET jit = off`)
	usual := measure(b, countingUnreadOfEach)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(ordinals), "ms-ordinals")
	b.ReportMetric(ms(fairest), "ms-counting-fairest")
	b.ReportMetric(ms(usual), "ms-counting-default")
	b.ReportMetric(float64(fairest)/float64(ordinals), "x-fairest")
	b.ReportMetric(float64(usual)/float64(ordinals), "x-default")
}

func unreadOfEach(b *testing.B, conn *pgx.Conn, sql string) (badge int64) {
	rows, err := conn.Query(context.Background(), sql, "reader")
	if err != nil {
		b.Fatal(err)
	}
	var conv string
	var unread int64
	if _, err := pgx.ForEachRow(rows, []any{&conv, &unread, &badge}, func() error { return nil }); err != nil {
		b.Fatal(err)
	}
	return badge
}
