package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlEventColumns: an event with the names of its actor and subject, and of a
// recall the message as it is now. Over e, the event, and the viewer's m and c.
// The message of a recall may lie outside what the viewer may see: then what it
// held is withheld.
var sqlEventColumns = `
  e.conv_id, e.seq, e.kind, e.at, e.sender, a.name, a.erased_at IS NOT NULL, e.subject, b.name,
  e.client_message_id, e.body, e.withdrawn_kind IS NOT NULL,
  t.seq, t.at, t.sender, ta.name, t.withdrawn_kind IS NOT NULL,
  CASE WHEN ` + visible("t.seq") + ` THEN t.client_message_id END, CASE WHEN ` + visible("t.seq") + ` THEN t.body END`

const sqlEventJoins = `
LEFT JOIN users a ON a.user_id = e.sender
LEFT JOIN users b ON b.user_id = e.subject
LEFT JOIN events t ON t.conv_id = e.conv_id AND t.seq = e.target_seq
LEFT JOIN users ta ON ta.user_id = t.sender`

const (
	kindMessage  = 1
	kindJoined   = 2
	kindLeft     = 3
	kindRecalled = 4
)

// eventRow is a row of sqlEventColumns.
type eventRow struct {
	conv            chat.ConversationID
	seq             chat.Seq
	kind            int
	at              time.Time
	sender          *chat.UserID
	senderName      *string
	senderErased    bool
	subject         *chat.UserID
	subjectName     *string
	clientMessageID *chat.ID
	body            *string
	withdrawn       bool
	target          struct {
		seq             *chat.Seq
		at              *time.Time
		sender          *chat.UserID
		senderName      *string
		clientMessageID *chat.ID
		body            *string
		withdrawn       *bool
	}
}

func scanEvent(row pgx.CollectableRow) (chat.Event, error) {
	var r eventRow
	t := &r.target
	err := row.Scan(&r.conv, &r.seq, &r.kind, &r.at, &r.sender, &r.senderName, &r.senderErased, &r.subject, &r.subjectName,
		&r.clientMessageID, &r.body, &r.withdrawn,
		&t.seq, &t.at, &t.sender, &t.senderName, &t.withdrawn, &t.clientMessageID, &t.body)
	if err != nil {
		return nil, err
	}
	return r.event()
}

func (r *eventRow) event() (chat.Event, error) {
	entry := chat.Entry{ConversationID: r.conv, Seq: r.seq, At: chat.DateTime{Time: r.at}}
	if !r.senderErased {
		entry.Actor = user(r.sender, r.senderName)
	}
	switch r.kind {
	case kindMessage:
		return &chat.Message{Entry: entry, ClientMessageID: r.clientMessageID, Body: r.body, Recalled: r.withdrawn}, nil
	case kindJoined:
		return &chat.MemberJoined{Entry: entry, Member: user(r.subject, r.subjectName)}, nil
	case kindLeft:
		return &chat.MemberLeft{Entry: entry, Member: user(r.subject, r.subjectName)}, nil
	case kindRecalled:
		t := &r.target
		return &chat.MessageRecalled{Entry: entry, MessageSeq: *t.seq, Message: &chat.Message{
			Entry:           chat.Entry{ConversationID: r.conv, Seq: *t.seq, At: chat.DateTime{Time: *t.at}, Actor: user(t.sender, t.senderName)},
			ClientMessageID: t.clientMessageID, Body: t.body, Recalled: *t.withdrawn,
		}}, nil
	}
	return nil, fmt.Errorf("event %s/%d has kind %d, which this binary does not know", r.conv, r.seq, r.kind)
}

func user(id *chat.UserID, name *string) *chat.User {
	if id == nil {
		return nil
	}
	return &chat.User{ID: *id, Name: name}
}

// sqlLastMessage: per conversation of the page $2, backwards by primary key. While
// the viewer is a member it starts at the newest message; for a period that is
// over it passes the events behind that period's last message.
var sqlLastMessage = `
SELECT ` + sqlEventColumns + `
FROM ` + sqlViewed + `
CROSS JOIN LATERAL (
  SELECT x.* FROM ` + sqlPeriods + ` q CROSS JOIN LATERAL (
    SELECT e.* FROM events e WHERE e.conv_id = m.conv_id AND e.seq BETWEEN q.from_seq AND least(q.to_seq, c.last_message_seq) AND e.kind = 1
    ORDER BY e.seq DESC LIMIT 1) x
  ORDER BY x.seq DESC LIMIT 1) e ` + sqlEventJoins + `
WHERE m.user_id = $1 AND m.conv_id = ANY($2)`

// LastMessage reads the newest message that the viewer may see, withdrawn ones
// included; nil if there is none.
func (vw *View) LastMessage(ctx context.Context, c *chat.Conversation) (*chat.Message, error) {
	return loadPart(ctx, vw, &vw.lastMessages, struct{}{}, c.ID, func(ctx context.Context, tx pgx.Tx, page []chat.ConversationID) (map[chat.ConversationID]*chat.Message, error) {
		return messages(ctx, tx, sqlLastMessage, vw.viewer.User, page)
	})
}

// sqlFirstUnread: per conversation with anything unread, forwards by primary
// key from the read position. It passes what lies before the first unread
// message: joins, leaves, recalled messages and the viewer's own.
var sqlFirstUnread = `
SELECT ` + sqlEventColumns + `
FROM ` + sqlViewed + `
CROSS JOIN LATERAL (
  SELECT x.* FROM ` + sqlPeriods + ` q CROSS JOIN LATERAL (
    SELECT e.* FROM events e
    WHERE e.conv_id = m.conv_id AND e.seq BETWEEN greatest(q.from_seq, coalesce(rp.read_seq, 0) + 1) AND q.to_seq
      AND e.kind = 1 AND e.withdrawn_kind IS NULL AND e.sender <> m.user_id
    ORDER BY e.seq LIMIT 1) x
  ORDER BY x.seq LIMIT 1) e ` + sqlEventJoins + `
WHERE m.user_id = $1 AND m.conv_id = ANY($2) AND ` + sqlUnread + ` > 0`

// FirstUnread reads the first unread message; nil if nothing is unread.
func (vw *View) FirstUnread(ctx context.Context, c *chat.Conversation) (*chat.Message, error) {
	return loadPart(ctx, vw, &vw.firstUnreads, struct{}{}, c.ID, func(ctx context.Context, tx pgx.Tx, page []chat.ConversationID) (map[chat.ConversationID]*chat.Message, error) {
		return messages(ctx, tx, sqlFirstUnread, vw.viewer.User, page)
	})
}

func messages(ctx context.Context, tx pgx.Tx, sql string, args ...any) (map[chat.ConversationID]*chat.Message, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return nil, err
	}
	found := make(map[chat.ConversationID]*chat.Message, len(list))
	for _, e := range list {
		m := e.(*chat.Message) // both statements select kind 1 only
		found[m.ConversationID] = m
	}
	return found, nil
}

// EventRange selects a page of a conversation's visible events: those with a
// seq greater than After (0 or more) and less than Before (chat.EndOfLog: no
// bound), the first Limit of them, or with Backwards the last.
type EventRange struct {
	After, Before chat.Seq
	Limit         int
	Backwards     bool
}

// EventPage is a page of events in ascending order. More says that the range
// goes on beyond it, in the direction of paging.
type EventPage struct {
	Events []chat.Event
	More   bool
}

// sqlEventsForward and sqlEventsBackward: per conversation, one bounded range of
// the primary key per visible period. $3 after, $4 before, $5 rows.
var sqlEventsForward = `
SELECT ` + sqlEventColumns + `
FROM ` + sqlViewed + `
CROSS JOIN LATERAL (
  SELECT x.* FROM ` + sqlPeriods + ` q CROSS JOIN LATERAL (
    SELECT e.* FROM events e
    WHERE e.conv_id = m.conv_id AND e.seq BETWEEN greatest(q.from_seq, $3::bigint + 1) AND least(q.to_seq, $4::bigint - 1)
    ORDER BY e.seq LIMIT $5) x
  ORDER BY x.seq LIMIT $5) e ` + sqlEventJoins + `
WHERE m.user_id = $1 AND m.conv_id = ANY($2) ORDER BY e.conv_id, e.seq`

var sqlEventsBackward = `
SELECT ` + sqlEventColumns + `
FROM ` + sqlViewed + `
CROSS JOIN LATERAL (
  SELECT x.* FROM ` + sqlPeriods + ` q CROSS JOIN LATERAL (
    SELECT e.* FROM events e
    WHERE e.conv_id = m.conv_id AND e.seq BETWEEN greatest(q.from_seq, $3::bigint + 1) AND least(q.to_seq, $4::bigint - 1)
    ORDER BY e.seq DESC LIMIT $5) x
  ORDER BY x.seq DESC LIMIT $5) e ` + sqlEventJoins + `
WHERE m.user_id = $1 AND m.conv_id = ANY($2) ORDER BY e.conv_id, e.seq DESC`

// Events reads a page of events that the viewer may see.
func (vw *View) Events(ctx context.Context, c *chat.Conversation, r EventRange) (*EventPage, error) {
	page, err := loadPart(ctx, vw, &vw.eventPages, r, c.ID, func(ctx context.Context, tx pgx.Tx, page []chat.ConversationID) (map[chat.ConversationID]*EventPage, error) {
		sql := sqlEventsForward
		if r.Backwards {
			sql = sqlEventsBackward
		}
		rows, err := tx.Query(ctx, sql, vw.viewer.User, page, min(r.After, chat.EndOfLog-1), r.Before, r.Limit+1)
		if err != nil {
			return nil, err
		}
		list, err := pgx.CollectRows(rows, scanEvent)
		if err != nil {
			return nil, err
		}
		return cutEventPages(list, r), nil
	})
	if page == nil && err == nil {
		page = &EventPage{}
	}
	return page, err
}

// cutEventPages makes pages of rows that were read one beyond the limit.
func cutEventPages(list []chat.Event, r EventRange) map[chat.ConversationID]*EventPage {
	pages := map[chat.ConversationID]*EventPage{}
	for _, e := range list {
		conv := e.Header().ConversationID
		p := pages[conv]
		if p == nil {
			p = &EventPage{}
			pages[conv] = p
		}
		if p.More = len(p.Events) == r.Limit; !p.More {
			p.Events = append(p.Events, e)
		}
	}
	if r.Backwards {
		for _, p := range pages {
			slices.Reverse(p.Events)
		}
	}
	return pages
}

// sqlMessage reads one message by primary key, also for its sender, who may have
// lost sight of it since.
var sqlMessage = `
SELECT ` + sqlEventColumns + ` FROM ` + sqlViewed + `
JOIN events e ON e.conv_id = m.conv_id AND e.seq = $3 AND e.kind = 1 ` + sqlEventJoins + `
WHERE m.user_id = $1 AND m.conv_id = ANY($2) AND (` + visible("e.seq") + ` OR e.sender = $1)`

// Message reads one message that the viewer sent or may see; nil if there is none.
func (vw *View) Message(ctx context.Context, conv chat.ConversationID, seq chat.Seq) (m *chat.Message, err error) {
	err = vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := messages(ctx, tx, sqlMessage, vw.viewer.User, []chat.ConversationID{conv}, seq)
		m = found[conv]
		return err
	})
	return m, err
}
