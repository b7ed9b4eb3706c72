package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlLastMessage: per conversation of the page $2, backwards by primary key. In the
// period that holds the newest message it is that one; in another it passes the events
// behind that period's last message. A range of one seq costs a quarter of one that is
// open below: an index page is looked through as far as the range goes.
var sqlLastMessage = `
SELECT ` + sqlMessageColumns + `
FROM ` + sqlViewed + `
CROSS JOIN LATERAL (
  SELECT x.* FROM ` + sqlPeriods + ` q CROSS JOIN LATERAL (
    SELECT e.* FROM events e WHERE e.conv_id = m.conv_id AND e.kind = 1
      AND e.seq BETWEEN greatest(q.from_seq, CASE WHEN c.last_message_seq <= q.to_seq THEN c.last_message_seq END) AND least(q.to_seq, c.last_message_seq)
    ORDER BY e.seq DESC LIMIT 1) x
  ORDER BY x.seq DESC LIMIT 1) e ` + sqlMessageJoins + `
WHERE m.user_id = $1 AND m.conv_id = ANY($2)`

// LastMessage reads the newest message that the viewer may see, withdrawn ones
// included; nil if there is none.
func (vw *View) LastMessage(ctx context.Context, c *chat.Conversation) (*chat.Message, error) {
	return loadPart(ctx, vw, &vw.lastMessages, &vw.pages, struct{}{}, c.ID, func(ctx context.Context, tx pgx.Tx, page []chat.ConversationID) (map[chat.ConversationID]*chat.Message, error) {
		return vw.messages(ctx, tx, sqlLastMessage, vw.viewer.User, page)
	})
}

// sqlFirstUnread: per conversation with anything unread, forwards by primary
// key from the read position, period by period: that is what [unreadMessage] says. It
// passes what lies before the first unread message: joins, leaves, recalled messages
// and the viewer's own. Nearly always it is one of the next few seqs, and a short range
// costs a quarter of a long one, as in [sqlLastMessage].
var sqlFirstUnread = `
SELECT ` + sqlMessageColumns + `
FROM ` + sqlViewed + `
CROSS JOIN LATERAL (
  SELECT coalesce(` + firstOfAnother("w.lo", "least(w.lo + 3, q.to_seq)") + `, ` + firstOfAnother("w.lo + 4", "q.to_seq") + `) AS seq
  FROM ` + sqlPeriods + ` q CROSS JOIN LATERAL (SELECT greatest(q.from_seq, coalesce(rp.read_seq, 0) + 1) AS lo) w
  ORDER BY 1 LIMIT 1) f
CROSS JOIN LATERAL (SELECT * FROM events e WHERE e.conv_id = m.conv_id AND e.seq = f.seq OFFSET 0) e ` + sqlMessageJoins + `
WHERE m.user_id = $1 AND m.conv_id = ANY($2) AND ` + sqlUnread + ` > 0`

// firstOfAnother: the first seq from one on to another, both inclusive, of a
// message that is [ofAnother].
func firstOfAnother(from, to string) string {
	return `(
    SELECT e.seq FROM events e WHERE e.conv_id = m.conv_id AND e.seq BETWEEN ` + from + ` AND ` + to + ` AND ` + ofAnother("e") + ` ORDER BY e.seq LIMIT 1)`
}

// FirstUnread reads the first unread message; nil if nothing is unread.
func (vw *View) FirstUnread(ctx context.Context, c *chat.Conversation) (*chat.Message, error) {
	return loadPart(ctx, vw, &vw.firstUnreads, &vw.pages, struct{}{}, c.ID, func(ctx context.Context, tx pgx.Tx, page []chat.ConversationID) (map[chat.ConversationID]*chat.Message, error) {
		return vw.messages(ctx, tx, sqlFirstUnread, vw.viewer.User, page)
	})
}

// sqlFirstMention: per conversation of the page $2, the first rows of the same two ranges.
var sqlFirstMention = `
SELECT ` + sqlMessageColumns + `
FROM ` + sqlViewed + `
CROSS JOIN LATERAL (
  SELECT n.seq FROM (
    (SELECT n.seq FROM ` + mentionsOf("m.user_id") + ` ORDER BY n.conv_id, n.user_id, n.seq LIMIT 1)
    UNION ALL
    (SELECT n.seq FROM ` + mentionsOf("''") + ` ORDER BY n.conv_id, n.user_id, n.seq LIMIT 1)) n
  ORDER BY n.seq LIMIT 1) f
JOIN events e ON e.conv_id = m.conv_id AND e.seq = f.seq ` + sqlMessageJoins + `
WHERE m.user_id = $1 AND m.conv_id = ANY($2) AND c.last_mention_seq > coalesce(rp.mention_seq, 0)`

// FirstUnreadMention reads the first unread message that mentions the viewer;
// nil if there is none.
func (vw *View) FirstUnreadMention(ctx context.Context, c *chat.Conversation) (*chat.Message, error) {
	return loadPart(ctx, vw, &vw.firstMentions, &vw.pages, struct{}{}, c.ID, func(ctx context.Context, tx pgx.Tx, page []chat.ConversationID) (map[chat.ConversationID]*chat.Message, error) {
		return vw.messages(ctx, tx, sqlFirstMention, vw.viewer.User, page)
	})
}

func (vw *View) messages(ctx context.Context, tx pgx.Tx, sql string, args ...any) (map[chat.ConversationID]*chat.Message, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*chat.Message, error) { return scanMessage(row) })
	if err != nil {
		return nil, err
	}
	found := make(map[chat.ConversationID]*chat.Message, len(list))
	keys := make([]chat.MessageKey, len(list))
	for i, m := range list {
		found[m.ConversationID], keys[i] = m, m.Key()
	}
	vw.messagePages.remember(keys)
	return found, nil
}

// sqlMessage reads one message by primary key, also for its sender, who may have
// lost sight of it since.
var sqlMessage = `
SELECT ` + sqlMessageColumns + ` FROM ` + sqlViewed + `
JOIN events e ON e.conv_id = m.conv_id AND e.seq = $3 AND e.kind = 1 ` + sqlMessageJoins + `
WHERE m.user_id = $1 AND m.conv_id = ANY($2) AND (` + visible("e.seq") + ` OR e.sender = $1)`

// Message reads one message that the viewer sent or may see; nil if there is none.
func (vw *View) Message(ctx context.Context, conv chat.ConversationID, seq chat.Seq) (m *chat.Message, err error) {
	if held := vw.held.Message; held != nil && held.Key() == (chat.MessageKey{Conversation: conv, Seq: seq}) {
		return held, nil
	}
	err = vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := vw.messages(ctx, tx, sqlMessage, vw.viewer.User, []chat.ConversationID{conv}, seq)
		m = found[conv]
		return err
	})
	return m, err
}
