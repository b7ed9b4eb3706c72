package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
	"tidemark/store"
)

// countEach and countJoined are what everyone else does: count what lies behind
// each position. They need not know of membership periods. A count for each row is the
// fastest of the forms that were tried, and is run with what helps it most; a join
// grouped by row is how it is usually written, and is run as a driver runs it.
const (
	countEach = `
SELECT array_agg(v.conv_id), array_agg(v.unread), sum(v.unread)::bigint FROM (
  SELECT m.conv_id, (
    SELECT count(*) FROM events e
    WHERE e.conv_id = m.conv_id AND e.seq > coalesce(r.read_seq, 0) AND e.kind = 1 AND e.withdrawn_kind IS NULL AND e.sender <> m.user_id) AS unread
  FROM members m LEFT JOIN read_positions r ON r.user_id = m.user_id AND r.conv_id = m.conv_id
  WHERE m.user_id = $1 AND m.left_at IS NULL OFFSET 0) v`
	countJoined = `
SELECT array_agg(v.conv_id), array_agg(v.unread), sum(v.unread)::bigint FROM (
  SELECT m.conv_id, count(e.seq) AS unread
  FROM members m LEFT JOIN read_positions r ON r.user_id = m.user_id AND r.conv_id = m.conv_id
  LEFT JOIN events e ON e.conv_id = m.conv_id AND e.seq > coalesce(r.read_seq, 0) AND e.kind = 1 AND e.withdrawn_kind IS NULL AND e.sender <> m.user_id
  WHERE m.user_id = $1 AND m.left_at IS NULL GROUP BY m.conv_id) v`
)

const inboxConversations = 200

// listDocument asks for every field that a list shows.
const listDocument = `{ conversations(first: 20) { badge { unread mentions conversations mutedUnread version }
  nodes { id version kind title head delivered read readRevision unread unreadMentions markedUnread pinned muted archived lastActivityAt
    firstUnread { seq body actor { id name } } lastMessage { seq body actor { id name } at } } pageInfo { hasNextPage endCursor } } }`

const listWithoutBadge = `{ conversations(first: 20) {
  nodes { id version kind title head delivered read readRevision unread unreadMentions markedUnread pinned muted archived lastActivityAt
    firstUnread { seq body actor { id name } } lastMessage { seq body actor { id name } at } } pageInfo { hasNextPage endCursor } } }`

// inbox: the list and its numbers, against counting them.
func (s *suite) inbox(ctx context.Context) ([]trial, func(), error) {
	unread := 5_000
	if s.Quick {
		unread = 1_000
	}
	if err := s.db.execute(ctx, inboxData(unread)...); err != nil {
		return nil, nil, err
	}
	sv, err := s.serve(ctx)
	if err != nil {
		return nil, nil, err
	}
	in := &inbox{suite: s, unread: unread, clients: map[string]*client{}}
	for _, user := range []string{"many", "few", "collector"} {
		if in.clients[user], err = dial(sv.address, "token-of-"+user); err != nil {
			sv.stop()
			return nil, nil, err
		}
	}
	in.fairest, err = s.connect(ctx, `SET plan_cache_mode = force_custom_plan`, `SET jit = off`, `SET max_parallel_workers_per_gather = 0`)
	if err == nil {
		in.usual, err = s.connect(ctx)
	}
	if err == nil {
		in.ordinals, err = s.connect(ctx, likeTheStore()...)
	}
	if err != nil {
		sv.stop()
		return nil, nil, err
	}
	stop := func() {
		for _, c := range in.clients {
			c.close()
		}
		for _, c := range []*pgx.Conn{in.fairest, in.usual, in.ordinals} {
			_ = c.Close(context.Background())
		}
		sv.stop()
	}
	// Counting is what costs more with more that is unread.
	target := func(full float64) float64 {
		if s.Quick {
			return 0
		}
		return full
	}
	million := fmt.Sprintf("%d conversations, %d unread", inboxConversations, inboxConversations*unread)
	return []trial{
		{name: "unread of each and badge in SQL, " + million, against: "counting at its fairest (a count for each, custom plan, no JIT)", unit: "ms", target: target(100),
			prepare: in.warm, ours: in.byOrdinals, reference: in.byCounting(&in.fairest, countEach)},
		{name: "the same numbers", against: "the same count as a driver runs it (prepared, PostgreSQL's defaults)", unit: "ms",
			prepare: in.warmBoth(countEach), ours: in.byOrdinals, reference: in.byCounting(&in.usual, countEach)},
		{name: "the same numbers", against: "counting as it is usually written, another query (a join grouped by conversation), as a driver runs it", unit: "ms", target: target(800),
			prepare: in.warmBoth(countJoined), ours: in.byOrdinals, reference: in.byCounting(&in.usual, countJoined)},
		{name: "first page of 20 over HTTP with every list field and badge", against: "counting alone, fairest", unit: "ms", target: target(40),
			ours: in.page("many", listDocument), reference: in.byCounting(&in.fairest, countEach)},
		{name: fmt.Sprintf("first page over HTTP with %d unread and %d mentions", inboxConversations*unread, 2*min(unread, 1_000)), against: fmt.Sprintf("with %d and 2", inboxConversations*unread/1000), unit: "ms", atMost: true, target: target(1.2),
			ours: in.page("many", listDocument), reference: in.page("few", listDocument)},
		{name: "first page over HTTP of 5,000 conversations, without badge", against: "of 200", unit: "ms", atMost: true, target: 3,
			ours: in.page("collector", listWithoutBadge), reference: in.page("many", listWithoutBadge)},
	}, stop, nil
}

type inbox struct {
	*suite
	unread                   int
	clients                  map[string]*client
	fairest, usual, ordinals *pgx.Conn
}

// connect makes a connection with settings of its own.
func (s *suite) connect(ctx context.Context, settings ...string) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, s.db.url)
	for _, sql := range settings {
		if err == nil {
			_, err = conn.Exec(ctx, sql)
		}
	}
	return conn, err
}

// likeTheStore sets a session as the store's own are.
func likeTheStore() (statements []string) {
	for _, setting := range store.SessionSettings {
		statements = append(statements, fmt.Sprintf("SET %s = '%s'", setting.Name, setting.Value))
	}
	return statements
}

// warm runs our prepared statement ten times: from the sixth on its plan may be
// the generic one.
func (in *inbox) warm(ctx context.Context) error {
	for range 10 {
		if _, err := in.byOrdinals(ctx); err != nil {
			return err
		}
	}
	return nil
}

// warmBoth runs the reference as often, too.
func (in *inbox) warmBoth(counting string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for range 6 {
			if err := in.counted(ctx, in.usual, counting); err != nil {
				return err
			}
		}
		return in.warm(ctx)
	}
}

func (in *inbox) byOrdinals(ctx context.Context) (float64, error) {
	return typical(9, func() error { return in.counted(ctx, in.ordinals, store.UnreadOfEach) })
}

func (in *inbox) byCounting(conn **pgx.Conn, sql string) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		began := time.Now()
		err := in.counted(ctx, *conn, sql)
		return float64(time.Since(began).Microseconds()) / 1000, err
	}
}

// counted runs a statement and checks its sum.
func (in *inbox) counted(ctx context.Context, conn *pgx.Conn, sql string) error {
	var convs []string
	var unread []int64
	var badge int64
	if err := conn.QueryRow(ctx, sql, chat.UserID("many")).Scan(&convs, &unread, &badge); err != nil {
		return err
	}
	if want := int64(inboxConversations * in.unread); badge != want {
		return fmt.Errorf("the badge is %d, not %d", badge, want)
	}
	return nil
}

// page is the time of one request in milliseconds.
func (in *inbox) page(user, document string) func(ctx context.Context) (float64, error) {
	return func(context.Context) (float64, error) {
		return typical(40, func() error {
			var out struct {
				Conversations struct {
					Nodes []struct {
						Unread                   int
						FirstUnread, LastMessage *struct{ Seq int64 }
					}
				}
			}
			if err := in.clients[user].query(document, nil, &out); err != nil {
				return err
			}
			if n := out.Conversations.Nodes; len(n) != 20 || n[0].Unread == 0 || n[0].FirstUnread == nil || n[19].LastMessage == nil {
				return fmt.Errorf("the page is not what it should be: %d rows", len(n))
			}
			return nil
		})
	}
}
