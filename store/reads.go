package store

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// ReadReport says that a user has read a conversation up to Seq. Revision is the
// readRevision that the client knows; nil means plain maximum.
type ReadReport struct {
	User         chat.UserID
	Conversation chat.ConversationID
	Seq          chat.Seq
	Revision     *int32
	// KeepMentions leaves the mention position alone.
	KeepMentions bool
}

// ReadResult is the merged truth for one report, or Err. Moved says that this
// call changed the position or cleared its reminder flag, or may have: after a
// lost connection the outcome of an earlier attempt is unknown.
type ReadResult struct {
	Read     chat.Seq
	Revision int32
	Moved    bool
	Seen     SeenMove
	Err      error

	lost bool // it was to move its position, and a concurrent change came first
}

// sqlMarkRead writes a batch of reports. Each is judged and capped by itself
// before reports of one position are merged, so that one beyond head does not
// spoil its neighbour. A report that the snapshot shows to change nothing does not
// reach the upsert. All by primary keys, and events_own for the ordinal, one probe
// after the other, as in [sqlViewed].
// $1 index, $2 user, $3 conversation, $4 seq, $5 revision, $6 keep mentions, one of each per report.
var sqlMarkRead = `
WITH input AS (
  SELECT * FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::int[], $6::boolean[]) AS t(i, u, c, seq, rev, keep)),
judged AS MATERIALIZED (
  SELECT t.*, coalesce(m.to_seq, cv.head, 0) AS head,
         CASE WHEN x.user_id IS NULL THEN 3 WHEN m.user_id IS NULL THEN 1
              WHEN t.seq < 0 OR m.to_seq IS NULL AND t.seq > cv.head THEN 2 ELSE 0 END AS refused,
         least(t.seq, coalesce(m.to_seq, cv.head)) AS v, ` + sqlShown("x", "cv") + ` AS shown,
         coalesce(rp.read_seq, 0) AS read_seq, coalesce(rp.seen_seq, 0) AS seen_seq,
         coalesce(rp.mention_seq, 0) AS mention_seq, coalesce(rp.revision, 0) AS revision, coalesce(rp.marked_unread, false) AS marked, m.sent_ord
  FROM input t
  LEFT JOIN LATERAL (SELECT * FROM users x WHERE x.user_id = t.u AND x.erased_at IS NULL OFFSET 0) x ON true
  LEFT JOIN LATERAL (SELECT * FROM members m WHERE m.user_id = t.u AND m.conv_id = t.c OFFSET 0) m ON true
  LEFT JOIN LATERAL (SELECT * FROM conversations cv WHERE cv.conv_id = m.conv_id OFFSET 0) cv ON true
  LEFT JOIN LATERAL (SELECT * FROM read_positions r WHERE r.user_id = t.u AND r.conv_id = t.c OFFSET 0) rp ON true),
wanted AS MATERIALIZED (
  SELECT u, c, max(v) AS v, min(sent_ord) AS sent_ord, coalesce(max(v) FILTER (WHERE NOT keep), 0) AS mention_v,
         CASE WHEN max(v) FILTER (WHERE rev IS NULL) = max(v) THEN NULL ELSE min(rev) END AS rev
  FROM judged WHERE refused = 0 AND (rev IS NULL OR rev >= revision)
  GROUP BY u, c
  HAVING max(v) > min(read_seq) OR max(v) FILTER (WHERE NOT keep) > min(mention_seq) OR bool_or(marked)),` + sqlMovePositions + `
SELECT j.i, j.refused, j.head, coalesce(n.read_seq, j.read_seq), coalesce(n.revision, j.revision),
       n.user_id IS NOT NULL AND (j.rev IS NULL OR j.rev >= j.revision),
       j.seen_seq, coalesce(n.seen_seq, j.seen_seq), coalesce(j.shown, false), w.u IS NOT NULL AND n.user_id IS NULL
FROM judged j LEFT JOIN wanted w ON w.u = j.u AND w.c = j.c AND j.refused = 0
LEFT JOIN moved n ON n.user_id = j.u AND n.conv_id = j.c AND j.refused = 0 ORDER BY j.i`

// sqlReadTruth is asked after sqlMarkRead about those that were to move and did
// not: a concurrent report was ahead, or the revision went up meanwhile. The
// caller is told what is, not what was.
const sqlReadTruth = `
SELECT t.i, r.read_seq, r.revision, r.mention_seq, r.marked_unread, r.seen_seq FROM unnest($1::int[], $2::text[], $3::text[]) AS t(i, u, c)
CROSS JOIN LATERAL (SELECT * FROM read_positions r WHERE r.user_id = t.u AND r.conv_id = t.c OFFSET 0) r ORDER BY t.i`

// MarkRead merges reports by maximum into the users' read positions, in one
// transaction and one round trip, and answers the merged truth for each. A
// report beyond head is CURSOR_AHEAD, one of someone who never was a member
// NOT_MEMBER; one beyond the end of a membership that is over is capped there,
// one with an older revision is answered with the truth and ignored. An erased
// user is UNAUTHENTICATED. Refused reports do not spoil the others; the error of
// the call itself is the database's, and so is that of a report which lost its row to a
// concurrent change and could not be tried again: that one may have moved. Safe to repeat, and repeated within ctx if the connection is lost.
func (s *Store) MarkRead(ctx context.Context, reports []ReadReport) ([]ReadResult, error) {
	results := make([]ReadResult, len(reports))
	ends := make([]chat.Seq, len(reports))
	all := make([]int, len(reports))
	for i := range all {
		all[i] = i
	}
	repeated, err := s.repeat(ctx, "mark read", func() error { return s.markReadOnce(ctx, reports, all, results, ends) })
	if err != nil {
		return nil, err
	}
	again := s.settleLost(ctx, reports, results, ends)
	repeated = repeated || again
	for i := range results {
		if r := &results[i]; repeated && r.Err == nil {
			r.Moved, r.Seen.Previous = true, 0 // from nobody knows where
		}
	}
	return results, nil
}

// settleLost looks again at reports that were to move and did not. They are told
// what is now, and one that is still ahead of that goes once more: by then nothing
// else that is older can stand in its way. If that fails it is their error, not
// that of those which have moved. repeated is as [Store.repeat] tells.
func (s *Store) settleLost(ctx context.Context, reports []ReadReport, results []ReadResult, ends []chat.Seq) (repeated bool) {
	var lost []int
	for i, r := range results {
		if r.Err == nil && r.lost {
			lost = append(lost, i)
		}
	}
	if len(lost) == 0 {
		return false
	}
	fail := func(index []int, err error) {
		for _, i := range index {
			results[i] = ReadResult{Err: err}
		}
	}
	now := map[int]chat.Position{}
	if _, err := s.repeat(ctx, "read truth", func() error { return s.readTruth(ctx, reports, lost, now) }); err != nil {
		fail(lost, err)
		return false
	}
	var again []int
	for _, i := range lost {
		p, r := now[i], reports[i]
		results[i].Read, results[i].Revision = p.Read, p.Revision
		if seq := min(r.Seq, ends[i]); p.Accepts(r.Revision) && p.MarkRead(seq, r.KeepMentions) != p {
			again = append(again, i)
		}
	}
	if len(again) == 0 {
		return false
	}
	better := slices.Clone(results)
	repeated, err := s.repeat(ctx, "mark read", func() error { return s.markReadOnce(ctx, reports, again, better, ends) })
	if err != nil {
		fail(again, err)
		return false
	}
	copy(results, better)
	return repeated
}

// readColumns are the reports at index as the columns of a statement.
func readColumns(reports []ReadReport, index []int) (users []chat.UserID, convs []chat.ConversationID) {
	return columnOf(index, func(i int) chat.UserID { return reports[i].User }), columnOf(index, func(i int) chat.ConversationID { return reports[i].Conversation })
}

// readTruth reads the positions that the reports at index are about.
func (s *Store) readTruth(ctx context.Context, reports []ReadReport, index []int, now map[int]chat.Position) error {
	users, convs := readColumns(reports, index)
	rows, err := s.requests.Query(ctx, sqlReadTruth, index, users, convs)
	if err != nil {
		return err
	}
	var i int
	var p chat.Position
	_, err = pgx.ForEachRow(rows, []any{&i, &p.Read, &p.Revision, &p.Mention, &p.MarkedUnread, &p.Seen}, func() error {
		now[i] = p
		return nil
	})
	return err
}

// markReadOnce writes the reports at index and fills in their results, and in
// ends where the log ends for each.
func (s *Store) markReadOnce(ctx context.Context, reports []ReadReport, index []int, results []ReadResult, ends []chat.Seq) error {
	users, convs := readColumns(reports, index)
	rows, err := s.requests.Query(ctx, sqlMarkRead, index, users, convs,
		columnOf(index, func(i int) chat.Seq { return reports[i].Seq }),
		columnOf(index, func(i int) *int32 { return reports[i].Revision }),
		columnOf(index, func(i int) bool { return reports[i].KeepMentions }))
	if err != nil {
		return err
	}
	var i, refused int
	var head chat.Seq
	var r ReadResult
	_, err = pgx.ForEachRow(rows, []any{&i, &refused, &head, &r.Read, &r.Revision, &r.Moved, &r.Seen.Previous, &r.Seen.Seen, &r.Seen.Shown, &r.lost}, func() error {
		results[i], ends[i] = r, head
		switch refused {
		case 1:
			results[i] = ReadResult{Err: chat.ErrNotMember()}
		case 2:
			results[i] = ReadResult{Err: chat.ErrCursorAhead(head)}
		case 3:
			results[i] = ReadResult{Err: chat.ErrUnauthenticated()}
		}
		return nil
	})
	return err
}
