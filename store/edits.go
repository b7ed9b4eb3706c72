package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// Edit is the new content of a message. Mentions and MentionsAll that are nil
// stay as they are.
type Edit struct {
	Body        string
	Mentions    *[]chat.UserID
	MentionsAll *bool
}

// sqlRevise writes the new content of a message where it differs, with those of
// the mentioned who are members now and may see the message, and appends the
// event that says so and keeps what was replaced. It answers the event's seq, or
// no row. $1 conversation, $2 seq, $3 sender, $4 body, $5 mentions, $6 mention all (null: as they are).
const sqlRevise = `
WITH named AS (
  SELECT x.user_id, min(x.k) AS k FROM unnest($5::text[]) WITH ORDINALITY AS x(user_id, k)
  JOIN members m ON m.user_id = x.user_id AND m.conv_id = $1 AND m.left_at IS NULL
  WHERE m.from_seq <= $2 OR EXISTS (
    SELECT FROM membership_periods p WHERE p.user_id = m.user_id AND p.conv_id = $1 AND NOT p.hidden AND $2 BETWEEN p.from_seq AND p.to_seq)
  GROUP BY 1),
old AS MATERIALIZED (SELECT body, mention_ids, mentions_all, edited_at FROM events WHERE conv_id = $1 AND seq = $2),
wanted AS (
  SELECT CASE WHEN $5::text[] IS NULL THEN o.mention_ids ELSE (SELECT array_agg(user_id ORDER BY k) FROM named) END AS mention_ids,
         coalesce($6, o.mentions_all) AS mentions_all
  FROM old o),
revised AS (
  UPDATE events e SET body = $4, mention_ids = w.mention_ids, mentions_all = w.mentions_all,
    edited_at = clock_timestamp(), revised_xid = pg_current_xact_id()
  FROM wanted w
  WHERE e.conv_id = $1 AND e.seq = $2
    AND (e.body, e.mention_ids, e.mentions_all) IS DISTINCT FROM ($4, w.mention_ids, w.mentions_all)
  RETURNING e.mention_ids IS NOT NULL OR e.mentions_all AS mentions),
raised AS (
  UPDATE conversations c SET head = head + 1, revised_xid = pg_current_xact_id(), changed_xid = pg_current_xact_id(),
    last_mention_seq = CASE WHEN r.mentions THEN greatest(last_mention_seq, $2) ELSE last_mention_seq END
  FROM revised r WHERE c.conv_id = $1
  RETURNING c.head, c.message_ord)
INSERT INTO events (conv_id, seq, kind, sender, target_seq, body, mention_ids, mentions_all, edited_at, message_ord, at)
SELECT $1, r.head, 5, $3, $2, o.body, o.mention_ids, o.mentions_all, o.edited_at, r.message_ord, clock_timestamp() FROM raised r, old o
RETURNING seq`

// The rows of mentions after an edit: those that are not among them any more go;
// new ones, and being covered, begin with the edit, $3. By primary keys.
const (
	sqlUnmention = `
DELETE FROM mentions n
USING (SELECT unnest(mention_ids) AS user_id FROM events WHERE conv_id = $1 AND seq = $3 UNION ALL SELECT '') was, events e
WHERE n.conv_id = $1 AND n.user_id = was.user_id AND n.seq = $2 AND e.conv_id = $1 AND e.seq = $2
  AND NOT CASE WHEN n.user_id = '' THEN e.mentions_all ELSE n.user_id = ANY(coalesce(e.mention_ids, '{}')) END`
	sqlMention = `
INSERT INTO mentions AS n (conv_id, user_id, seq, sender, since, covered_by)
SELECT e.conv_id, u.user_id, e.seq, e.sender, $3::bigint, CASE WHEN e.mentions_all THEN $3::bigint END FROM events e CROSS JOIN LATERAL unnest(e.mention_ids) AS u(user_id)
WHERE e.conv_id = $1 AND e.seq = $2
UNION ALL
SELECT conv_id, '', seq, sender, $3, NULL FROM events WHERE conv_id = $1 AND seq = $2 AND mentions_all
ON CONFLICT (conv_id, user_id, seq) DO UPDATE SET covered_by = CASE WHEN excluded.covered_by IS NOT NULL THEN coalesce(n.covered_by, excluded.covered_by) END
WHERE (n.covered_by IS NULL) <> (excluded.covered_by IS NULL)`
)

// Edit changes the content of the caller's own message at seq and appends a
// MessageEdited event; the same content again changes nothing and answers
// false. A repeated send is still decided by the content as first sent. Someone
// who is not a member is NOT_MEMBER, a seq that is no message that they may see,
// or a withdrawn one, NOT_FOUND (below 0 CURSOR_AHEAD), somebody else's message
// FORBIDDEN. Safe to repeat. Locks the conversation.
func (s *Store) Edit(ctx context.Context, user chat.UserID, conv chat.ConversationID, seq chat.Seq, e Edit) (changed bool, err error) {
	repeated, err := s.repeat(ctx, "edit", func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			withdrawn, err := ownTarget(ctx, tx, user, conv, seq, "edit")
			if err != nil {
				return err
			}
			if withdrawn {
				return errWithdrawn()
			}
			var at chat.Seq
			err = tx.QueryRow(ctx, sqlRevise, conv, seq, user, e.Body, e.Mentions, e.MentionsAll).Scan(&at)
			if err == pgx.ErrNoRows {
				changed = false
				return nil
			}
			if changed = err == nil; !changed {
				return err
			}
			var batch pgx.Batch
			batch.Queue(sqlUnmention, conv, seq, at)
			batch.Queue(sqlMention, conv, seq, at)
			return tx.SendBatch(ctx, &batch).Close()
		})
	})
	return changed || repeated && err == nil, err
}
