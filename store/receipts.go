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
  SELECT e.conv_id, e.seq, e.sender, c.member_count, c.member_count > ` + fmt.Sprint(manyMembers) + ` AS large, c.receipt_policy
  FROM (SELECT conv_id, array_agg(seq) AS seqs FROM unnest($2::text[], $3::bigint[]) AS t(conv_id, seq) GROUP BY conv_id) k
  CROSS JOIN LATERAL (SELECT * FROM members m WHERE m.user_id = $1 AND m.conv_id = k.conv_id AND m.left_at IS NULL OFFSET 0) m
  CROSS JOIN LATERAL (SELECT * FROM conversations c WHERE c.conv_id = m.conv_id OFFSET 0) c
  CROSS JOIN LATERAL (SELECT * FROM users v WHERE v.user_id = m.user_id OFFSET 0) v
  CROSS JOIN LATERAL unnest(k.seqs) AS t(seq)
  CROSS JOIN LATERAL (SELECT * FROM events e WHERE e.conv_id = m.conv_id AND e.seq = t.seq AND e.kind = 1 OFFSET 0) e
  WHERE ` + visible("e.seq") + `
    AND CASE c.receipt_policy WHEN 'REQUIRED' THEN true WHEN 'MEMBERS' THEN v.shares_reads
        WHEN 'SENDER' THEN v.shares_reads AND e.sender = m.user_id ELSE false END)`

// receiptCounts looks at the members of each conversation of the page once: their
// periods fall into few different pieces of the page, which are counted here and
// added up for each message by [tally]. The rows are of three sorts:
// messages (sender, seq twice, members, and whether their counts are left out), pieces
// (from, to, how far they have it, how many), and the senders' own periods, which
// are taken off. page is the CTE asked_of; all, a condition, also counts large
// conversations, which otherwise come without counts.
func receiptCounts(page string, p position, all string) string {
	has := "a.seen"
	if p == deliveries {
		has = "least(a.got, a.to_seq)"
	}
	return `
WITH ` + page + `,
asked AS MATERIALIZED (
  SELECT conv_id, max(receipt_policy) AS receipt_policy, min(seq) AS low, max(seq) AS high FROM asked_of WHERE ` + all + ` OR NOT large GROUP BY conv_id),` +
		audience(p == deliveries, false, `SELECT DISTINCT conv_id, sender AS user_id FROM asked_of`) + `,
who AS MATERIALIZED (
  SELECT a.conv_id, a.user_id, a.sent, greatest(a.from_seq, k.low) AS from_seq, least(a.to_seq, k.high) AS to_seq, least(` + has + `, k.high) AS has
  FROM audience a JOIN asked k ON k.conv_id = a.conv_id AND a.from_seq <= k.high AND a.to_seq >= k.low)
SELECT 0 AS sort, conv_id, sender AS user_id, seq AS from_seq, seq AS to_seq, 0::bigint AS has, member_count::bigint AS n, large AND NOT ` + all + ` AS left_out FROM asked_of
UNION ALL
SELECT 1, conv_id, '', from_seq, to_seq, CASE WHEN has >= from_seq THEN has ELSE 0 END, count(*), false FROM who GROUP BY 2, 4, 5, 6
UNION ALL
SELECT 2, conv_id, user_id, from_seq, to_seq, has, 1, false FROM who WHERE sent`
}

var sqlReceiptCounts = map[position]string{reads: receiptCounts(sqlReceiptPage, reads, "$4::boolean"), deliveries: receiptCounts(sqlReceiptPage, deliveries, "$4::boolean")}

// piece is a part of a page that n members saw all of, and have up to has.
type piece struct{ from, to, has, n chat.Seq }

// pieces are those of one conversation, and the senders' own among them.
type pieces struct {
	all []piece
	own map[chat.UserID][]piece
}

// tally counts who was there for a message at seq, and who of them has it,
// without its sender.
func (p *pieces) tally(seq chat.Seq, sender chat.UserID) (audience, count int32) {
	add := func(list []piece, sign chat.Seq) {
		for _, x := range list {
			if x.from <= seq && seq <= x.to {
				audience += int32(sign * x.n)
				if x.has >= seq {
					count += int32(sign * x.n)
				}
			}
		}
	}
	add(p.all, 1)
	add(p.own[sender], -1)
	return audience, count
}

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
	members := map[chat.ConversationID]*pieces{}
	senders := map[chat.MessageKey]chat.UserID{}
	of := func(conv chat.ConversationID) *pieces {
		if members[conv] == nil {
			members[conv] = &pieces{own: map[chat.UserID][]piece{}}
		}
		return members[conv]
	}
	var sort int
	var conv chat.ConversationID
	var user chat.UserID
	var x piece
	var left bool
	_, err = pgx.ForEachRow(rows, []any{&sort, &conv, &user, &x.from, &x.to, &x.has, &x.n, &left}, func() error {
		key := chat.MessageKey{Conversation: conv, Seq: x.from}
		switch {
		case sort == 1:
			of(conv).all = append(of(conv).all, x)
		case sort == 2:
			of(conv).own[user] = append(of(conv).own[user], x)
		case left:
			large = append(large, key)
		default:
			counts[key], senders[key] = &receiptCount{members: int32(x.n)}, user
		}
		return nil
	})
	for key, n := range counts {
		n.audience, n.count = of(key.Conversation).tally(key.Seq, senders[key])
	}
	return counts, large, err
}

// messageColumns are the columns of a list of messages, as unnest takes them.
func messageColumns(page []chat.MessageKey) (convs []chat.ConversationID, seqs []chat.Seq) {
	for _, key := range page {
		convs, seqs = append(convs, key.Conversation), append(seqs, key.Seq)
	}
	return convs, seqs
}
