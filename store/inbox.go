package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlConversationColumns: a conversation as the viewer $1 sees it on device $2.
// All by primary keys; no event is read but what sqlUnread and sqlActivity say.
var sqlConversationColumns = `
  m.conv_id, c.kind, c.title, c.epoch, coalesce(m.to_seq, c.head) AS head,
  coalesce(rp.read_seq, 0) AS read_seq, coalesce(rp.revision, 0) AS revision,
  coalesce((SELECT dc.delivered_seq FROM device_cursors dc JOIN devices d USING (device_id)
            WHERE dc.device_id = $2 AND dc.conv_id = m.conv_id AND dc.install_epoch = d.install_epoch), 0) AS delivered_seq,
  m.from_seq, m.to_seq,
  CASE WHEN m.former_periods > 0 THEN ARRAY(
    SELECT ARRAY[p.from_seq, p.to_seq] FROM membership_periods p
    WHERE p.user_id = m.user_id AND p.conv_id = m.conv_id AND NOT p.hidden ORDER BY p.from_seq) END AS former,
  ` + sqlUnread + ` AS unread,
  ` + sqlActivity + ` AS activity`

// sqlInbox: one page of the viewer's list by newest activity, then id, both
// descending. One index range of members, then primary keys.
// $3 active, $4 has unread (null: either), $5 and $6 the last row before the page, $7 rows.
var sqlInbox = `
SELECT * FROM (SELECT ` + sqlConversationColumns + ` FROM ` + sqlViewed + `
  WHERE m.user_id = $1 AND (m.left_at IS NULL) = $3) v
WHERE ($4::boolean IS NULL OR (v.unread > 0) = $4)
  AND ($5::timestamptz IS NULL OR (v.activity, v.conv_id) < ($5, $6))
ORDER BY v.activity DESC, v.conv_id DESC LIMIT $7`

var sqlConversations = `
SELECT ` + sqlConversationColumns + ` FROM ` + sqlViewed + ` WHERE m.user_id = $1 AND m.conv_id = ANY($3)`

// sqlBadge: the sum that the badge is defined as, over the rows of sqlInbox that count.
var sqlBadge = `
SELECT coalesce(sum(v.unread), 0), count(*) FILTER (WHERE v.unread > 0)
FROM (SELECT ` + sqlUnread + ` AS unread FROM ` + sqlViewed + ` WHERE m.user_id = $1 AND m.left_at IS NULL) v`

// InboxKey is the place of a row in the list: the sort key of its row.
type InboxKey struct {
	Activity time.Time
	ID       chat.ConversationID
}

// InboxRange selects a page of the viewer's list.
type InboxRange struct {
	Left   bool      // conversations that the viewer has left, instead of present ones
	Unread *bool     // only those with, or only those without unread messages
	After  *InboxKey // rows behind this one; nil starts at the front
	First  int       // rows at most
}

// InboxPage is a page of the list. More says that rows follow it.
type InboxPage struct {
	Conversations []*chat.Conversation
	More          bool
}

// Inbox reads a page of the viewer's conversations, newest activity first.
func (vw *View) Inbox(ctx context.Context, r InboxRange) (*InboxPage, error) {
	var after *time.Time
	var afterID *chat.ConversationID
	if r.After != nil {
		after, afterID = &r.After.Activity, &r.After.ID
	}
	var page InboxPage
	err := vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		list, err := vw.collect(ctx, tx, sqlInbox, vw.viewer.User, vw.viewer.Device, !r.Left, r.Unread, after, afterID, r.First+1)
		if err != nil {
			return err
		}
		if page.More = len(list) > r.First; page.More {
			list = list[:r.First]
		}
		vw.remember(list)
		page.Conversations = list
		return nil
	})
	return &page, err
}

// Conversation reads one conversation; nil if the viewer never was a member of it.
func (vw *View) Conversation(ctx context.Context, id chat.ConversationID) (found *chat.Conversation, err error) {
	err = vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if found = vw.rows[id]; found != nil {
			return nil
		}
		list, err := vw.collect(ctx, tx, sqlConversations, vw.viewer.User, vw.viewer.Device, []chat.ConversationID{id})
		if err != nil || len(list) == 0 {
			return err
		}
		vw.remember(list)
		found = list[0]
		return nil
	})
	return found, err
}

func (vw *View) collect(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]*chat.Conversation, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, vw.scanConversation)
}

func (vw *View) scanConversation(row pgx.CollectableRow) (*chat.Conversation, error) {
	c := &chat.Conversation{Version: vw.sn.version}
	var newest chat.MembershipPeriod
	var former [][]int64
	err := row.Scan(&c.ID, &c.Kind, &c.Title, &c.Epoch, &c.Head, &c.Read, &c.ReadRevision, &c.Delivered,
		&newest.FromSeq, &newest.ToSeq, &former, &c.UnreadMessages, &c.LastActivityAt.Time)
	if err != nil {
		return nil, err
	}
	c.Membership = &chat.Membership{Active: newest.ToSeq == nil}
	for _, p := range former {
		to := chat.Seq(p[1])
		c.Membership.Periods = append(c.Membership.Periods, &chat.MembershipPeriod{FromSeq: chat.Seq(p[0]), ToSeq: &to})
	}
	c.Membership.Periods = append(c.Membership.Periods, &newest)
	c.MinSeq = c.Membership.Periods[0].FromSeq
	return c, nil
}

// Badge reads the viewer's badge.
func (vw *View) Badge(ctx context.Context) (*chat.Badge, error) {
	err := vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if vw.badge != nil {
			return nil
		}
		b := chat.Badge{Version: vw.sn.version}
		var unread int64
		if err := tx.QueryRow(ctx, sqlBadge, vw.viewer.User).Scan(&unread, &b.Conversations); err != nil {
			return err
		}
		b.Unread = chat.Count(unread)
		vw.badge = &b
		return nil
	})
	return vw.badge, err
}
