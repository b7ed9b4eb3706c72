package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlActivity: the time of the newest message or notice that the viewer may see,
// else of their join. A period that is over has left its own in the member row.
const sqlActivity = `
coalesce(CASE WHEN m.left_at IS NULL AND c.last_activity_seq >= m.from_seq THEN c.last_activity_at END, m.past_activity_at, m.joined_at)`

// sqlArchived: archived, and no message of another user was counted since while
// the viewer was a member: whatever was counted since is their own. No event is read.
const sqlArchived = `
(m.archived_at_seq IS NOT NULL
 AND coalesce(m.to_ord, c.message_ord) - m.archived_ord = coalesce(m.to_own, m.sent_ord) - m.archived_own)`

// conversationColumns: a conversation as the viewer sees it on device, an
// expression. All by primary keys; no event is read but what sqlUnread says.
func conversationColumns(device string) string {
	return `
  m.conv_id, c.kind, CASE WHEN m.left_at IS NULL THEN c.title ELSE m.left_title END AS title, c.epoch, coalesce(m.to_seq, c.head) AS head,
  coalesce(rp.read_seq, 0) AS read_seq, coalesce(rp.revision, 0) AS revision, coalesce(rp.marked_unread, false) AS marked_unread,
  coalesce((SELECT dc.delivered_seq FROM device_cursors dc JOIN devices d USING (device_id)
            WHERE dc.device_id = ` + device + ` AND dc.conv_id = m.conv_id AND dc.install_epoch = d.install_epoch), 0) AS delivered_seq,
  m.from_seq, m.to_seq,
  CASE WHEN m.former_periods > 0 THEN ARRAY(
    SELECT ARRAY[p.from_seq, p.to_seq] FROM membership_periods p
    WHERE p.user_id = m.user_id AND p.conv_id = m.conv_id AND NOT p.hidden ORDER BY p.from_seq) END AS former,
  m.pinned_at IS NOT NULL AS pinned, m.muted, ` + sqlArchived + ` AS archived,
  coalesce(m.left_members, c.member_count) AS members, coalesce(m.left_policy, c.receipt_policy) AS policy,
  ` + sqlUnread + ` AS unread,
  ` + sqlMentions + ` AS mentions,
  ` + sqlActivity + ` AS activity`
}

// inboxPage: the keys of one page of the viewer's list, in its order: pinned
// first, then by newest activity, then id, descending. Each of the viewer's
// conversations is looked at for its key; details are for the page only. One index
// range of members, then primary keys. $3 active, $4 archived, $5 to $7 the last row before
// the page, $8 rows.
const inboxPage = `
page AS MATERIALIZED (
  SELECT * FROM (SELECT m.conv_id, m.pinned_at IS NOT NULL AS pinned, ` + sqlActivity + ` AS activity
    FROM members m` + theirConversation + `
    WHERE m.user_id = $1 AND (m.left_at IS NULL) = $3 AND ` + sqlArchived + ` = $4) k
  WHERE $6::timestamptz IS NULL OR (k.pinned, k.activity, k.conv_id) < ($5::boolean, $6::timestamptz, $7::text)
  ORDER BY k.pinned DESC, k.activity DESC, k.conv_id DESC LIMIT $8)`

// sqlInbox: the conversations of inboxPage.
var sqlInbox = `
WITH` + inboxPage + `
SELECT ` + conversationColumns("$2") + ` FROM page JOIN (` + sqlViewed + `) ON m.user_id = $1 AND m.conv_id = page.conv_id
ORDER BY page.pinned DESC, page.activity DESC, page.conv_id DESC`

// sqlInboxFiltered: the same of those that ask for attention or do not ($9) and
// are mentioned or are not ($10; null: either), which is known only once
// everything was counted, by ordinals.
var sqlInboxFiltered = `
SELECT * FROM (SELECT ` + conversationColumns("$2") + ` FROM ` + everythingOf("$1") + `
  WHERE (m.left_at IS NULL) = $3 AND ` + sqlArchived + ` = $4 OFFSET 0) v
WHERE ($9::boolean IS NULL OR ` + sqlAttention + ` = $9)
  AND ($10::boolean IS NULL OR (v.mentions > 0) = $10)
  AND ($6::timestamptz IS NULL OR (v.pinned, v.activity, v.conv_id) < ($5::boolean, $6::timestamptz, $7::text))
ORDER BY v.pinned DESC, v.activity DESC, v.conv_id DESC LIMIT $8`

var sqlConversations = `
SELECT ` + conversationColumns("$2") + ` FROM ` + sqlViewed + ` WHERE m.user_id = $1 AND m.conv_id = ANY($3) ORDER BY m.conv_id`

// InboxKey is the place of a row in the list: the sort key of its row.
type InboxKey struct {
	Pinned   bool
	Activity time.Time
	ID       chat.ConversationID
}

// InboxRange selects a page of the viewer's list.
type InboxRange struct {
	Left      bool      // conversations that the viewer has left, instead of present ones
	Archived  bool      // archived ones, instead of the others
	Unread    *bool     // only those that ask for attention, or only those that do not
	Mentioned *bool     // only those with, or only those without unread mentions
	After     *InboxKey // rows behind this one; nil starts at the front
	First     int       // rows at most
}

// InboxPage is a page of the list. More says that rows follow it.
type InboxPage struct {
	Conversations []*chat.Conversation
	More          bool
}

// Inbox reads a page of the viewer's conversations: pinned ones first, then by
// newest activity.
func (vw *View) Inbox(ctx context.Context, r InboxRange) (*InboxPage, error) {
	var pinned *bool
	var after *time.Time
	var afterID *chat.ConversationID
	if r.After != nil {
		pinned, after, afterID = &r.After.Pinned, &r.After.Activity, &r.After.ID
	}
	var page InboxPage
	err := vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		sql, args := sqlInbox, []any{vw.viewer.User, vw.viewer.Device, !r.Left, r.Archived, pinned, after, afterID, r.First + 1}
		if r.Unread != nil || r.Mentioned != nil {
			sql, args = sqlInboxFiltered, append(args, r.Unread, r.Mentioned)
		}
		list, err := vw.collect(ctx, tx, sql, args...)
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
	if held := vw.held.Conversation; held != nil && held.ID == id {
		return held, nil
	}
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
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*chat.Conversation, error) {
		return scanConversation(row, vw.sn.version, vw.sn.store.pullAbove)
	})
}

// scanConversation reads the columns of conversationColumns, and into first what
// stands before them. Above pullAbove members a conversation is PULL.
func scanConversation(row pgx.CollectableRow, version chat.Version, pullAbove int32, first ...any) (*chat.Conversation, error) {
	c := &chat.Conversation{Version: version}
	var newest chat.MembershipPeriod
	var former [][]int64
	var members int32
	columns := append(first, &c.ID, &c.Kind, &c.Title, &c.Epoch, &c.Head, &c.Read, &c.ReadRevision, &c.MarkedUnread, &c.Delivered,
		&newest.FromSeq, &newest.ToSeq, &former, &c.Pinned, &c.Muted, &c.Archived, &members, &c.ReceiptPolicy,
		&c.UnreadMessages, &c.UnreadMentions, &c.LastActivityAt.Time)
	if err := row.Scan(columns...); err != nil {
		return nil, err
	}
	c.Mode = chat.Fanout(members, pullAbove)
	c.Membership = &chat.Membership{Active: newest.ToSeq == nil}
	for _, p := range former {
		to := chat.Seq(p[1])
		c.Membership.Periods = append(c.Membership.Periods, &chat.MembershipPeriod{FromSeq: chat.Seq(p[0]), ToSeq: &to})
	}
	c.Membership.Periods = append(c.Membership.Periods, &newest)
	c.MinSeq = c.Membership.Periods[0].FromSeq
	return c, nil
}
