package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"tidemark/store"
)

// plan is a node of EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON).
type plan struct {
	Node     string  `json:"Node Type"`
	Join     string  `json:"Join Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Cond     string  `json:"Index Cond"`
	CTE      string  `json:"CTE Name"`
	Loops    float64 `json:"Actual Loops"`
	Hit      int64   `json:"Shared Hit Blocks"`
	Read     int64   `json:"Shared Read Blocks"`
	Rows     float64 `json:"Actual Rows"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Joined   float64 `json:"Rows Removed by Join Filter"`
	Plans    []plan
}

func (p plan) each(f func(plan)) {
	f(p)
	for _, c := range p.Plans {
		c.each(f)
	}
}

func explain(t *testing.T, conn *pgx.Conn, sql string, args ...any) plan {
	t.Helper()
	var text string
	if err := conn.QueryRow(context.Background(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var out []struct{ Plan plan }
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out[0].Plan
}

// fillInbox gives user reader convs conversations with n messages each, past the
// API, with all ordinals. Only conversations that are new are filled.
func fillInbox(t testing.TB, conn *pgx.Conn, convs, n int) {
	t.Helper()
	for _, sql := range []string{
		`INSERT INTO users (user_id) VALUES ('reader'), ('writer') ON CONFLICT DO NOTHING`,
		fmt.Sprintf(`INSERT INTO conversations (conv_id, kind, head, message_ord, last_message_seq, member_count)
			SELECT 'c' || i, 'GROUP', %d + 2, %d, %d + 2, 2 FROM generate_series(1, %d) i`, n, n, n, convs),
		fmt.Sprintf(`INSERT INTO members (user_id, conv_id, sent_ord, joined_at, from_seq, from_ord, from_own)
			SELECT u.id, 'c' || i, CASE u.id WHEN 'writer' THEN %d ELSE 0 END, now(), u.seq, 0, 0
			FROM generate_series(1, %d) i, (VALUES ('writer', 1), ('reader', 2)) u(id, seq)`, n, convs),
		fmt.Sprintf(`INSERT INTO events (conv_id, seq, kind, sender, subject, message_ord, at)
			SELECT 'c' || i, u.seq, 2, NULL, u.id, 0, now() FROM generate_series(1, %d) i, (VALUES ('writer', 1), ('reader', 2)) u(id, seq)`, convs),
		fmt.Sprintf(`INSERT INTO events (conv_id, seq, kind, sender, client_message_id, content_hash, body, message_ord, sender_ord, at)
			SELECT 'c' || i, k + 2, 1, 'writer', 'm' || k, '', 'hello', k, k, now() FROM generate_series(1, %d) i, generate_series(1, %d) k`, convs, n),
		`VACUUM (ANALYZE) events`, `VACUUM (ANALYZE) members`, `VACUUM (ANALYZE) conversations`, `VACUUM (ANALYZE) read_positions`,
	} {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatalf("%v in %s", err, sql)
		}
	}
}

// readUpTo puts reader's position to seq in every conversation.
func readUpTo(t testing.TB, conn *pgx.Conn, seq int) {
	t.Helper()
	for _, sql := range []string{
		`TRUNCATE read_positions`,
		fmt.Sprintf(`INSERT INTO read_positions (user_id, conv_id, read_seq, read_ord, read_own, seen_seq, mention_seq)
			SELECT 'reader', conv_id, %d, greatest(0, %d - 2), 0, %d, %d FROM conversations`, seq, seq, seq, seq),
		`VACUUM (ANALYZE) read_positions`,
	} {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// asTheStore sets a session as the store's own are.
func asTheStore(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for _, setting := range store.SessionSettings {
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("SET %s = '%s'", setting.Name, setting.Value)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPlanOfUnread: on 200 conversations of 10,000 messages the statements for
// the list and the badge touch a number of buffers that does not depend on how
// much is unread, and no event.
func TestPlanOfUnread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.conn(t)
	const messages = 10_000
	asTheStore(t, conn)
	fillInbox(t, conn, 200, messages)
	statements := map[string]func() plan{
		"badge": func() plan { return explain(t, conn, store.SQLBadges, []string{"reader"}, []string{"c1", "c2"}) },
		"inbox": func() plan {
			return explain(t, conn, store.SQLInbox, "reader", "", true, false, nil, nil, nil, 20)
		},
	}
	buffers := map[string][]int64{}
	for _, read := range []int{messages + 2, messages - 10, 2} { // nothing, a little, everything unread
		readUpTo(t, conn, read)
		if got := int64(w.badge("reader").Unread); got != int64(200*(messages+2-max(read, 2))) {
			t.Fatalf("badge %d at read %d", got, read)
		}
		for name, run := range statements {
			run() // warm
			p := run()
			p.each(func(n plan) {
				if n.Loops > 0 && (n.Relation == "events" || strings.HasPrefix(n.Index, "events")) {
					t.Errorf("%s at read %d touches events: %s %s", name, read, n.Node, n.Index)
				}
				if n.Node == "Seq Scan" && n.Loops > 0 {
					t.Errorf("%s reads %s in sequence", name, n.Relation)
				}
			})
			buffers[name] = append(buffers[name], p.Hit+p.Read)
		}
	}
	for name, counts := range buffers {
		t.Logf("%s: buffers %v with 0, 2,400 and 2,000,000 unread", name, counts)
		for _, n := range counts {
			// Rewriting the positions may move a page or two.
			if n > counts[0]+counts[0]/10+4 || n < counts[0]-counts[0]/10-4 {
				t.Errorf("%s: buffers %v", name, counts)
			}
		}
	}
}

// TestPlanOfUnreadIsGenericToo: a prepared statement that has gone generic stays
// on the same plan.
func TestPlanOfUnreadIsGenericToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.conn(t)
	fillInbox(t, conn, 200, 500)
	for _, sql := range []string{
		`SET plan_cache_mode = force_generic_plan`,
		`PREPARE badge AS ` + store.SQLBadges,
	} {
		if _, err := conn.Exec(w.ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	p := explain(t, conn, `EXECUTE badge('{reader}', '{}')`)
	p.each(func(n plan) {
		if n.Loops > 0 && strings.HasPrefix(n.Index, "events") {
			t.Errorf("the generic plan touches %s", n.Index)
		}
	})
}

// TestPlansOfLargeLists: with 5,000 conversations, and one that is much larger
// than the others, no statement compares rows with rows in proportion to their
// product, or looks through a log, neither by a custom plan nor by the generic
// one that a prepared statement ends with.
func TestPlansOfLargeLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.conn(t)
	const convs, large = 5_000, 50_000
	fillInbox(t, conn, convs, 5)
	readUpTo(t, conn, 3)
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO events (conv_id, seq, kind, sender, client_message_id, content_hash, body, mentions_all, message_ord, sender_ord, at)
			SELECT 'c1', k, 1, 'writer', 'large' || k, '', 'hello', true, k - 2, k - 2, now() FROM generate_series(8, %d) k`, large),
		fmt.Sprintf(`UPDATE conversations SET head = %d, message_ord = %d, last_message_seq = %d, last_mention_seq = %d WHERE conv_id = 'c1'`, large, large-2, large, large),
		`INSERT INTO mentions (conv_id, user_id, seq, sender, since) SELECT 'c1', '', seq, 'writer', seq FROM events WHERE conv_id = 'c1' AND mentions_all`,
		fmt.Sprintf(`UPDATE read_positions SET read_seq = %d, read_ord = %d, seen_seq = %d, mention_seq = %d WHERE conv_id = 'c1'`, large-50, large-52, large-50, large-50),
		`VACUUM (ANALYZE) events`, `VACUUM (ANALYZE) mentions`, `VACUUM (ANALYZE) conversations`, `VACUUM (ANALYZE) read_positions`,
	} {
		if _, err := conn.Exec(w.ctx, sql); err != nil {
			t.Fatalf("%v in %s", err, sql)
		}
	}
	page := "'{" + strings.Join([]string{"c1", "c2", "c3", "c4", "c5"}, ",") + "}'"
	for name, statement := range map[string][3]string{
		"badge":         {store.SQLBadges, "text[], text[]", "'{reader}', " + page},
		"inbox":         {store.SQLInbox, "text, text, boolean, boolean, boolean, timestamptz, text, int", "'reader', '', true, false, null, null, null, 20"},
		"conversations": {store.SQLConversations, "text, text, text[]", "'reader', '', " + page},
		"changed":       {store.SQLChanged, "text, text, pg_snapshot, text, int", "'reader', '', '900000000:900000000:', '', 100"},
		"first mention": {store.SQLFirstMention, "text, text[]", "'reader', " + page},
		"first unread":  {store.SQLFirstUnread, "text, text[]", "'reader', " + page},
		"last message":  {store.SQLLastMessage, "text, text[]", "'reader', " + page},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			for _, sql := range []string{`SET plan_cache_mode = ` + mode, `PREPARE s (` + statement[1] + `) AS ` + statement[0]} {
				if _, err := conn.Exec(w.ctx, sql); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			explain(t, conn, `EXECUTE s(`+statement[2]+`)`).each(func(n plan) {
				if compared := n.Loops * (n.Rows + n.Filtered + n.Joined); compared > 10*convs {
					t.Errorf("%s, %s: %s of %s%s looks at %.0f rows", name, mode, n.Node, n.Relation, n.Index, compared)
				}
			})
			if _, err := conn.Exec(w.ctx, `DEALLOCATE s`); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPlansOfEverything: statements that put two ranges of rows together do so by
// full joins, on empty tables as well, where any plan looks as good: a nested loop
// would be a product of both.
func TestPlansOfEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.conn(t)
	asTheStore(t, conn)
	for name, statement := range map[string]struct {
		sql, types, args string
		joins            int
		apart            bool // finds those whom receipts do not tell of in an index of them alone
	}{
		"badge":      {store.SQLBadges, "text[], text[]", "'{reader}', '{}'", 1, false},
		"filtered":   {store.SQLInboxFiltered, "text, text, boolean, boolean, boolean, timestamptz, text, int, boolean, boolean", "'reader', '', true, false, null, null, null, 20, true, null", 1, false},
		"receipts":   {store.SQLReceiptReads, "text, text[], bigint[], boolean", "'reader', '{c1}', '{3}', true", 1, true},
		"deliveries": {store.SQLReceiptGot, "text, text[], bigint[], boolean", "'reader', '{c1}', '{3}', true", 2, true},
		"readers":    {store.SQLReaders, "text, text[], bigint[], boolean, text, int, int", "'reader', '{c1}', '{3}', false, '', 20, 200", 1, true},
		"watched":    {store.SQLWatched, "text, text, boolean, text[]", "'reader', 'c1', false, null", 2, true},
	} {
		if _, err := conn.Exec(w.ctx, `PREPARE s (`+statement.types+`) AS `+statement.sql); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		joins, apart := 0, false
		explain(t, conn, `EXECUTE s(`+statement.args+`)`).each(func(n plan) {
			if n.Join == "Full" && (n.Node == "Hash Join" || n.Node == "Merge Join") {
				joins++
			}
			apart = apart || n.Index == "users_apart"
			if n.Node == "Memoize" || n.Node == "Seq Scan" {
				t.Errorf("%s has a %s", name, n.Node)
			}
		})
		if apart != statement.apart {
			t.Errorf("%s: users_apart is used: %v", name, apart)
		}
		if joins != statement.joins {
			t.Errorf("%s has %d full joins, not %d", name, joins, statement.joins)
		}
		if _, err := conn.Exec(w.ctx, `DEALLOCATE s`); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPlansOfBatches: the statements that write batches find each row by its
// whole key, and never compare a batch with itself, on empty tables as well: a
// prepared statement keeps the plan that it was given there.
func TestPlansOfBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.conn(t)
	asTheStore(t, conn)
	keys := map[string][]string{
		"conversations": {"conv_id"}, "users": {"user_id"}, "devices": {"device_id"}, "members": {"user_id", "conv_id"},
		"read_positions": {"user_id", "conv_id"}, "device_cursors": {"device_id", "conv_id"}, "events": {"conv_id", "se"}, // seq or sender
	}
	for name, statement := range map[string]struct{ sql, types, args string }{
		"mark read": {store.SQLMarkRead, "int[], text[], text[], bigint[], int[], boolean[]", "'{}', '{}', '{}', '{}', '{}', '{}'"},
		"ack":       {store.SQLAck, "text[], int[], bigint[], text[], bigint[]", "'{}', '{}', '{}', '{}', '{}'"},
		"append": {store.SQLAppend, "text, text[], text[], bytea[], text[], boolean[], bigint[], int[], bigint[], text[]",
			"'c', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'"},
	} {
		if _, err := conn.Exec(w.ctx, `PREPARE s (`+statement.types+`) AS `+statement.sql); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		scans, full := 0, false
		explain(t, conn, `EXECUTE s(`+statement.args+`)`).each(func(n plan) {
			full = full || n.Join == "Full"
			if strings.Contains(n.Node, "Scan") && n.Relation != "" {
				scans++
				for _, column := range keys[n.Relation] {
					if !strings.Contains(n.Cond, column) {
						t.Errorf("%s looks at %s by %q without %s", name, n.Relation, n.Cond, column)
					}
				}
			}
			if n.Node == "Nested Loop" && n.Plans[1].CTE != "" && n.Plans[1].CTE != "raised" { // raised is one row
				t.Errorf("%s goes through %s for each of another", name, n.Plans[1].CTE)
			}
		})
		if name == "ack" && !full { // another join would go through moved for each where statistics say that it is small
			t.Error("ack puts what moved to what was judged by another join than a full one")
		}
		if scans < 5 {
			t.Errorf("%s has %d scans of tables", name, scans)
		}
		if _, err := conn.Exec(w.ctx, `DEALLOCATE s`); err != nil {
			t.Fatal(err)
		}
	}
}
