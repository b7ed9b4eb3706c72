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

	mention chat.Seq
	marked  bool
}

// sqlMarkRead writes a batch of reports. Each is judged and capped by itself
// before reports of one position are merged, so that one beyond head does not
// spoil its neighbour. A report that the snapshot shows to change nothing does not
// reach the upsert. All by primary keys, and events_own for the ordinal.
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
         coalesce(rp.mention_seq, 0) AS mention_seq, coalesce(rp.revision, 0) AS revision, coalesce(rp.marked_unread, false) AS marked
  FROM input t
  LEFT JOIN users x ON x.user_id = t.u AND x.erased_at IS NULL
  LEFT JOIN members m ON m.user_id = t.u AND m.conv_id = t.c
  LEFT JOIN conversations cv ON cv.conv_id = m.conv_id
  LEFT JOIN read_positions rp ON rp.user_id = t.u AND rp.conv_id = t.c),
wanted AS MATERIALIZED (
  SELECT u, c, max(v) AS v, coalesce(max(v) FILTER (WHERE NOT keep), 0) AS mention_v,
         CASE WHEN max(v) FILTER (WHERE rev IS NULL) = max(v) THEN NULL ELSE min(rev) END AS rev
  FROM judged WHERE refused = 0 AND (rev IS NULL OR rev >= revision)
  GROUP BY u, c
  HAVING max(v) > min(read_seq) OR max(v) FILTER (WHERE NOT keep) > min(mention_seq) OR bool_or(marked)),` + sqlMovePositions + `
SELECT j.i, j.refused, j.head, coalesce(n.read_seq, j.read_seq), coalesce(n.revision, j.revision),
       n.user_id IS NOT NULL AND (j.rev IS NULL OR j.rev >= j.revision),
       j.seen_seq, coalesce(n.seen_seq, j.seen_seq), coalesce(j.shown, false)
FROM judged j LEFT JOIN moved n ON n.user_id = j.u AND n.conv_id = j.c AND j.refused = 0 ORDER BY j.i`

// sqlReadTruth runs behind sqlMarkRead in the same transaction with a younger
// snapshot: where a concurrent report was ahead, or the revision went up
// meanwhile, the caller is told what is, not what was.
const sqlReadTruth = `
SELECT t.i, r.read_seq, r.revision, r.mention_seq, r.marked_unread FROM unnest($1::int[], $2::text[], $3::text[]) AS t(i, u, c)
JOIN read_positions r ON r.user_id = t.u AND r.conv_id = t.c ORDER BY t.i`

// MarkRead merges reports by maximum into the users' read positions, in one
// transaction and one round trip, and answers the merged truth for each. A
// report beyond head is CURSOR_AHEAD, one of someone who never was a member
// NOT_MEMBER; one beyond the end of a membership that is over is capped there,
// one with an older revision is answered with the truth and ignored. An erased
// user is UNAUTHENTICATED. Refused reports do not spoil the others; the error of
// the call itself is the database's. Safe to repeat, and repeated within ctx if the connection is lost.
func (s *Store) MarkRead(ctx context.Context, reports []ReadReport) ([]ReadResult, error) {
	results := make([]ReadResult, len(reports))
	ends := make([]chat.Seq, len(reports))
	index := make([]int, len(reports))
	for i := range index {
		index[i] = i
	}
	repeated, err := s.repeat(ctx, "mark read", func() error { return s.markReadOnce(ctx, reports, index, results, ends) })
	if err != nil {
		return nil, err
	}
	// A report can be wanted, lose its row to a concurrent change, and still be
	// ahead of what that left: it goes once more, and by then nothing else that
	// is older can stand in its way.
	var again []int
	for i, r := range results {
		if r.Err == nil && !r.Moved && r.behind(reports[i], min(reports[i].Seq, ends[i])) {
			again = append(again, i)
		}
	}
	if len(again) > 0 {
		// If that fails, what the first pass moved must be told all the same: the
		// others are answered with the truth that they lost to.
		better := slices.Clone(results)
		second, err := s.repeat(ctx, "mark read", func() error { return s.markReadOnce(ctx, reports, again, better, ends) })
		if err == nil {
			results = better
		}
		repeated = repeated || second
	}
	for i := range results {
		if r := &results[i]; repeated && r.Err == nil {
			r.Moved, r.Seen.Previous = true, 0 // from nobody knows where
		}
	}
	return results, nil
}

// behind reports whether an accepted report, capped at seq, would still change
// what is.
func (r ReadResult) behind(report ReadReport, seq chat.Seq) bool {
	now := chat.Position{Read: r.Read, Mention: r.mention, Revision: r.Revision, MarkedUnread: r.marked}
	return now.Accepts(report.Revision) && (seq > now.Read || !report.KeepMentions && seq > now.Mention || now.MarkedUnread)
}

// markReadOnce writes the reports at index and fills in their results, and in
// ends where the log ends for each.
func (s *Store) markReadOnce(ctx context.Context, reports []ReadReport, index []int, results []ReadResult, ends []chat.Seq) error {
	users := make([]chat.UserID, len(index))
	convs := make([]chat.ConversationID, len(index))
	seqs := make([]chat.Seq, len(index))
	revisions := make([]*int32, len(index))
	keep := make([]bool, len(index))
	for k, i := range index {
		r := reports[i]
		users[k], convs[k], seqs[k], revisions[k], keep[k] = r.User, r.Conversation, r.Seq, r.Revision, r.KeepMentions
	}
	var i int
	var batch pgx.Batch
	batch.Queue(sqlMarkRead, index, users, convs, seqs, revisions, keep).Query(func(rows pgx.Rows) error {
		var refused int
		var head chat.Seq
		var r ReadResult
		_, err := pgx.ForEachRow(rows, []any{&i, &refused, &head, &r.Read, &r.Revision, &r.Moved, &r.Seen.Previous, &r.Seen.Seen, &r.Seen.Shown}, func() error {
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
	})
	batch.Queue(sqlReadTruth, index, users, convs).Query(func(rows pgx.Rows) error {
		var now chat.Position
		_, err := pgx.ForEachRow(rows, []any{&i, &now.Read, &now.Revision, &now.Mention, &now.MarkedUnread}, func() error {
			if r := &results[i]; r.Err == nil {
				r.Read, r.Revision, r.mention, r.marked = now.Read, now.Revision, now.Mention, now.MarkedUnread
			}
			return nil
		})
		return err
	})
	return s.requests.SendBatch(ctx, &batch).Close()
}
