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
// the mentioned who are members now and may see the message. $1 conversation,
// $2 seq, $3 body, $4 mentions, $5 mention all (null: as they are).
const sqlRevise = `
WITH named AS (
  SELECT x.user_id, min(x.k) AS k FROM unnest($4::text[]) WITH ORDINALITY AS x(user_id, k)
  JOIN members m ON m.user_id = x.user_id AND m.conv_id = $1 AND m.left_at IS NULL
  JOIN conversations c ON c.conv_id = m.conv_id
  WHERE m.from_seq <= $2 OR EXISTS (
    SELECT FROM membership_periods p WHERE p.user_id = m.user_id AND p.conv_id = $1 AND NOT p.hidden AND $2 BETWEEN p.from_seq AND p.to_seq)
  GROUP BY 1),
wanted AS (
  SELECT $3::text AS body,
         CASE WHEN $4::text[] IS NULL THEN e.mention_ids ELSE (SELECT array_agg(user_id ORDER BY k) FROM named) END AS mention_ids,
         coalesce($5, e.mentions_all) AS mentions_all
  FROM events e WHERE e.conv_id = $1 AND e.seq = $2)
UPDATE events e SET body = w.body, mention_ids = w.mention_ids, mentions_all = w.mentions_all,
  edited_at = clock_timestamp(), edited_xid = pg_current_xact_id()
FROM wanted w
WHERE e.conv_id = $1 AND e.seq = $2
  AND (e.body, e.mention_ids, e.mentions_all) IS DISTINCT FROM (w.body, w.mention_ids, w.mentions_all)`

// The rows of mentions, made anew from the message.
const (
	sqlUnmention = `DELETE FROM mentions WHERE conv_id = $1 AND seq = $2`
	sqlMention   = `
INSERT INTO mentions (conv_id, user_id, seq, sender, covered)
SELECT e.conv_id, u.user_id, e.seq, e.sender, e.mentions_all FROM events e CROSS JOIN LATERAL unnest(e.mention_ids) AS u(user_id)
WHERE e.conv_id = $1 AND e.seq = $2
UNION ALL
SELECT conv_id, '', seq, sender, false FROM events WHERE conv_id = $1 AND seq = $2 AND mentions_all`
)

// sqlRevised notes the edit in the conversation. That it mentions somebody may be
// noted once too often, not too seldom.
const sqlRevised = `
UPDATE conversations SET revised_xid = pg_current_xact_id(), last_mention_seq = greatest(last_mention_seq, $2) WHERE conv_id = $1`

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
			tag, err := tx.Exec(ctx, sqlRevise, conv, seq, e.Body, e.Mentions, e.MentionsAll)
			if changed = err == nil && tag.RowsAffected() == 1; !changed {
				return err
			}
			var batch pgx.Batch
			batch.Queue(sqlUnmention, conv, seq)
			batch.Queue(sqlMention, conv, seq)
			batch.Queue(sqlAppendAbout, conv, user, kindEdited, seq)
			batch.Queue(sqlRevised, conv, seq)
			return tx.SendBatch(ctx, &batch).Close()
		})
	})
	return changed || repeated && err == nil, err
}
