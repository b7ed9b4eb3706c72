package store

import (
	"context"

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
}

// ReadResult is the merged truth for one report, or Err. Moved says that this
// call moved the position, or may have: after a lost connection the outcome of
// an earlier attempt is unknown.
type ReadResult struct {
	Read     chat.Seq
	Revision int32
	Moved    bool
	Err      error
}

// sqlMarkRead writes a batch of reports. Each is judged and capped by itself
// before reports of one position are merged, so that one beyond head does not
// spoil its neighbour. A report that the snapshot shows to be behind does not
// reach the upsert. The revision is compared again in WHERE, on the row version
// that is updated. All by primary keys, and events_own for the ordinal.
// $1 index, $2 user, $3 conversation, $4 seq, $5 revision, one of each per report.
const sqlMarkRead = `
WITH input AS (
  SELECT * FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::int[]) AS t(i, u, c, seq, rev)),
judged AS MATERIALIZED (
  SELECT t.i, t.u, t.c, t.rev, coalesce(m.to_seq, cv.head, 0) AS head,
         CASE WHEN m.user_id IS NULL THEN 1 WHEN t.seq < 0 OR m.to_seq IS NULL AND t.seq > cv.head THEN 2 ELSE 0 END AS refused,
         least(t.seq, coalesce(m.to_seq, cv.head)) AS v,
         coalesce(rp.read_seq, 0) AS read_seq, coalesce(rp.seen_seq, 0) AS seen_seq,
         coalesce(rp.mention_seq, 0) AS mention_seq, coalesce(rp.revision, 0) AS revision
  FROM input t
  LEFT JOIN members m ON m.user_id = t.u AND m.conv_id = t.c
  LEFT JOIN conversations cv ON cv.conv_id = m.conv_id
  LEFT JOIN read_positions rp ON rp.user_id = t.u AND rp.conv_id = t.c),
wanted AS MATERIALIZED (
  SELECT u, c, max(v) AS v,
         CASE WHEN max(v) FILTER (WHERE rev IS NULL) = max(v) THEN NULL ELSE min(rev) END AS rev
  FROM judged WHERE refused = 0 AND (rev IS NULL OR rev >= revision)
  GROUP BY u, c
  HAVING max(v) > min(read_seq) OR max(v) > min(seen_seq) OR max(v) > min(mention_seq)),
ordinals AS (
  SELECT w.u, w.c, w.v, coalesce(e.message_ord, 0) AS read_ord, coalesce(o.sender_ord, 0) AS read_own
  FROM wanted w
  LEFT JOIN events e ON e.conv_id = w.c AND e.seq = w.v
  LEFT JOIN LATERAL (
    SELECT x.sender_ord FROM events x WHERE x.conv_id = w.c AND x.sender = w.u AND x.kind = 1 AND x.seq <= w.v
    ORDER BY x.seq DESC LIMIT 1) o ON true),
moved AS (
  INSERT INTO read_positions AS r (user_id, conv_id, read_seq, read_ord, read_own, mention_seq, seen_seq, seen_at)
  SELECT u, c, v, read_ord, read_own, v, v, clock_timestamp() FROM ordinals ORDER BY u, c
  ON CONFLICT (user_id, conv_id) DO UPDATE SET
    read_seq = greatest(r.read_seq, excluded.read_seq),
    read_ord = greatest(r.read_ord, excluded.read_ord),
    read_own = greatest(r.read_own, excluded.read_own),
    mention_seq = greatest(r.mention_seq, excluded.mention_seq),
    seen_at = CASE WHEN excluded.seen_seq > r.seen_seq THEN excluded.seen_at ELSE r.seen_at END,
    seen_seq = greatest(r.seen_seq, excluded.seen_seq),
    changed_xid = pg_current_xact_id()
  WHERE (excluded.read_seq > r.read_seq OR excluded.mention_seq > r.mention_seq OR excluded.seen_seq > r.seen_seq)
    AND coalesce((SELECT w.rev FROM wanted w WHERE w.u = excluded.user_id AND w.c = excluded.conv_id), 2147483647) >= r.revision
  RETURNING user_id, conv_id, read_seq, revision)
SELECT j.i, j.refused, j.head, coalesce(n.read_seq, j.read_seq), coalesce(n.revision, j.revision),
       coalesce(n.read_seq > j.read_seq, false)
FROM judged j LEFT JOIN moved n ON n.user_id = j.u AND n.conv_id = j.c ORDER BY j.i`

// sqlReadTruth runs behind sqlMarkRead in the same transaction with a younger
// snapshot: where a concurrent report was ahead, or the revision went up
// meanwhile, the caller is told what is, not what was.
const sqlReadTruth = `
SELECT t.i, r.read_seq, r.revision FROM unnest($1::int[], $2::text[], $3::text[]) AS t(i, u, c)
JOIN read_positions r ON r.user_id = t.u AND r.conv_id = t.c ORDER BY t.i`

// MarkRead merges reports by maximum into the users' read positions, in one
// transaction and one round trip, and answers the merged truth for each. A
// report beyond head is CURSOR_AHEAD, one of someone who never was a member
// NOT_MEMBER; one beyond the end of a membership that is over is capped there,
// one with an older revision is answered with the truth and ignored. Refused
// reports do not spoil the others; the error of the call itself is the
// database's. Safe to repeat, and repeated within ctx if the connection is lost.
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
		if r.Err == nil && min(reports[i].Seq, ends[i]) > r.Read && !r.Moved && (reports[i].Revision == nil || *reports[i].Revision >= r.Revision) {
			again = append(again, i)
		}
	}
	if len(again) > 0 {
		second, err := s.repeat(ctx, "mark read", func() error { return s.markReadOnce(ctx, reports, again, results, ends) })
		if err != nil {
			return nil, err
		}
		repeated = repeated || second
	}
	for i := range results {
		results[i].Moved = results[i].Moved || repeated && results[i].Err == nil
	}
	return results, nil
}

// markReadOnce writes the reports at index and fills in their results, and in
// ends where the log ends for each.
func (s *Store) markReadOnce(ctx context.Context, reports []ReadReport, index []int, results []ReadResult, ends []chat.Seq) error {
	users := make([]chat.UserID, len(index))
	convs := make([]chat.ConversationID, len(index))
	seqs := make([]chat.Seq, len(index))
	revisions := make([]*int32, len(index))
	for k, i := range index {
		r := reports[i]
		users[k], convs[k], seqs[k], revisions[k] = r.User, r.Conversation, r.Seq, r.Revision
	}
	var i int
	var batch pgx.Batch
	batch.Queue(sqlMarkRead, index, users, convs, seqs, revisions).Query(func(rows pgx.Rows) error {
		var refused int
		var head chat.Seq
		var r ReadResult
		_, err := pgx.ForEachRow(rows, []any{&i, &refused, &head, &r.Read, &r.Revision, &r.Moved}, func() error {
			results[i], ends[i] = r, head
			switch refused {
			case 1:
				results[i] = ReadResult{Err: chat.ErrNotMember()}
			case 2:
				results[i] = ReadResult{Err: chat.ErrCursorAhead(head)}
			}
			return nil
		})
		return err
	})
	batch.Queue(sqlReadTruth, index, users, convs).Query(func(rows pgx.Rows) error {
		var read chat.Seq
		var revision int32
		_, err := pgx.ForEachRow(rows, []any{&i, &read, &revision}, func() error {
			if results[i].Err == nil {
				results[i].Read, results[i].Revision = read, revision
			}
			return nil
		})
		return err
	})
	return s.requests.SendBatch(ctx, &batch).Close()
}
