package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlJoin begins a membership period for each of the users who is not a member
// now, in the order given, with one MemberJoined event each. A former period is
// moved out of the member row first; hiding one keeps how far it was seen and
// received. An archive moves along: what was sent meanwhile does not end it. Run
// under the conversation's lock.
// $1 conversation, $2 users, $3 hide the former periods.
const sqlJoin = `
WITH joining AS MATERIALIZED (
  SELECT t.user_id, row_number() OVER (ORDER BY t.i) AS n, m.user_id IS NOT NULL AS back, coalesce(m.sent_ord, 0) AS sent_ord
  FROM unnest($2::text[]) WITH ORDINALITY AS t(user_id, i)
  LEFT JOIN members m ON m.user_id = t.user_id AND m.conv_id = $1
  WHERE m.user_id IS NULL OR m.left_at IS NOT NULL),
raised AS (
  UPDATE conversations c SET head = head + k.n, member_count = member_count + k.n::int, changed_xid = pg_current_xact_id()
  FROM (SELECT count(*) AS n FROM joining) k
  WHERE c.conv_id = $1 AND k.n > 0
  RETURNING c.head - k.n AS head, c.message_ord, clock_timestamp() AS at),
known AS MATERIALIZED (
  SELECT j.user_id, coalesce(rp.seen_seq, 0) AS seen_seq, coalesce((
    SELECT max(dc.delivered_seq) FROM devices d JOIN device_cursors dc ON dc.device_id = d.device_id AND dc.conv_id = $1 AND dc.install_epoch = d.install_epoch
    WHERE d.user_id = j.user_id AND d.revoked_at IS NULL), 0) AS delivered_seq
  FROM joining j LEFT JOIN read_positions rp ON rp.user_id = j.user_id AND rp.conv_id = $1
  WHERE $3 AND j.back),
hidden AS (
  UPDATE membership_periods p SET hidden = true, seen_cap = least(k.seen_seq, p.to_seq), delivered_cap = least(k.delivered_seq, p.to_seq)
  FROM known k WHERE p.user_id = k.user_id AND p.conv_id = $1 AND NOT p.hidden),
former AS (
  INSERT INTO membership_periods (user_id, conv_id, from_seq, to_seq, hidden, seen_cap, delivered_cap, from_ord, from_own, to_ord, to_own)
  SELECT m.user_id, m.conv_id, m.from_seq, m.to_seq, $3,
         CASE WHEN $3 THEN least(k.seen_seq, m.to_seq) END, CASE WHEN $3 THEN least(k.delivered_seq, m.to_seq) END,
         m.from_ord, m.from_own, m.to_ord, m.to_own
  FROM joining j JOIN members m ON m.user_id = j.user_id AND m.conv_id = $1
  LEFT JOIN known k ON k.user_id = j.user_id
  WHERE j.back),
entered AS (
  INSERT INTO members AS m (user_id, conv_id, joined_at, from_seq, from_ord, from_own)
  SELECT j.user_id, $1, r.at, r.head + j.n, r.message_ord, j.sent_ord FROM joining j, raised r ORDER BY j.user_id COLLATE "C"
  ON CONFLICT (user_id, conv_id) DO UPDATE SET
    joined_at = excluded.joined_at, left_at = NULL,
    from_seq = excluded.from_seq, from_ord = excluded.from_ord, from_own = excluded.from_own,
    to_seq = NULL, to_ord = NULL, to_own = NULL,
    archived_ord = m.archived_ord + (excluded.from_ord - m.to_ord),
    past_activity_at = CASE WHEN $3 THEN NULL ELSE m.past_activity_at END,
    left_title = NULL, left_policy = NULL, left_members = NULL,
    former_periods = m.former_periods + 1, changed_xid = pg_current_xact_id()),
logged AS (
  INSERT INTO events (conv_id, seq, kind, subject, message_ord, at)
  SELECT $1, r.head + j.n, 2, j.user_id, r.message_ord, r.at FROM joining j, raised r)
SELECT user_id FROM joining ORDER BY n`

// sqlLeave ends the membership period of each of the users who is a member now,
// at the MemberLeft event that it appends for each. What they go on seeing of the
// conversation stays in their member row. Run under the conversation's lock.
// $1 conversation, $2 users, $3 who caused it (null: the service).
const sqlLeave = `
WITH leaving AS MATERIALIZED (
  SELECT t.user_id, row_number() OVER (ORDER BY t.i) AS n
  FROM unnest($2::text[]) WITH ORDINALITY AS t(user_id, i)
  JOIN members m ON m.user_id = t.user_id AND m.conv_id = $1 AND m.left_at IS NULL),
raised AS (
  UPDATE conversations c SET head = head + k.n, member_count = member_count - k.n::int, changed_xid = pg_current_xact_id()
  FROM (SELECT count(*) AS n FROM leaving) k
  WHERE c.conv_id = $1 AND k.n > 0
  RETURNING c.head - k.n AS head, c.message_ord, c.title, c.receipt_policy, c.member_count + k.n::int AS member_count, c.last_activity_seq, c.last_activity_at, clock_timestamp() AS at),
ended AS (
  UPDATE members m SET left_at = r.at, to_seq = r.head + l.n, to_ord = r.message_ord, to_own = m.sent_ord,
    past_activity_at = CASE WHEN r.last_activity_seq >= m.from_seq THEN r.last_activity_at ELSE m.past_activity_at END,
    left_title = r.title, left_policy = r.receipt_policy, left_members = r.member_count, changed_xid = pg_current_xact_id()
  FROM leaving l, raised r WHERE m.user_id = l.user_id AND m.conv_id = $1),
logged AS (
  INSERT INTO events (conv_id, seq, kind, sender, subject, message_ord, at)
  SELECT $1, r.head + l.n, 3, $3, l.user_id, r.message_ord, r.at FROM leaving l, raised r)
SELECT user_id FROM leaving ORDER BY n`

// AddMembers begins a membership for each user who is not a member and names
// those; repeated ids count once. With [chat.HistorySinceJoin] what they could see of
// earlier memberships is hidden. NOT_FOUND for an unknown conversation or any
// unknown user, FORBIDDEN in a DIRECT conversation. Safe to repeat.
func (s *Store) AddMembers(ctx context.Context, conv chat.ConversationID, users []chat.UserID, history chat.HistoryOnJoin) (added []chat.UserID, err error) {
	return s.changeMembers(ctx, "add members", conv, users, func(tx pgx.Tx) ([]chat.UserID, error) {
		return join(ctx, tx, conv, users, history)
	})
}

// RemoveMembers ends the membership of each user who is a member and names
// those. NOT_FOUND for an unknown conversation or any unknown user, FORBIDDEN in
// a DIRECT conversation. Safe to repeat.
func (s *Store) RemoveMembers(ctx context.Context, conv chat.ConversationID, users []chat.UserID) (removed []chat.UserID, err error) {
	return s.changeMembers(ctx, "remove members", conv, users, func(tx pgx.Tx) ([]chat.UserID, error) {
		return column[chat.UserID](ctx, tx, sqlLeave, conv, distinct(users), nil)
	})
}

func (s *Store) changeMembers(ctx context.Context, what string, conv chat.ConversationID, users []chat.UserID, change func(pgx.Tx) ([]chat.UserID, error)) (changed []chat.UserID, err error) {
	repeated, err := s.repeat(ctx, what, func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			kind, err := lockConversation(ctx, tx, conv)
			switch {
			case err == pgx.ErrNoRows:
				return errNoConversation()
			case err != nil:
				return err
			case kind == chat.Direct:
				return errDirectMembers()
			}
			if err := lockUsers(ctx, tx, users); err != nil {
				return err
			}
			changed, err = change(tx)
			return err
		})
	})
	if repeated && err == nil {
		// An attempt whose answer was lost may have changed any of them: all who
		// have to do with the conversation are told.
		changed, err = column[chat.UserID](ctx, s.requests, sqlEverMembers, conv, users)
	}
	return changed, err
}

const sqlEverMembers = `SELECT user_id FROM members WHERE conv_id = $1 AND user_id = ANY($2)`

// Leave ends the caller's own membership; done before, it changes nothing and
// answers false. Someone who never was a member is NOT_MEMBER; a DIRECT
// conversation is FORBIDDEN. Safe to repeat.
func (s *Store) Leave(ctx context.Context, user chat.UserID, conv chat.ConversationID) (left bool, err error) {
	repeated, err := s.repeat(ctx, "leave", func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			kind, err := lockConversation(ctx, tx, conv)
			if err == pgx.ErrNoRows {
				return chat.ErrNotMember()
			} else if err != nil {
				return err
			}
			var ever bool
			if err := tx.QueryRow(ctx, sqlEverMember, user, conv).Scan(&ever); err != nil {
				return err
			}
			if !ever {
				return chat.ErrNotMember()
			}
			if kind == chat.Direct {
				return errDirectMembers()
			}
			gone, err := column[chat.UserID](ctx, tx, sqlLeave, conv, []chat.UserID{user}, user)
			left = len(gone) > 0
			return err
		})
	})
	return left || repeated && err == nil, err
}

const sqlEverMember = `SELECT EXISTS (SELECT FROM members WHERE user_id = $1 AND conv_id = $2)`

// lockConversation takes the conversation's lock for the transaction. Without a
// row there is nothing to lock, and the error is pgx.ErrNoRows: the caller must
// not go on, or it would write unlocked into a conversation that was created
// between two statements.
func lockConversation(ctx context.Context, tx pgx.Tx, conv chat.ConversationID) (kind chat.ConversationKind, err error) {
	err = tx.QueryRow(ctx, sqlLockConversation, conv).Scan(&kind)
	return kind, err
}

func join(ctx context.Context, tx pgx.Tx, conv chat.ConversationID, users []chat.UserID, history chat.HistoryOnJoin) ([]chat.UserID, error) {
	return column[chat.UserID](ctx, tx, sqlJoin, conv, distinct(users), history == chat.HistorySinceJoin)
}
