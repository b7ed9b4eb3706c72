package store_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
	"tidemark/store"
)

// TestA18AGroupsSizeCostsNothing: one message writes the same rows into a group
// of 2,000 as into one of 2, and touches nobody's read position.
func TestA18AGroupsSizeCostsNothing(t *testing.T) {
	w := newWorld(t)
	everyone := []chat.UserID{"a", "b"}
	for n := range 1998 {
		everyone = append(everyone, chat.UserID(fmt.Sprint("u", n)))
	}
	_, err := w.conn(t).Exec(w.ctx, `INSERT INTO users (user_id) SELECT unnest($1::text[])`, everyone)
	w.must(err)
	small := w.group("small", "a", "b")
	large := w.group("large", everyone[:1000]...)
	_, err = w.AddMembers(w.ctx, large, everyone[1000:], chat.HistoryMembership)
	w.must(err)
	for _, u := range []chat.UserID{"a", "b", "u7"} {
		w.must(w.read(u, large, 3).Err)
	}
	conn := w.conn(t)
	countWrites(t, w, conn)
	written := func(conv chat.ConversationID) map[string]int64 {
		_, err := conn.Exec(w.ctx, `TRUNCATE written`)
		w.must(err)
		w.send(conv, "a", 1)
		rows, err := conn.Query(w.ctx, `SELECT relation, count(*) FROM written GROUP BY 1`)
		w.must(err)
		counts := map[string]int64{}
		var relation string
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&relation, &n}, func() error { counts[relation] = n; return nil })
		w.must(err)
		return counts
	}
	want := map[string]int64{"events": 1, "conversations": 1, "members": 1}
	if s, l := written(small), written(large); !maps.Equal(s, want) || !maps.Equal(l, want) {
		t.Errorf("rows written: %v into the small group, %v into the large one, want %v", s, l, want)
	}
	if got := w.unread("u7", large); got != 1 {
		t.Errorf("unread of a member: %d", got)
	}
}

// countWrites notes each row that is written from now on in a table written.
func countWrites(t *testing.T, w *world, conn *pgx.Conn) {
	t.Helper()
	tables, err := conn.Query(w.ctx, `SELECT relname FROM pg_stat_user_tables WHERE relname NOT LIKE 'goose%'`)
	w.must(err)
	names, err := pgx.CollectRows(tables, pgx.RowTo[string])
	w.must(err)
	_, err = conn.Exec(w.ctx, `CREATE TABLE written (relation text);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO written VALUES (TG_TABLE_NAME); RETURN NULL; END $$`)
	w.must(err)
	for _, name := range names {
		_, err = conn.Exec(w.ctx, `CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON `+pgx.Identifier{name}.Sanitize()+` FOR EACH ROW EXECUTE FUNCTION note()`)
		w.must(err)
	}
}

// TestR57AReportThatMovesNothingWritesNothing: one row version for ten reports.
func TestR57AReportThatMovesNothingWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.users("a", "b")
	conv := w.group("c", "a", "b")
	w.send(conv, "a", 5)
	conn := w.conn(t)
	version := func() (v string) {
		w.must(conn.QueryRow(w.ctx, `SELECT xmin::text || ctid::text FROM read_positions WHERE user_id = 'b'`).Scan(&v))
		return v
	}
	if r := w.read("b", conv, 5); !r.Moved {
		t.Error("the first report did not move")
	}
	first := version()
	for range 9 {
		if r := w.read("b", conv, 5); r.Moved || r.Read != 5 {
			t.Errorf("a repeated report: %+v", r)
		}
	}
	if version() != first {
		t.Error("a report that moved nothing wrote a row")
	}
	w.device("b", "b1")
	w.ack("b1", 0, conv, 5)
	cursor := func() (v string) {
		w.must(conn.QueryRow(w.ctx, `SELECT xmin::text || ctid::text FROM device_cursors WHERE device_id = 'b1'`).Scan(&v))
		return v
	}
	first = cursor()
	w.ack("b1", 0, conv, 5)
	w.ack("b1", 0, conv, 2)
	if cursor() != first {
		t.Error("an ack that moved nothing wrote a row")
	}
}

// TestReadReportThatLosesARaceIsToldTheTruth: it waits for the row of a report
// that is ahead, moves nothing, and is answered with what that one left.
func TestReadReportThatLosesARaceIsToldTheTruth(t *testing.T) {
	w := newWorld(t)
	w.users("a", "b")
	conv := w.group("c", "a", "b")
	w.send(conv, "a", 10)
	w.must(w.read("b", conv, 3).Err)
	release := w.hold(t, `UPDATE read_positions SET read_seq = 9, seen_seq = 9, mention_seq = 9, read_ord = 7 WHERE user_id = 'b'`)
	done := make(chan store.ReadResult)
	go func() { done <- w.read("b", conv, 6) }()
	w.waiting(t, 1)
	release()
	if r := <-done; r.Err != nil || r.Read != 9 || r.Moved {
		t.Errorf("%+v, want the truth, 9, and nothing moved", r)
	}
}

// TestReadRevisionIsAFence: a report with an older revision than the position's
// is answered with the truth and ignored, also when the revision goes up while
// the report waits; one with a newer revision counts as the present one.
func TestReadRevisionIsAFence(t *testing.T) {
	w := newWorld(t)
	w.users("a", "b")
	conv := w.group("c", "a", "b")
	w.send(conv, "a", 10)
	w.must(w.read("b", conv, 4).Err)
	report := func(seq chat.Seq, revision int32) store.ReadResult {
		r, err := w.MarkRead(w.ctx, []store.ReadReport{{User: "b", Conversation: conv, Seq: seq, Revision: &revision}})
		w.must(err)
		w.must(r[0].Err)
		return r[0]
	}
	release := w.hold(t, `UPDATE read_positions SET revision = 1, read_seq = 3, read_ord = 1, mention_seq = 3 WHERE user_id = 'b'`)
	done := make(chan store.ReadResult)
	go func() { done <- report(8, 0) }()
	w.waiting(t, 1)
	release()
	if r := <-done; r.Read != 3 || r.Revision != 1 || r.Moved {
		t.Errorf("the fenced report: %+v, want read 3 at revision 1", r)
	}
	if r := report(8, 0); r.Read != 3 || r.Moved {
		t.Errorf("an older revision: %+v", r)
	}
	if r := report(5, 1); r.Read != 5 || !r.Moved {
		t.Errorf("the present revision: %+v", r)
	}
	if r := report(6, 9); r.Read != 6 || !r.Moved {
		t.Errorf("a revision from the future: %+v", r)
	}
}

// TestAcksOfOneCursorInABatch: reports of one cursor are merged by maximum in
// whatever order they come, and a refused one among them spoils none.
func TestAcksOfOneCursorInABatch(t *testing.T) {
	w := newWorld(t)
	w.users("a", "b")
	d := w.device("b", "b1")
	conv := w.group("c", "a", "b")
	w.send(conv, "a", 9)
	for n, seqs := range [][]chat.Seq{{3, 2, 1}, {4, 6, 5}, {7, 99, 8}} {
		var reports []store.AckReport
		for _, seq := range seqs {
			reports = append(reports, store.AckReport{Device: d.ID, Conversation: conv, Seq: seq})
		}
		results, err := w.Ack(w.ctx, reports)
		w.must(err)
		want := []chat.Seq{3, 6, 8}[n]
		for i, r := range results {
			if seqs[i] == 99 {
				if !errors.Is(r.Err, &chat.Error{Code: chat.CursorAhead}) {
					t.Errorf("99 was answered %+v", r)
				}
			} else if r.Err != nil || r.Delivered != want || !r.Moved {
				t.Errorf("%v: %d was answered %+v", seqs, seqs[i], r)
			}
		}
		if got := w.see("b", d.ID, conv).Delivered; got != want {
			t.Errorf("after %v delivered is %d", seqs, got)
		}
	}
	w.noDeviations(t)
}
