package store

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlConversationsOf: where a user is or was a member, in the order of locking.
const sqlConversationsOf = `SELECT conv_id FROM members WHERE user_id = $1 ORDER BY conv_id`

// sqlLockConversations takes the locks of [sqlLockConversation] in the order of ids.
const sqlLockConversations = `
SELECT conv_id FROM conversations WHERE conv_id = ANY($1) ORDER BY conv_id FOR NO KEY UPDATE`

// sqlLockForErasure waits for whoever keeps the user from being erased.
const sqlLockForErasure = `SELECT erased_at IS NOT NULL FROM users WHERE user_id = $1 FOR UPDATE`

// sqlEraseMembership appends a MemberLeft for each conversation $2 that the user
// is a member of now and ends the membership there, as sqlLeave does for one
// conversation, and forgets the settings everywhere. The member rows stay: others'
// unread counts with their ordinals.
const sqlEraseMembership = `
WITH leaving AS MATERIALIZED (SELECT conv_id FROM members WHERE user_id = $1 AND conv_id = ANY($2) AND left_at IS NULL),
raised AS (
  UPDATE conversations c SET head = head + 1, member_count = member_count - 1, changed_xid = pg_current_xact_id()
  FROM leaving l WHERE c.conv_id = l.conv_id
  RETURNING c.conv_id, c.head, c.message_ord, c.receipt_policy, c.member_count + 1 AS member_count,
    c.last_activity_seq, c.last_activity_at, clock_timestamp() AS at),
logged AS (
  INSERT INTO events (conv_id, seq, kind, subject, message_ord, at)
  SELECT conv_id, head, 3, $1, message_ord, at FROM raised),
settled AS (
  UPDATE members SET pinned_at = NULL, muted = false, archived_at_seq = NULL, archived_ord = NULL, archived_own = NULL, left_title = NULL,
    changed_xid = pg_current_xact_id()
  WHERE user_id = $1 AND conv_id = ANY($2) AND left_at IS NOT NULL)
UPDATE members m SET left_at = r.at, to_seq = r.head, to_ord = r.message_ord, to_own = m.sent_ord,
  past_activity_at = CASE WHEN r.last_activity_seq >= m.from_seq THEN r.last_activity_at ELSE m.past_activity_at END,
  left_policy = r.receipt_policy, left_members = r.member_count,
  pinned_at = NULL, muted = false, archived_at_seq = NULL, archived_ord = NULL, archived_own = NULL, changed_xid = pg_current_xact_id()
FROM raised r WHERE m.user_id = $1 AND m.conv_id = r.conv_id
RETURNING m.conv_id`

// sqlUnmentionUser: the mentions of the user in others' messages, by primary key,
// and in what edits of those replaced, by events_replaced_mentions.
const sqlUnmentionUser = `
WITH gone AS (DELETE FROM mentions WHERE conv_id = ANY($2) AND user_id = $1 RETURNING conv_id, seq),
replaced AS (
  UPDATE events SET mention_ids = nullif(array_remove(mention_ids, $1), '{}') WHERE conv_id = ANY($2) AND kind = 5 AND mention_ids @> ARRAY[$1]
  RETURNING conv_id, target_seq AS seq),
told AS (SELECT conv_id, seq FROM gone UNION SELECT conv_id, seq FROM replaced),
changed AS (
  UPDATE events e SET mention_ids = nullif(array_remove(e.mention_ids, $1), '{}'), revised_xid = pg_current_xact_id() FROM told t
  WHERE e.conv_id = t.conv_id AND e.seq = t.seq)
UPDATE conversations c SET revised_xid = pg_current_xact_id(), changed_xid = pg_current_xact_id() WHERE c.conv_id IN (SELECT conv_id FROM told)
RETURNING c.conv_id`

// sqlForgetUser ends the user and every credential of theirs.
const sqlForgetUser = `
WITH ended AS (
  UPDATE devices SET revoked_at = coalesce(revoked_at, clock_timestamp()), name = NULL, install_id = NULL WHERE user_id = $1)
UPDATE users SET name = NULL, shares_reads = true, erased_at = clock_timestamp() WHERE user_id = $1`

// Erased names the conversations that an erasure changed: those that the user
// left with it, where mentions of the user went, and where the user was ever a
// member and so leaves the audience of messages.
type Erased struct {
	Left, Unmentioned, Ever []chat.ConversationID
}

// EraseUser removes a user from every conversation, forgets their name, mentions
// and settings, and ends their devices. [Store.ForgetMessages] and then
// [Store.ForgetTraces] must follow. Of a user who was erased before it changes
// and names nothing. An unknown user is NOT_FOUND. Locks all of their
// conversations, then the user. An error that is not of the domain leaves it open
// whether it was done: then it names all that may have changed. Safe to repeat.
func (s *Store) EraseUser(ctx context.Context, user chat.UserID) (e Erased, err error) {
	var before bool
	repeated, err := s.repeat(ctx, "erase user", func() error {
		for {
			e, before, err = s.eraseOnce(ctx, user)
			if err != errJoinedMeanwhile {
				return err
			}
		}
	})
	switch {
	case err != nil && !errors.As(err, new(*chat.Error)), before && repeated: // it may have been done, or was by an attempt whose answer was lost
		e = Erased{Left: e.Ever, Unmentioned: e.Ever, Ever: e.Ever}
	case err != nil, before:
		e = Erased{}
	}
	return e, err
}

// errJoinedMeanwhile says that the user came into one more conversation while
// the others were being locked.
var errJoinedMeanwhile = errors.New("the user joined a conversation meanwhile")

func (s *Store) eraseOnce(ctx context.Context, user chat.UserID) (e Erased, before bool, err error) {
	err = s.write(ctx, func(tx pgx.Tx) error {
		e.Left, e.Unmentioned = nil, nil
		if e.Ever, err = column[chat.ConversationID](ctx, tx, sqlConversationsOf, user); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlLockConversations, e.Ever); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, sqlLockForErasure, user).Scan(&before); err == pgx.ErrNoRows {
			return errNoUser()
		} else if err != nil {
			return err
		}
		// Whoever adds a member locks the user: from here on nobody does.
		now, err := column[chat.ConversationID](ctx, tx, sqlConversationsOf, user)
		if err != nil {
			return err
		}
		if !slices.Equal(now, e.Ever) {
			return errJoinedMeanwhile
		}
		if before {
			return nil
		}
		if e.Left, err = column[chat.ConversationID](ctx, tx, sqlEraseMembership, user, e.Ever); err != nil {
			return err
		}
		if e.Unmentioned, err = column[chat.ConversationID](ctx, tx, sqlUnmentionUser, user, e.Ever); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, sqlForgetUser, user)
		return err
	})
	return e, before, err
}

// sqlToForget: the first conversation from $2 on where an erased user has a
// message (behind $3 in that very conversation) that still holds anything. By events_own.
const sqlToForget = `
SELECT m.conv_id FROM members m JOIN users u ON u.user_id = m.user_id AND u.erased_at IS NOT NULL
WHERE m.user_id = $1 AND m.conv_id >= $2 AND EXISTS (
  SELECT FROM events e WHERE e.conv_id = m.conv_id AND e.sender = $1 AND e.kind = 1 AND (e.content_hash <> '' OR e.withdrawn_kind IS NULL) AND e.seq > CASE WHEN m.conv_id = $2 THEN $3 ELSE 0 END)
ORDER BY m.conv_id LIMIT 1`

// forgetAtOnce is how many messages one transaction empties: others who send
// there wait for it.
const forgetAtOnce = 5_000

// sqlForgetMessages empties the next messages of user $1 in conversation $2 behind
// $3, with their mentions and what edits of them replaced. Those that were
// withdrawn before stay withdrawn as they are; what identifies them goes all the
// same. It answers the last seq. Run under the conversation's lock.
const sqlForgetMessages = `
WITH chunk AS MATERIALIZED (
  SELECT seq, mention_ids, mentions_all FROM events
  WHERE conv_id = $2 AND sender = $1 AND kind = 1 AND seq > $3 AND (content_hash <> '' OR withdrawn_kind IS NULL) ORDER BY seq LIMIT $4),
unmentioned AS (
  DELETE FROM mentions n USING (
    SELECT seq, unnest(mention_ids) AS user_id FROM chunk UNION ALL SELECT seq, '' FROM chunk WHERE mentions_all) u
  WHERE n.conv_id = $2 AND n.user_id = u.user_id AND n.seq = u.seq),
gone AS (
  UPDATE events e SET body = NULL, mention_ids = NULL, mentions_all = false, client_message_id = NULL, content_hash = '',
    withdrawn_kind = coalesce(e.withdrawn_kind, 'TAKEN_DOWN'), withdrawn_xid = coalesce(e.withdrawn_xid, pg_current_xact_id())
  FROM chunk s WHERE e.conv_id = $2 AND e.seq = s.seq),
replaced AS (
  UPDATE events x SET body = NULL, mention_ids = NULL, mentions_all = false FROM chunk s
  WHERE x.conv_id = $2 AND x.kind = 5 AND x.target_seq = s.seq)
UPDATE conversations SET last_withdrawn_seq = greatest(last_withdrawn_seq, l.seq), revised_xid = pg_current_xact_id(), changed_xid = pg_current_xact_id()
FROM (SELECT max(seq) AS seq FROM chunk) l WHERE conv_id = $2 AND l.seq IS NOT NULL
RETURNING l.seq`

// ForgetMessages withdraws some thousand messages of an erased user in one
// conversation and forgets what they held. It begins behind after, which is empty
// at first, and answers up to where it came, or with an error may have come; nil
// once there is nothing left. Of a user who is not erased nothing is forgotten. Locks the conversation. Safe to repeat.
func (s *Store) ForgetMessages(ctx context.Context, user chat.UserID, after chat.MessageKey) (through *chat.MessageKey, err error) {
	_, err = s.repeat(ctx, "forget messages", func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			var at chat.MessageKey
			if err := tx.QueryRow(ctx, sqlToForget, user, after.Conversation, after.Seq).Scan(&at.Conversation); err == pgx.ErrNoRows {
				return nil // nothing is left, or an attempt whose answer was lost did the rest
			} else if err != nil {
				return err
			}
			if through != nil && through.Conversation != at.Conversation {
				return nil // such an attempt did all of that conversation: it is told of first
			}
			if _, err := lockConversation(ctx, tx, at.Conversation); err != nil {
				return err
			}
			if at.Conversation == after.Conversation {
				at.Seq = after.Seq
			}
			through = &chat.MessageKey{Conversation: at.Conversation, Seq: at.Seq}
			err := tx.QueryRow(ctx, sqlForgetMessages, user, at.Conversation, at.Seq, forgetAtOnce).Scan(&through.Seq)
			if err == pgx.ErrNoRows { // another call of the same kind was faster
				through.Seq, err = chat.EndOfLog, nil
			}
			return err
		})
	})
	return through, err
}

// What a user leaves beside messages. The devices go last: their cursors are found by them.
var sqlForgetTraces = []string{
	`DELETE FROM read_positions WHERE user_id = $1`,
	`UPDATE membership_periods SET seen_cap = 0, delivered_cap = 0 WHERE user_id = $1 AND hidden AND (seen_cap, delivered_cap) <> (0, 0)`,
	`DELETE FROM device_cursors c USING devices d WHERE d.user_id = $1 AND c.device_id = d.device_id`,
	`DELETE FROM devices WHERE user_id = $1`,
}

const sqlErased = `SELECT EXISTS (SELECT FROM users WHERE user_id = $1 AND erased_at IS NOT NULL)`

// ForgetTraces forgets the positions, cursors and devices of an erased user.
// Reports are refused from the erasure on, but take no lock that it could hold
// against them: one that was in flight may write a position behind it. That is why
// this comes last. Of a user who is not erased nothing is forgotten. Safe to repeat.
func (s *Store) ForgetTraces(ctx context.Context, user chat.UserID) error {
	_, err := s.repeat(ctx, "forget traces", func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			var erased bool
			if err := tx.QueryRow(ctx, sqlErased, user).Scan(&erased); err != nil || !erased {
				return err
			}
			for _, sql := range sqlForgetTraces {
				if _, err := tx.Exec(ctx, sql, user); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return err
}
