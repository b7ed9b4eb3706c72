package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// Watched is what somebody who watches the receipts of a conversation may know
// now. Nothing else is set unless Member.
type Watched struct {
	Member bool
	Policy chat.ReceiptPolicy
	// Shares says that the viewer shares their own reads.
	Shares bool
	Detail chat.ReceiptDetail
	// Positions are those of others, with DetailNames only.
	Positions map[chat.UserID]WatchedPosition
}

// WatchedPosition is how far another user has read and received of what the
// viewer may see, as they may be shown it: with policy SENDER as the viewer's own
// newest message at or before it. 0 is nothing.
type WatchedPosition struct {
	User            *chat.User
	Read, Delivered chat.Seq
}

const sqlWatching = `
SELECT m.left_at IS NULL, c.receipt_policy, v.shares_reads, c.member_count
FROM members m JOIN conversations c ON c.conv_id = m.conv_id JOIN users v ON v.user_id = m.user_id
WHERE m.user_id = $1 AND m.conv_id = $2`

// sqlWatchedPositions: one pass over the audience of conversation $2 without the
// viewer $1, over the part of each period that the viewer may see; $4 names users
// to look at, null for all. With $3 a position is the viewer's newest own message
// within it: one probe of events_own for each part and kind.
var sqlWatchedPositions = `
WITH asked AS MATERIALIZED (SELECT conv_id, receipt_policy FROM conversations WHERE conv_id = $2),` + audience(true, true, "") + `
SELECT w.user_id, u.name, w.read, w.delivered FROM (
SELECT a.user_id, coalesce(max(x.read), 0)::bigint AS read, coalesce(max(x.delivered), 0)::bigint AS delivered
FROM ` + sqlViewed + `
CROSS JOIN LATERAL ` + sqlPeriods + ` q
JOIN audience a ON a.from_seq <= q.to_seq AND a.to_seq >= q.from_seq
CROSS JOIN LATERAL (
  SELECT greatest(a.from_seq, q.from_seq) AS from_seq, least(a.seen, a.to_seq, q.to_seq) AS seen,
    least(a.got, a.to_seq, q.to_seq) AS got) n
CROSS JOIN LATERAL (
  SELECT CASE WHEN $3 THEN (
      SELECT e.seq FROM events e WHERE e.conv_id = $2 AND e.sender = $1 AND e.kind = 1 AND e.seq BETWEEN n.from_seq AND n.seen ORDER BY e.seq DESC LIMIT 1)
    WHEN n.seen >= n.from_seq THEN n.seen END AS read,
    CASE WHEN $3 THEN (
      SELECT e.seq FROM events e WHERE e.conv_id = $2 AND e.sender = $1 AND e.kind = 1 AND e.seq BETWEEN n.from_seq AND n.got ORDER BY e.seq DESC LIMIT 1)
    WHEN n.got >= n.from_seq THEN n.got END AS delivered) x
WHERE m.user_id = $1 AND m.conv_id = $2 AND a.user_id <> $1 AND ($4::text[] IS NULL OR a.user_id = ANY($4))
GROUP BY a.user_id) w` + probed("users", "u", "user_id", "w.user_id")

// Watched reads what the viewer may know of others' positions in a conversation.
// users names whom to look at; nil looks at all.
func (vw *View) Watched(ctx context.Context, conv chat.ConversationID, users []chat.UserID) (w Watched, err error) {
	err = vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var members int32
		err := tx.QueryRow(ctx, sqlWatching, vw.viewer.User, conv).Scan(&w.Member, &w.Policy, &w.Shares, &members)
		if err == pgx.ErrNoRows || err == nil && !w.Member {
			w = Watched{}
			return nil
		} else if err != nil {
			return err
		}
		w.Detail = chat.Detail(members, vw.sn.store.namesBelow)
		if w.Detail != chat.DetailNames || !w.Policy.Shows(true, w.Shares) {
			return nil
		}
		rows, err := tx.Query(ctx, sqlWatchedPositions, vw.viewer.User, conv, w.Policy == chat.ReceiptsSender, users)
		if err != nil {
			return err
		}
		w.Positions = map[chat.UserID]WatchedPosition{}
		var id chat.UserID
		var name *string
		var p WatchedPosition
		_, err = pgx.ForEachRow(rows, []any{&id, &name, &p.Read, &p.Delivered}, func() error {
			found := p
			found.User = &chat.User{ID: id, Name: name}
			w.Positions[id] = found
			return nil
		})
		return err
	})
	return w, err
}

// sqlSentWithin: has the viewer a message of their own that they may see after $3
// and up to $4? A range of events_own.
var sqlSentWithin = `
SELECT EXISTS (
  SELECT FROM ` + sqlViewed + ` JOIN events e ON e.conv_id = m.conv_id AND e.sender = m.user_id AND e.kind = 1 AND e.seq > $3 AND e.seq <= $4
  WHERE m.user_id = $1 AND m.conv_id = $2 AND ` + visible("e.seq") + `)`

// SentWithin reads whether the viewer sent a message, which they may still see,
// with a seq greater than after and at most upTo.
func (vw *View) SentWithin(ctx context.Context, conv chat.ConversationID, after, upTo chat.Seq) (sent bool, err error) {
	err = vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, sqlSentWithin, vw.viewer.User, conv, after, upTo).Scan(&sent)
	})
	return sent, err
}
