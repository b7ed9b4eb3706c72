package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// Settings are a member's own of one conversation; nil leaves one as it is.
type Settings struct {
	Pinned, Muted, Archived *bool
}

// sqlUpdateSettings changes what differs. $3 pinned, $4 muted, $5 archived. The
// ordinals of an archive must belong to one moment: with $5 it runs under the
// conversation's lock. An archive that has ended is not archived.
const sqlUpdateSettings = `
WITH now AS (
  SELECT m.pinned_at IS NOT NULL AS pinned, m.muted, ` + sqlArchived + ` AS archived,
    coalesce(m.to_seq, c.head) AS at, coalesce(m.to_ord, c.message_ord) AS ord, coalesce(m.to_own, m.sent_ord) AS own
  FROM members m JOIN conversations c USING (conv_id) WHERE m.user_id = $1 AND m.conv_id = $2)
UPDATE members m SET
  pinned_at = CASE WHEN $3::boolean IS NULL THEN m.pinned_at WHEN $3 THEN coalesce(m.pinned_at, clock_timestamp()) END,
  muted = coalesce($4, m.muted),
  archived_at_seq = CASE WHEN $5::boolean IS NULL OR $5 AND n.archived THEN m.archived_at_seq WHEN $5 THEN n.at END,
  archived_ord = CASE WHEN $5::boolean IS NULL OR $5 AND n.archived THEN m.archived_ord WHEN $5 THEN n.ord END,
  archived_own = CASE WHEN $5::boolean IS NULL OR $5 AND n.archived THEN m.archived_own WHEN $5 THEN n.own END,
  changed_xid = pg_current_xact_id()
FROM now n
WHERE m.user_id = $1 AND m.conv_id = $2
  AND (n.pinned <> $3 OR n.muted <> $4 OR n.archived <> $5)`

// UpdateSettings changes the user's own settings of a conversation that they are
// or were a member of; those that stay the same change nothing, and the answer
// is false. Someone who never was a member is NOT_MEMBER. Safe to repeat. Locks
// the conversation if Archived is set.
func (s *Store) UpdateSettings(ctx context.Context, user chat.UserID, conv chat.ConversationID, set Settings) (changed bool, err error) {
	repeated, err := s.repeat(ctx, "update settings", func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			if set.Archived != nil {
				if _, err := lockConversation(ctx, tx, conv); err == pgx.ErrNoRows {
					return chat.ErrNotMember()
				} else if err != nil {
					return err
				}
			}
			if err := lockUser(ctx, tx, user); err != nil {
				return err
			}
			var ever bool
			if err := tx.QueryRow(ctx, sqlEverMember, user, conv).Scan(&ever); err != nil {
				return err
			}
			if !ever {
				return chat.ErrNotMember()
			}
			tag, err := tx.Exec(ctx, sqlUpdateSettings, user, conv, set.Pinned, set.Muted, set.Archived)
			changed = err == nil && tag.RowsAffected() == 1
			return err
		})
	})
	return changed || repeated && err == nil, err
}

const sqlSetSharing = `
UPDATE users SET shares_reads = $2 WHERE user_id = $1 AND erased_at IS NULL AND shares_reads <> $2`

// sqlSharedIn: where somebody may be watching the user's receipts. One index range of members.
const sqlSharedIn = `
SELECT m.conv_id FROM members m JOIN conversations c USING (conv_id)
WHERE m.user_id = $1 AND c.receipt_policy IN ('SENDER', 'MEMBERS') ORDER BY m.conv_id`

// SetReadSharing says whether others may see what the user has read, and names
// the conversations whose receipts change with it; none if it was so before.
// Safe to repeat.
func (s *Store) SetReadSharing(ctx context.Context, user chat.UserID, share bool) (where []chat.ConversationID, err error) {
	var changed bool
	repeated, err := s.repeat(ctx, "set read sharing", func() error {
		tag, err := s.requests.Exec(ctx, sqlSetSharing, user, share)
		changed = err == nil && tag.RowsAffected() == 1
		return err
	})
	if err != nil || !changed && !repeated {
		return nil, err
	}
	_, err = s.repeat(ctx, "set read sharing", func() error {
		where, err = column[chat.ConversationID](ctx, s.requests, sqlSharedIn, user)
		return err
	})
	return where, err
}

const sqlSharesReads = `SELECT shares_reads FROM users WHERE user_id = $1`

// SharesReads reads whether others may see what the viewer has read.
func (vw *View) SharesReads(ctx context.Context) (shares bool, err error) {
	err = vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, sqlSharesReads, vw.viewer.User).Scan(&shares)
	})
	return shares, err
}
