package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// Deviation is one thing that a verification found wrong.
type Deviation struct {
	// Rule is the invariant that does not hold (M1, M2, M4, M6), or "ordinals".
	Rule         string
	Conversation chat.ConversationID
	// Subject is whose value it is: an event, a user, a device, the conversation.
	Subject string
	// Found says what is stored and what should be.
	Found string
}

func (d Deviation) String() string {
	return fmt.Sprintf("%s: conversation %q, %s: %s", d.Rule, d.Conversation, d.Subject, d.Found)
}

// sqlTruth counts everything anew from the log of conversation $1: the position
// and the ordinals of each event (log), and what follows for the conversation
// (totals), for each period (periods) and for each read position (positions).
const sqlTruth = `
WITH log AS MATERIALIZED (
  SELECT e.*, row_number() OVER w AS true_seq, count(*) FILTER (WHERE kind = 1) OVER w AS true_ord,
    CASE WHEN kind = 1 THEN count(*) FILTER (WHERE kind = 1) OVER (PARTITION BY sender ORDER BY seq) END AS true_own
  FROM events e WHERE conv_id = $1 WINDOW w AS (ORDER BY seq)),
totals AS MATERIALIZED (
  SELECT count(*) AS head, count(*) FILTER (WHERE kind = 1) AS message_ord,
    coalesce(max(seq) FILTER (WHERE kind = 1), 0) AS last_message_seq,
    coalesce(max(seq) FILTER (WHERE withdrawn_kind IS NOT NULL), 0) AS last_withdrawn_seq FROM log),
stored_periods AS MATERIALIZED (
  SELECT user_id, from_seq, to_seq, from_ord, from_own, to_ord, to_own, true AS newest FROM members WHERE conv_id = $1
  UNION ALL
  SELECT user_id, from_seq, to_seq, from_ord, from_own, to_ord, to_own, false FROM membership_periods WHERE conv_id = $1),
periods AS MATERIALIZED (
  SELECT p.*, coalesce(f.true_ord, 0) AS true_from_ord, CASE WHEN p.to_seq IS NOT NULL THEN coalesce(t.true_ord, 0) END AS true_to_ord,
    o.from_own AS true_from_own, CASE WHEN p.to_seq IS NOT NULL THEN o.to_own END AS true_to_own
  FROM stored_periods p
  JOIN (SELECT q.user_id, q.from_seq, count(*) FILTER (WHERE l.seq < q.from_seq) AS from_own, count(*) FILTER (WHERE l.seq <= q.to_seq) AS to_own
        FROM stored_periods q LEFT JOIN log l ON l.kind = 1 AND l.sender = q.user_id GROUP BY 1, 2) o USING (user_id, from_seq)
  LEFT JOIN log f ON f.seq = p.from_seq - 1
  LEFT JOIN log t ON t.seq = p.to_seq),
positions AS MATERIALIZED (
  SELECT r.*, coalesce(l.true_ord, 0) AS true_ord, o.own AS true_own
  FROM read_positions r
  JOIN (SELECT q.user_id, count(l.seq) AS own FROM read_positions q
        LEFT JOIN log l ON l.kind = 1 AND l.sender = q.user_id AND l.seq <= q.read_seq
        WHERE q.conv_id = $1 GROUP BY 1) o USING (user_id)
  LEFT JOIN log l ON l.seq = r.read_seq WHERE r.conv_id = $1),
sent AS MATERIALIZED (
  SELECT m.user_id, m.sent_ord, count(l.seq) AS true_sent FROM members m
  LEFT JOIN log l ON l.kind = 1 AND l.sender = m.user_id WHERE m.conv_id = $1 GROUP BY 1, 2)`

// sqlDeviations compares what is stored with sqlTruth, and unread by ordinals
// with unread by counting.
var sqlDeviations = sqlTruth + `
SELECT 'M6', 'event ' || seq, 'is event number ' || true_seq || ' of the log' FROM log WHERE seq <> true_seq
UNION ALL
SELECT 'ordinals', 'event ' || seq, 'stored ' || message_ord || '/' || coalesce(sender_ord::text, '-') || ', counted ' || true_ord || '/' || coalesce(true_own::text, '-')
FROM log WHERE (message_ord, sender_ord) IS DISTINCT FROM (true_ord, true_own)
UNION ALL
SELECT 'M6', 'the conversation', 'head ' || c.head || ', the log ends at ' || t.head FROM conversations c, totals t WHERE c.conv_id = $1 AND c.head <> t.head
UNION ALL
SELECT 'ordinals', 'the conversation', 'message_ord, last_message_seq, last_withdrawn_seq stored ' || concat_ws(', ', c.message_ord, c.last_message_seq, c.last_withdrawn_seq)
  || '; counted ' || concat_ws(', ', t.message_ord, t.last_message_seq, t.last_withdrawn_seq)
FROM conversations c, totals t
WHERE c.conv_id = $1 AND (c.message_ord, c.last_message_seq, c.last_withdrawn_seq) IS DISTINCT FROM (t.message_ord, t.last_message_seq, t.last_withdrawn_seq)
UNION ALL
SELECT 'ordinals', 'the conversation', 'member_count stored ' || c.member_count || ', counted ' || n.n
FROM conversations c, (SELECT count(*) AS n FROM members WHERE conv_id = $1 AND left_at IS NULL) n WHERE c.conv_id = $1 AND c.member_count <> n.n
UNION ALL
SELECT 'ordinals', 'user ' || user_id, 'sent_ord stored ' || sent_ord || ', counted ' || true_sent FROM sent WHERE sent_ord <> true_sent
UNION ALL
SELECT 'ordinals', 'user ' || user_id, 'period from ' || from_seq || ' stored ' || concat_ws(', ', from_ord, from_own, to_ord, to_own)
  || '; counted ' || concat_ws(', ', true_from_ord, true_from_own, true_to_ord, true_to_own)
FROM periods WHERE (from_ord, from_own, to_ord, to_own) IS DISTINCT FROM (true_from_ord, true_from_own, true_to_ord, true_to_own)
UNION ALL
SELECT 'ordinals', 'user ' || m.user_id, 'former_periods stored ' || m.former_periods || ', counted ' || n.n
FROM members m CROSS JOIN LATERAL (SELECT count(*) AS n FROM membership_periods p WHERE p.user_id = m.user_id AND p.conv_id = m.conv_id) n
WHERE m.conv_id = $1 AND m.former_periods <> n.n
UNION ALL
SELECT 'ordinals', 'user ' || user_id, 'read_ord, read_own stored ' || read_ord || ', ' || read_own || '; counted ' || true_ord || ', ' || true_own
FROM positions WHERE (read_ord, read_own) IS DISTINCT FROM (true_ord, true_own)
UNION ALL
SELECT 'M1', 'device ' || d.device_id, 'delivered ' || d.delivered_seq || ' lies beyond ' || coalesce(m.to_seq, c.head, 0)
FROM device_cursors d JOIN devices v USING (device_id)
LEFT JOIN members m ON m.user_id = v.user_id AND m.conv_id = d.conv_id LEFT JOIN conversations c ON c.conv_id = m.conv_id
WHERE d.conv_id = $1 AND d.delivered_seq > coalesce(m.to_seq, c.head, 0)
UNION ALL
SELECT 'M2', 'user ' || r.user_id, 'read, seen, mention ' || concat_ws(', ', r.read_seq, r.seen_seq, r.mention_seq) || ' lie beyond ' || coalesce(m.to_seq, c.head, 0)
FROM positions r LEFT JOIN members m ON m.user_id = r.user_id AND m.conv_id = r.conv_id LEFT JOIN conversations c ON c.conv_id = m.conv_id
WHERE greatest(r.read_seq, r.seen_seq, r.mention_seq) > coalesce(m.to_seq, c.head, 0)
UNION ALL
SELECT 'M4', 'user ' || user_id, 'unread by ordinals ' || unread || ', counted ' || counted
FROM (
  SELECT m.user_id, ` + sqlUnread + ` AS unread,
    (SELECT count(*) FROM log e WHERE e.kind = 1 AND e.withdrawn_kind IS NULL AND e.sender <> m.user_id
       AND e.seq > coalesce(rp.read_seq, 0) AND ` + visible("e.seq") + `) AS counted
  FROM ` + sqlViewed + ` WHERE m.conv_id = $1) u
WHERE unread <> counted
ORDER BY 1, 2, 3`

const sqlNextConversations = `SELECT conv_id FROM conversations WHERE conv_id > $1 ORDER BY conv_id LIMIT 500`

// Verify recomputes the ordinals and the invariants M1, M2, M4 and M6 of every
// conversation from its log and passes what deviates to report. Each
// conversation is judged in one snapshot, so that a live database may go on
// changing. It returns how many conversations it looked at.
func (s *Store) Verify(ctx context.Context, report func(Deviation)) (conversations int, err error) {
	for after := chat.ConversationID(""); ; {
		batch, err := column[chat.ConversationID](ctx, s.requests, sqlNextConversations, after)
		if err != nil || len(batch) == 0 {
			return conversations, err
		}
		for _, conv := range batch {
			rows, err := s.requests.Query(ctx, sqlDeviations, conv)
			if err != nil {
				return conversations, err
			}
			d := Deviation{Conversation: conv}
			if _, err := pgx.ForEachRow(rows, []any{&d.Rule, &d.Subject, &d.Found}, func() error { report(d); return nil }); err != nil {
				return conversations, err
			}
			conversations++
		}
		after = batch[len(batch)-1]
	}
}

// The ordinals of the log, of its conversation and of its members, rewritten
// under the conversation's lock. Only rows that deviate are written.
const sqlRepairLog = sqlTruth + `,
fixed_events AS (
  UPDATE events e SET message_ord = l.true_ord, sender_ord = l.true_own FROM log l
  WHERE e.conv_id = $1 AND e.seq = l.seq AND (l.message_ord, l.sender_ord) IS DISTINCT FROM (l.true_ord, l.true_own)),
fixed_conversation AS (
  UPDATE conversations c SET message_ord = t.message_ord, last_message_seq = t.last_message_seq, last_withdrawn_seq = t.last_withdrawn_seq,
    member_count = (SELECT count(*) FROM members WHERE conv_id = $1 AND left_at IS NULL), changed_xid = pg_current_xact_id()
  FROM totals t WHERE c.conv_id = $1
    AND (c.message_ord, c.last_message_seq, c.last_withdrawn_seq, c.member_count)
      IS DISTINCT FROM (t.message_ord, t.last_message_seq, t.last_withdrawn_seq, (SELECT count(*) FROM members WHERE conv_id = $1 AND left_at IS NULL))),
fixed_former AS (
  UPDATE membership_periods m SET from_ord = p.true_from_ord, from_own = p.true_from_own, to_ord = p.true_to_ord, to_own = p.true_to_own
  FROM periods p WHERE m.conv_id = $1 AND NOT p.newest AND m.user_id = p.user_id AND m.from_seq = p.from_seq
    AND (p.from_ord, p.from_own, p.to_ord, p.to_own) IS DISTINCT FROM (p.true_from_ord, p.true_from_own, p.true_to_ord, p.true_to_own))
UPDATE members m SET sent_ord = s.true_sent, from_ord = p.true_from_ord, from_own = p.true_from_own, to_ord = p.true_to_ord, to_own = p.true_to_own,
  former_periods = f.n, changed_xid = pg_current_xact_id()
FROM periods p, sent s, (
  SELECT o.user_id, count(f.from_seq) AS n FROM members o LEFT JOIN membership_periods f ON f.user_id = o.user_id AND f.conv_id = o.conv_id
  WHERE o.conv_id = $1 GROUP BY 1) f
WHERE m.conv_id = $1 AND p.newest AND m.user_id = p.user_id AND s.user_id = m.user_id AND f.user_id = m.user_id
  AND (m.sent_ord, m.from_ord, m.from_own, m.to_ord, m.to_own, m.former_periods)
    IS DISTINCT FROM (s.true_sent, p.true_from_ord, p.true_from_own, p.true_to_ord, p.true_to_own, f.n)`

// Read positions come after the log's ordinals are committed, which is where a
// report that arrives later looks its own up. One that looked before and writes
// after is listed by the next verification. A position beyond the log has
// no ordinals and is left for a human.
const sqlRepairPositions = sqlTruth + `
UPDATE read_positions r SET read_ord = p.true_ord, read_own = p.true_own, changed_xid = pg_current_xact_id()
FROM positions p
WHERE r.conv_id = $1 AND r.user_id = p.user_id AND r.read_seq = p.read_seq
  AND r.read_seq <= (SELECT head FROM totals) AND (r.read_ord, r.read_own) IS DISTINCT FROM (p.true_ord, p.true_own)`

// Repairable reports whether rewriting ordinals can mend the deviation. Events
// that are missing and positions that lie beyond the end stay as they are.
func (d Deviation) Repairable() bool { return d.Rule == "ordinals" || d.Rule == "M4" }

// Repair rewrites the ordinals of one conversation from its log, where they
// deviate; see [Deviation.Repairable].
func (s *Store) Repair(ctx context.Context, conv chat.ConversationID) error {
	for _, sql := range []string{sqlRepairLog, sqlRepairPositions} {
		err := s.write(ctx, func(tx pgx.Tx) error {
			if _, err := lockConversation(ctx, tx, conv); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, sql, conv)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
