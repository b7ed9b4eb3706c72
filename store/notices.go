package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlNotice appends a notice with the text $3 to conversation $1, unless one with
// the id $2 is there. Run under the conversation's lock.
const sqlNotice = `
WITH raised AS (
  UPDATE conversations SET head = head + 1, last_activity_seq = head + 1, last_activity_at = greatest(last_activity_at, clock_timestamp()),
    changed_xid = pg_current_xact_id()
  WHERE conv_id = $1 AND NOT EXISTS (SELECT FROM events WHERE conv_id = $1 AND kind = 6 AND client_message_id = $2)
  RETURNING head, message_ord, last_activity_at)
INSERT INTO events (conv_id, seq, kind, client_message_id, body, message_ord, at)
SELECT $1, head, 6, $2, $3, message_ord, last_activity_at FROM raised`

// PostNotice appends a Notice for the service. With an id that was used in this
// conversation before it appends nothing, whatever the text, and answers false.
// NOT_FOUND for an unknown conversation. Without an id, a call whose answer was
// lost is not repeated. Locks the conversation.
func (s *Store) PostNotice(ctx context.Context, conv chat.ConversationID, text string, id *string) (appended bool, err error) {
	post := func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			if _, err := lockConversation(ctx, tx, conv); err == pgx.ErrNoRows {
				return errNoConversation()
			} else if err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, sqlNotice, conv, id, text)
			appended = err == nil && tag.RowsAffected() == 1
			return err
		})
	}
	if id == nil {
		err = post()
		return appended, err
	}
	repeated, err := s.repeat(ctx, "post notice", post)
	return appended || repeated && err == nil, err
}
