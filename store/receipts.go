package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// position is what a receipt counts.
type position string

const (
	reads      position = "reads"
	deliveries position = "deliveries"
)

// receiptCount is the audience of a message, and how many of it have it.
type receiptCount struct {
	audience, count, members int32
}

// manyMembers is above which size of a conversation counts may be a second old.
const manyMembers = 10_000

// sqlReceiptPage: of the messages ($2 conversation, $3 seq of each) those whose
// receipt the viewer $1 may see: asked_of, with large telling a conversation
// whose counts may come from memory. chat.ReceiptPolicy.Shows.
var sqlReceiptPage = `
asked_of AS MATERIALIZED (
  SELECT e.conv_id, e.seq, e.sender, c.member_count, c.member_count > ` + fmt.Sprint(manyMembers) + ` AS large
  FROM unnest($2::text[], $3::bigint[]) AS t(conv_id, seq)
  JOIN members m ON m.user_id = $1 AND m.conv_id = t.conv_id AND m.left_at IS NULL
  JOIN conversations c ON c.conv_id = m.conv_id
  JOIN users v ON v.user_id = m.user_id
  JOIN events e ON e.conv_id = t.conv_id AND e.seq = t.seq AND e.kind = 1
  WHERE ` + visible("e.seq") + `
    AND CASE c.receipt_policy WHEN 'REQUIRED' THEN true WHEN 'MEMBERS' THEN v.shares_reads
        WHEN 'SENDER' THEN v.shares_reads AND e.sender = m.user_id ELSE false END)`

// receiptCounts counts the audience of each message of the page and those of it
// who have it, in one pass over the members of each conversation: periods fall
// into few different pieces of the page, and what is counted are pieces. The
// senders' own periods are taken off afterwards. page is the CTE asked_of; all, a
// condition, also counts large conversations, which otherwise come without counts.
func receiptCounts(page string, p position, all string) string {
	has, received, join := "a.seen", "", ""
	if p == deliveries {
		has, received = "least(coalesce(a.delivered_cap, g.seq, 0), a.to_seq)", sqlReceived+","
		join = "LEFT JOIN received g ON g.conv_id = a.conv_id AND g.user_id = a.user_id"
	}
	return `
WITH ` + page + `,
asked AS MATERIALIZED (SELECT conv_id, min(seq) AS low, max(seq) AS high FROM asked_of WHERE ` + all + ` OR NOT large GROUP BY conv_id),` + sqlAudience + `,` + received + `
who AS MATERIALIZED (
  SELECT a.conv_id, a.user_id, greatest(a.from_seq, k.low) AS from_seq, least(a.to_seq, k.high) AS to_seq, least(` + has + `, k.high) AS has
  FROM audience a JOIN asked k ON k.conv_id = a.conv_id AND a.from_seq <= k.high AND a.to_seq >= k.low ` + join + `),
pieces AS MATERIALIZED (
  SELECT conv_id, from_seq, to_seq, CASE WHEN has >= from_seq THEN has ELSE 0 END AS has, count(*) AS n FROM who GROUP BY 1, 2, 3, 4),
own AS MATERIALIZED (
  SELECT p.conv_id, p.seq, count(*) AS n, count(*) FILTER (WHERE w.has >= p.seq) AS has
  FROM asked_of p JOIN who w ON w.conv_id = p.conv_id AND w.user_id = p.sender AND p.seq BETWEEN w.from_seq AND w.to_seq GROUP BY 1, 2)
SELECT p.conv_id, p.seq, p.member_count, p.large AND NOT ` + all + `,
  (coalesce(sum(x.n), 0) - coalesce(max(o.n), 0))::bigint,
  (coalesce(sum(x.n) FILTER (WHERE x.has >= p.seq), 0) - coalesce(max(o.has), 0))::bigint
FROM asked_of p
LEFT JOIN pieces x ON x.conv_id = p.conv_id AND p.seq BETWEEN x.from_seq AND x.to_seq
LEFT JOIN own o ON o.conv_id = p.conv_id AND o.seq = p.seq
GROUP BY 1, 2, 3, 4`
}

var sqlReceiptCounts = map[position]string{reads: receiptCounts(sqlReceiptPage, reads, "$4::boolean"), deliveries: receiptCounts(sqlReceiptPage, deliveries, "$4::boolean")}

// Receipt reads who has a message; nil where policy, sharing, or a membership
// that is over withholds it, and for what is no message. In a conversation of
// more than 10,000 members the counts may be a second old.
func (vw *View) Receipt(ctx context.Context, m *chat.Message) (*chat.Receipt, error) {
	n, err := vw.receiptCount(ctx, reads, m.Key())
	if n == nil || err != nil {
		return nil, err
	}
	return &chat.Receipt{Message: m.Key(), Audience: n.audience, ReadCount: n.count, Detail: chat.Detail(n.members, vw.sn.store.namesBelow)}, nil
}

// DeliveredCount reads how many of a receipt's audience hold the message on any device.
func (vw *View) DeliveredCount(ctx context.Context, r *chat.Receipt) (int32, error) {
	n, err := vw.receiptCount(ctx, deliveries, r.Message)
	if n == nil || err != nil {
		return 0, err
	}
	return n.count, nil
}

func (vw *View) receiptCount(ctx context.Context, p position, key chat.MessageKey) (*receiptCount, error) {
	return loadPart(ctx, vw, &vw.receipts, &vw.messagePages, p, key, func(ctx context.Context, tx pgx.Tx, page []chat.MessageKey) (map[chat.MessageKey]*receiptCount, error) {
		counts, large, err := vw.countReceipts(ctx, tx, p, page, false)
		if err != nil || len(large) == 0 {
			return counts, err
		}
		more, err := vw.sn.store.receipts.counts(ctx, p, large, vw.sn.opened, func(missing []chat.MessageKey) (map[chat.MessageKey]*receiptCount, error) {
			found, _, err := vw.countReceipts(ctx, tx, p, missing, true)
			return found, err
		})
		for key, n := range more {
			counts[key] = n
		}
		return counts, err
	})
}

// countReceipts counts for a page. Without all, large has the messages of
// conversations that were left out for their size.
func (vw *View) countReceipts(ctx context.Context, tx pgx.Tx, p position, page []chat.MessageKey, all bool) (counts map[chat.MessageKey]*receiptCount, large []chat.MessageKey, err error) {
	convs, seqs := messageColumns(page)
	rows, err := tx.Query(ctx, sqlReceiptCounts[p], vw.viewer.User, convs, seqs, all)
	if err != nil {
		return nil, nil, err
	}
	counts = map[chat.MessageKey]*receiptCount{}
	var key chat.MessageKey
	var n receiptCount
	var left bool
	_, err = pgx.ForEachRow(rows, []any{&key.Conversation, &key.Seq, &n.members, &left, &n.audience, &n.count}, func() error {
		if left {
			large = append(large, key)
			return nil
		}
		found := n
		counts[key] = &found
		return nil
	})
	return counts, large, err
}

// messageColumns are the columns of a list of messages, as unnest takes them.
func messageColumns(page []chat.MessageKey) (convs []chat.ConversationID, seqs []chat.Seq) {
	for _, key := range page {
		convs, seqs = append(convs, key.Conversation), append(seqs, key.Seq)
	}
	return convs, seqs
}
