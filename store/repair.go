package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// The ordinals of the log, of its conversation and of its members, rewritten
// under the conversation's lock. Only rows that deviate are written.
const sqlRepairLog = sqlTruth + `,
fixed_events AS (
  UPDATE events e SET message_ord = l.true_ord, sender_ord = l.true_own FROM log l
  WHERE e.conv_id = $1 AND e.seq = l.seq AND (l.message_ord, l.sender_ord) IS DISTINCT FROM (l.true_ord, l.true_own)),
fixed_conversation AS (
  UPDATE conversations c SET message_ord = t.message_ord, last_message_seq = t.last_message_seq, last_withdrawn_seq = t.last_withdrawn_seq,
    last_activity_seq = t.last_activity_seq, last_activity_at = coalesce(t.last_activity_at, c.last_activity_at),
    last_mention_seq = greatest(c.last_mention_seq, (SELECT max(seq) FROM mentioned)),
    member_count = (SELECT count(*) FROM members WHERE conv_id = $1 AND left_at IS NULL), changed_xid = pg_current_xact_id()
  FROM totals t WHERE c.conv_id = $1
    AND (c.message_ord, c.last_message_seq, c.last_withdrawn_seq, c.last_activity_seq, c.last_activity_at, c.last_mention_seq, c.member_count)
      IS DISTINCT FROM (t.message_ord, t.last_message_seq, t.last_withdrawn_seq, t.last_activity_seq, coalesce(t.last_activity_at, c.last_activity_at),
        greatest(c.last_mention_seq, (SELECT max(seq) FROM mentioned)), (SELECT count(*) FROM members WHERE conv_id = $1 AND left_at IS NULL))),
fixed_former AS (
  UPDATE membership_periods m SET from_ord = p.true_from_ord, from_own = p.true_from_own, to_ord = p.true_to_ord, to_own = p.true_to_own
  FROM periods p WHERE m.conv_id = $1 AND NOT p.newest AND m.user_id = p.user_id AND m.from_seq = p.from_seq
    AND (p.from_ord, p.from_own, p.to_ord, p.to_own) IS DISTINCT FROM (p.true_from_ord, p.true_from_own, p.true_to_ord, p.true_to_own))
UPDATE members m SET sent_ord = s.true_sent, from_ord = p.true_from_ord, from_own = p.true_from_own, to_ord = p.true_to_ord, to_own = p.true_to_own,
  past_activity_at = a.true_past, former_periods = f.n, changed_xid = pg_current_xact_id()
FROM periods p, sent s, past a, (
  SELECT o.user_id, count(f.from_seq) AS n FROM members o LEFT JOIN membership_periods f ON f.user_id = o.user_id AND f.conv_id = o.conv_id
  WHERE o.conv_id = $1 GROUP BY 1) f
WHERE m.conv_id = $1 AND p.newest AND m.user_id = p.user_id AND s.user_id = m.user_id AND a.user_id = m.user_id AND f.user_id = m.user_id
  AND (m.sent_ord, m.from_ord, m.from_own, m.to_ord, m.to_own, m.past_activity_at, m.former_periods)
    IS DISTINCT FROM (s.true_sent, p.true_from_ord, p.true_from_own, p.true_to_ord, p.true_to_own, a.true_past, f.n)`

// The rows of mentions of a message of which any row differs from the log go, and
// are made anew: what an edit added then counts from the message on.
const (
	sqlRepairMentions = sqlTruth + `
DELETE FROM mentions WHERE conv_id = $1 AND seq IN (
  SELECT coalesce(n.seq, t.seq) FROM (SELECT * FROM mentions WHERE conv_id = $1) n FULL JOIN mentioned t ON t.user_id = n.user_id AND t.seq = n.seq
  WHERE ` + sqlMentionDiffers + `)`
	sqlRemakeMentions = sqlTruth + `
INSERT INTO mentions (conv_id, user_id, seq, sender, since, covered_by)
SELECT $1, user_id, seq, sender, seq, CASE WHEN covered THEN seq END FROM mentioned t
WHERE NOT EXISTS (SELECT FROM mentions n WHERE n.conv_id = $1 AND n.user_id = t.user_id AND n.seq = t.seq)`
)

// Read positions come after the log's ordinals are committed, which is where a
// report that arrives later looks its own up. One that looked before and writes
// after is listed by the next verification. A position beyond the log has
// no ordinals and is left for a human.
const sqlRepairPositions = sqlTruth + `
UPDATE read_positions r SET read_ord = p.true_ord, read_own = p.true_own, changed_xid = pg_current_xact_id()
FROM positions p
WHERE r.conv_id = $1 AND r.user_id = p.user_id AND r.read_seq = p.read_seq
  AND r.read_seq <= (SELECT head FROM totals) AND (r.read_ord, r.read_own) IS DISTINCT FROM (p.true_ord, p.true_own)`

// sqlRepaired has every copy of the conversation be compared again.
const sqlRepaired = `
WITH members AS (UPDATE members SET changed_xid = pg_current_xact_id() WHERE conv_id = $1)
UPDATE conversations SET changed_xid = pg_current_xact_id() WHERE conv_id = $1`

// Repairable reports whether rewriting ordinals and mentions can mend the
// deviation. Events that are missing and positions that lie beyond the end stay
// as they are.
func (d Deviation) Repairable() bool {
	return d.Rule == "ordinals" || d.Rule == "M4" || d.Rule == "mentions"
}

// Repair rewrites the ordinals and mentions of one conversation from its log,
// where they deviate; see [Deviation.Repairable]. Locks the conversation.
func (s *Store) Repair(ctx context.Context, conv chat.ConversationID) error {
	for _, sql := range []string{sqlRepairLog, sqlRepairMentions, sqlRemakeMentions, sqlRepairPositions, sqlRepaired} {
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
