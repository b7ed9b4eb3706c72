package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlMovePositions: the CTEs that merge the reports in wanted (u user, c
// conversation, v capped position, mention_v mention position, rev revision, sent_ord
// of the member row)
// into read positions by maximum, and clear the reminder flag. The revision is
// compared on the row version that is updated: chat.Position.Accepts. No revision
// is older than 0, which spares most rows the search through wanted. Rows are
// locked in the order of the keys, whatever the database's collation. moved has the
// rows that changed. One row of events each, and one probe of events_own for those who ever wrote there.
const sqlMovePositions = `
ordinals AS (
  SELECT w.u, w.c, w.v, w.mention_v, coalesce(e.message_ord, 0) AS read_ord, coalesce(o.sender_ord, 0) AS read_own
  FROM wanted w
  LEFT JOIN LATERAL (SELECT e.message_ord FROM events e WHERE e.conv_id = w.c AND e.seq = w.v OFFSET 0) e ON true
  LEFT JOIN LATERAL (
    SELECT x.sender_ord FROM events x WHERE w.sent_ord > 0 AND x.conv_id = w.c AND x.sender = w.u AND x.kind = 1 AND x.seq <= w.v
    ORDER BY x.seq DESC LIMIT 1) o ON true),
moved AS (
  INSERT INTO read_positions AS r (user_id, conv_id, read_seq, read_ord, read_own, mention_seq, seen_seq, seen_at)
  SELECT u, c, v, read_ord, read_own, mention_v, v, clock_timestamp() FROM ordinals ORDER BY u COLLATE "C", c COLLATE "C"
  ON CONFLICT (user_id, conv_id) DO UPDATE SET
    read_seq = greatest(r.read_seq, excluded.read_seq),
    read_ord = greatest(r.read_ord, excluded.read_ord),
    read_own = greatest(r.read_own, excluded.read_own),
    mention_seq = greatest(r.mention_seq, excluded.mention_seq),
    seen_at = CASE WHEN excluded.seen_seq > r.seen_seq THEN excluded.seen_at ELSE r.seen_at END,
    seen_seq = greatest(r.seen_seq, excluded.seen_seq),
    marked_unread = false,
    changed_xid = pg_current_xact_id()
  WHERE (excluded.read_seq > r.read_seq OR excluded.mention_seq > r.mention_seq OR r.marked_unread)
    AND (r.revision = 0 OR coalesce((SELECT w.rev FROM wanted w WHERE w.u = excluded.user_id AND w.c = excluded.conv_id), 2147483647) >= r.revision)
  RETURNING user_id, conv_id, read_seq, seen_seq, revision)`

// sqlShown: others may be told how far the user, a row x of users, has read or
// received in conversation c.
func sqlShown(x, c string) string {
	return `(` + c + `.receipt_policy = 'REQUIRED' OR ` + c + `.receipt_policy <> 'OFF' AND ` + x + `.shares_reads)`
}

// SeenMove is a move of how far others may know that a user has read: from
// Previous (or perhaps a little before it) to Seen. Shown is false where
// receipts keep it from everybody. All zero: it did not move.
type SeenMove struct {
	Previous, Seen chat.Seq
	Shown          bool
}

// sqlMarkUnreadIn: where the log ends for the user, and whether they are a
// member. By primary keys.
const sqlMarkUnreadIn = `
SELECT coalesce(m.to_seq, c.head), m.to_seq IS NULL FROM members m JOIN conversations c USING (conv_id)
WHERE m.user_id = $1 AND m.conv_id = $2`

// sqlEnsurePosition: there must be a row to lock; it goes with the transaction if the call is refused.
const sqlEnsurePosition = `
INSERT INTO read_positions (user_id, conv_id, read_seq, read_ord, read_own) VALUES ($1, $2, 0, 0, 0)
ON CONFLICT DO NOTHING`

const sqlLockPosition = `
SELECT read_seq, mention_seq, seen_seq, revision, marked_unread FROM read_positions
WHERE user_id = $1 AND conv_id = $2 FOR UPDATE`

// sqlSetPosition writes a position that was judged under its lock. One row of
// events and one probe of events_own for the ordinals.
const sqlSetPosition = `
UPDATE read_positions SET
  read_seq = $3, mention_seq = $4, revision = $5, marked_unread = $6,
  read_ord = coalesce((SELECT e.message_ord FROM events e WHERE e.conv_id = $2 AND e.seq = $3), 0),
  read_own = coalesce((SELECT e.sender_ord FROM events e WHERE e.conv_id = $2 AND e.sender = $1 AND e.kind = 1 AND e.seq <= $3
                       ORDER BY e.seq DESC LIMIT 1), 0),
  changed_xid = pg_current_xact_id()
WHERE user_id = $1 AND conv_id = $2`

// Unreading asks to mark a conversation unread from the message at From (1 or
// more) on, if the user's read position is still Expected; or, without From, to
// set the reminder flag.
type Unreading struct {
	From     *chat.Seq
	Expected chat.Seq
}

// MarkUnread moves the user's read position back on purpose, or sets the
// reminder flag, and raises the revision either way; chat.Position says how. It
// answers the position after it. If the position is not the expected one any
// more it is READ_CHANGED, a negative one or a From beyond head CURSOR_AHEAD, and someone who
// never was a member NOT_MEMBER; then nothing changes. Locks the position.
func (s *Store) MarkUnread(ctx context.Context, user chat.UserID, conv chat.ConversationID, u Unreading) (after chat.Position, err error) {
	var attempted *chat.Position
	_, err = s.repeat(ctx, "mark unread", func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			if err := lockUser(ctx, tx, user); err != nil {
				return err
			}
			var end chat.Seq
			var member bool
			if err := tx.QueryRow(ctx, sqlMarkUnreadIn, user, conv).Scan(&end, &member); err == pgx.ErrNoRows {
				return chat.ErrNotMember()
			} else if err != nil {
				return err
			}
			if u.From != nil && (*u.From < 0 || u.Expected < 0 || member && *u.From > end) {
				return chat.ErrCursorAhead(end)
			}
			if _, err := tx.Exec(ctx, sqlEnsurePosition, user, conv); err != nil {
				return err
			}
			var p chat.Position
			if err := tx.QueryRow(ctx, sqlLockPosition, user, conv).Scan(&p.Read, &p.Mention, &p.Seen, &p.Revision, &p.MarkedUnread); err != nil {
				return err
			}
			if attempted != nil && p == *attempted {
				after = p // an attempt whose answer was lost had been committed
				return nil
			}
			switch {
			case u.From == nil:
				after = p.Remind()
			case u.Expected != p.Read:
				return chat.ErrReadChanged(p.Read, p.Revision)
			default:
				after = p.MarkUnread(*u.From)
			}
			attempted = &after
			_, err := tx.Exec(ctx, sqlSetPosition, user, conv, after.Read, after.Mention, after.Revision, after.MarkedUnread)
			return err
		})
	})
	return after, err
}

// sqlReadEverything moves the user's position in each of their conversations to
// where it ends for them now; mentions only with $2. One index range of members,
// then primary keys.
var sqlReadEverything = `
WITH wanted AS MATERIALIZED (
  SELECT m.user_id AS u, m.conv_id AS c, m.sent_ord, e.v, CASE WHEN $2 THEN e.v ELSE 0 END AS mention_v, NULL::int AS rev,
         coalesce(rp.seen_seq, 0) AS seen_seq, ` + sqlShown("u", "c") + ` AS shown
  FROM ` + sqlViewed + ` JOIN users u ON u.user_id = m.user_id AND u.erased_at IS NULL
  CROSS JOIN LATERAL (SELECT coalesce(m.to_seq, c.head) AS v) e
  WHERE m.user_id = $1 AND (e.v > coalesce(rp.read_seq, 0) OR $2 AND e.v > coalesce(rp.mention_seq, 0) OR rp.marked_unread)),` + sqlMovePositions + `
SELECT n.conv_id, w.seen_seq, n.seen_seq, w.shown FROM moved n JOIN wanted w ON w.c = n.conv_id ORDER BY n.conv_id`

// sqlPerhapsRead: all of the user's conversations, moved from and to nobody knows where.
const sqlPerhapsRead = `SELECT conv_id, 0::bigint, 0::bigint, true FROM members WHERE user_id = $1`

// ConversationRead is a conversation in which a markAllRead changed anything. A
// Seen that is shown and goes from 0 to 0 is not known.
type ConversationRead struct {
	Conversation chat.ConversationID
	Seen         SeenMove
}

// ReadEverything marks all of the user's conversations read up to where each
// ends for them now, left, muted and archived ones included, in one statement,
// and names those in which anything changed. Mentions count as seen only with
// mentions. After a lost connection it names them all, since an attempt whose
// answer was lost may have changed any. Safe to repeat.
func (s *Store) ReadEverything(ctx context.Context, user chat.UserID, mentions bool) (changed []ConversationRead, err error) {
	collect := func(sql string, args ...any) error {
		rows, err := s.requests.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		changed, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c ConversationRead, err error) {
			return c, row.Scan(&c.Conversation, &c.Seen.Previous, &c.Seen.Seen, &c.Seen.Shown)
		})
		return err
	}
	repeated, err := s.repeat(ctx, "read everything", func() error { return collect(sqlReadEverything, user, mentions) })
	if repeated && err == nil {
		err = collect(sqlPerhapsRead, user)
	}
	return changed, err
}
