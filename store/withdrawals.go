package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlOwnTarget judges a recall or an edit under the conversation's lock: is the
// caller a member, and is the seq a message they may see, and whose.
var sqlOwnTarget = `
SELECT c.head, e.seq IS NOT NULL, coalesce(e.sender = m.user_id, false), e.withdrawn_kind IS NOT NULL
FROM members m JOIN conversations c USING (conv_id)
LEFT JOIN events e ON e.conv_id = m.conv_id AND e.seq = $3 AND e.kind = 1 AND ` + visible("e.seq") + `
WHERE m.user_id = $1 AND m.conv_id = $2 AND m.left_at IS NULL`

// ownTarget locks the conversation and finds the caller's own message at seq.
// verb says what they want to do with it.
func ownTarget(ctx context.Context, tx pgx.Tx, user chat.UserID, conv chat.ConversationID, seq chat.Seq, verb string) (withdrawn bool, err error) {
	if _, err := lockConversation(ctx, tx, conv); err == pgx.ErrNoRows {
		return false, chat.ErrNotMember()
	} else if err != nil {
		return false, err
	}
	var head chat.Seq
	var found, own bool
	err = tx.QueryRow(ctx, sqlOwnTarget, user, conv, seq).Scan(&head, &found, &own, &withdrawn)
	switch {
	case err == pgx.ErrNoRows:
		return false, chat.ErrNotMember()
	case err != nil:
		return false, err
	case seq < 0:
		return false, chat.ErrCursorAhead(head)
	case !found:
		return false, errNoMessage()
	case !own:
		return false, &chat.Error{Code: chat.Forbidden, Message: "Only the sender of a message may " + verb + " it. Your back end may call takeDownMessage."}
	}
	return withdrawn, nil
}

// sqlWithdraw empties a message of conversation $1 at $2, with what edits of it
// replaced, and says how: $3. Its mentions go in the same transaction.
const sqlWithdraw = `
WITH gone AS (
  UPDATE events SET body = NULL, mention_ids = NULL, mentions_all = false, withdrawn_kind = $3, withdrawn_xid = pg_current_xact_id()
  WHERE conv_id = $1 AND seq = $2),
replaced AS (
  UPDATE events SET body = NULL, mention_ids = NULL, mentions_all = false WHERE conv_id = $1 AND target_seq = $2 AND kind = 5),
unmentioned AS (
  DELETE FROM mentions n USING (
    SELECT unnest(mention_ids) AS user_id FROM events WHERE conv_id = $1 AND seq = $2 UNION ALL SELECT '') u
  WHERE n.conv_id = $1 AND n.user_id = u.user_id AND n.seq = $2)
UPDATE conversations SET last_withdrawn_seq = greatest(last_withdrawn_seq, $2), revised_xid = pg_current_xact_id(), changed_xid = pg_current_xact_id()
WHERE conv_id = $1`

// sqlAppendRecall appends the event by $2 that says that the message at $3 was recalled.
const sqlAppendRecall = `
WITH raised AS (
  UPDATE conversations SET head = head + 1, changed_xid = pg_current_xact_id() WHERE conv_id = $1 RETURNING head, message_ord)
INSERT INTO events (conv_id, seq, kind, sender, target_seq, message_ord, at)
SELECT $1, head, 4, $2, $3, message_ord, clock_timestamp() FROM raised`

// Recall withdraws the caller's own message at seq and appends a
// MessageRecalled event; done before, it changes nothing and answers false.
// Someone who is not a member is NOT_MEMBER, a seq that is no message that they
// may see NOT_FOUND (below 0 CURSOR_AHEAD), somebody else's message FORBIDDEN.
// Safe to repeat. Locks the conversation.
func (s *Store) Recall(ctx context.Context, user chat.UserID, conv chat.ConversationID, seq chat.Seq) (changed bool, err error) {
	repeated, err := s.repeat(ctx, "recall", func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			withdrawn, err := ownTarget(ctx, tx, user, conv, seq, "recall")
			if changed = err == nil && !withdrawn; !changed {
				return err
			}
			if _, err = tx.Exec(ctx, sqlWithdraw, conv, seq, recalled); err == nil {
				_, err = tx.Exec(ctx, sqlAppendRecall, conv, user, seq)
			}
			return err
		})
	})
	return changed || repeated && err == nil, err
}

const sqlTakeDownTarget = `
SELECT c.head, e.seq IS NOT NULL, e.withdrawn_kind IS NOT NULL
FROM conversations c LEFT JOIN events e ON e.conv_id = c.conv_id AND e.seq = $2 AND e.kind = 1 WHERE c.conv_id = $1`

// TakeDown withdraws any message for the service, without an event; a message
// that is withdrawn already stays as it is, and the answer is false. NOT_FOUND
// for an unknown conversation or a seq that is no message (below 0
// CURSOR_AHEAD). Safe to repeat. Locks the conversation.
func (s *Store) TakeDown(ctx context.Context, conv chat.ConversationID, seq chat.Seq) (changed bool, err error) {
	repeated, err := s.repeat(ctx, "take down", func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			if _, err := lockConversation(ctx, tx, conv); err == pgx.ErrNoRows {
				return errNoConversation()
			} else if err != nil {
				return err
			}
			var head chat.Seq
			var found, withdrawn bool
			err := tx.QueryRow(ctx, sqlTakeDownTarget, conv, seq).Scan(&head, &found, &withdrawn)
			switch {
			case err != nil:
				return err
			case seq < 0:
				return chat.ErrCursorAhead(head)
			case !found:
				return errNoMessage()
			}
			if changed = !withdrawn; !changed {
				return nil
			}
			_, err = tx.Exec(ctx, sqlWithdraw, conv, seq, takenDown)
			return err
		})
	})
	return changed || repeated && err == nil, err
}
