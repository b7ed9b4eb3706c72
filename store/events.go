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
// recall or an edit the message as it is now. Over e, the event, and the
// viewer's m and c. The message of a recall or an edit may lie outside what the
// viewer may see: then what it holds is withheld.
var sqlEventColumns = `
  e.conv_id, e.seq, e.kind, e.at, e.sender, a.name, a.erased_at IS NOT NULL, e.subject, b.name, ` + content("e", "true") + `,
  t.seq, t.at, t.sender, ta.name, ta.erased_at IS NOT NULL, ` + content("t", visible("t.seq"))

const sqlEventJoins = `
LEFT JOIN users a ON a.user_id = e.sender
LEFT JOIN users b ON b.user_id = e.subject
LEFT JOIN events t ON t.conv_id = e.conv_id AND t.seq = e.target_seq
LEFT JOIN users ta ON ta.user_id = t.sender`

// content: what a message holds, where the condition is true, and how it was withdrawn.
func content(e, shown string) string {
	when := func(column string) string { return `CASE WHEN ` + shown + ` THEN ` + column + ` END` }
	return when(e+".client_message_id") + `, ` + when(e+".body") + `, ` + when(e+".edited_at") + `, ` +
		when(e+".mentions_all") + `, ` + when(e+".mention_ids") + `,
  CASE WHEN ` + e + `.mention_ids IS NOT NULL THEN ARRAY(
    SELECT u.name FROM unnest(` + e + `.mention_ids) WITH ORDINALITY AS n(user_id, i) LEFT JOIN users u ON u.user_id = n.user_id ORDER BY n.i) END, ` +
		e + `.withdrawn_kind`
}

// The kinds of events, as events.kind has them.
const (
	kindMessage  = 1
	kindJoined   = 2
	kindLeft     = 3
	kindRecalled = 4
	kindEdited   = 5
	kindNotice   = 6
)

// Why a message is withdrawn, as events.withdrawn_kind has it.
const (
	recalled  = "RECALLED"
	takenDown = "TAKEN_DOWN"
)

// contentRow is what [content] selects.
type contentRow struct {
	clientMessageID *chat.ID
	body            *string
	editedAt        *time.Time
	mentionsAll     *bool
	mentionIDs      []chat.UserID
	mentionNames    []*string
	withdrawn       *string
}

func (r *contentRow) scan() []any {
	return []any{&r.clientMessageID, &r.body, &r.editedAt, &r.mentionsAll, &r.mentionIDs, &r.mentionNames, &r.withdrawn}
}

func (r *contentRow) message(entry chat.Entry) *chat.Message {
	m := &chat.Message{Entry: entry, ClientMessageID: r.clientMessageID, Body: r.body, Mentions: []*chat.User{}}
	m.MentionsAll = r.mentionsAll != nil && *r.mentionsAll
	if r.editedAt != nil {
		m.EditedAt = &chat.DateTime{Time: *r.editedAt}
	}
	for i, id := range r.mentionIDs {
		m.Mentions = append(m.Mentions, &chat.User{ID: id, Name: r.mentionNames[i]})
	}
	if r.withdrawn != nil {
		m.Recalled, m.TakenDown = *r.withdrawn == recalled, *r.withdrawn == takenDown
	}
	return m
}

// eventRow is a row of sqlEventColumns.
type eventRow struct {
	conv         chat.ConversationID
	seq          chat.Seq
	kind         int
	at           time.Time
	sender       *chat.UserID
	senderName   *string
	senderErased bool
	subject      *chat.UserID
	subjectName  *string
	content      contentRow
	target       struct {
		seq          *chat.Seq
		at           *time.Time
		sender       *chat.UserID
		senderName   *string
		senderErased bool
		content      contentRow
	}
}

func scanEvent(row pgx.CollectableRow) (chat.Event, error) {
	var r eventRow
	t := &r.target
	columns := append([]any{&r.conv, &r.seq, &r.kind, &r.at, &r.sender, &r.senderName, &r.senderErased, &r.subject, &r.subjectName}, r.content.scan()...)
	columns = append(append(columns, &t.seq, &t.at, &t.sender, &t.senderName, &t.senderErased), t.content.scan()...)
	if err := row.Scan(columns...); err != nil {
		return nil, err
	}
	return r.event()
}

func (r *eventRow) event() (chat.Event, error) {
	entry := chat.Entry{ConversationID: r.conv, Seq: r.seq, At: chat.DateTime{Time: r.at}, Actor: actor(r.sender, r.senderName, r.senderErased)}
	switch r.kind {
	case kindMessage:
		return r.content.message(entry), nil
	case kindJoined:
		return &chat.MemberJoined{Entry: entry, Member: user(r.subject, r.subjectName)}, nil
	case kindLeft:
		return &chat.MemberLeft{Entry: entry, Member: user(r.subject, r.subjectName)}, nil
	case kindRecalled:
		return &chat.MessageRecalled{Entry: entry, MessageSeq: *r.target.seq, Message: r.about()}, nil
	case kindEdited:
		return &chat.MessageEdited{Entry: entry, MessageSeq: *r.target.seq, Message: r.about()}, nil
	case kindNotice:
		return &chat.Notice{Entry: entry, Text: *r.content.body}, nil
	}
	return nil, fmt.Errorf("event %s/%d has kind %d, which this binary does not know", r.conv, r.seq, r.kind)
}

// about is the message that a recall or an edit is about.
func (r *eventRow) about() *chat.Message {
	t := &r.target
	return t.content.message(chat.Entry{ConversationID: r.conv, Seq: *t.seq, At: chat.DateTime{Time: *t.at}, Actor: actor(t.sender, t.senderName, t.senderErased)})
}

func actor(id *chat.UserID, name *string, erased bool) *chat.User {
	if erased {
		return nil
	}
	return user(id, name)
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
	return loadPart(ctx, vw, &vw.lastMessages, &vw.pages, struct{}{}, c.ID, func(ctx context.Context, tx pgx.Tx, page []chat.ConversationID) (map[chat.ConversationID]*chat.Message, error) {
		return vw.messages(ctx, tx, sqlLastMessage, vw.viewer.User, page)
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
	return loadPart(ctx, vw, &vw.firstUnreads, &vw.pages, struct{}{}, c.ID, func(ctx context.Context, tx pgx.Tx, page []chat.ConversationID) (map[chat.ConversationID]*chat.Message, error) {
		return vw.messages(ctx, tx, sqlFirstUnread, vw.viewer.User, page)
	})
}

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
	list, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return nil, err
	}
	vw.rememberMessages(list)
	found := make(map[chat.ConversationID]*chat.Message, len(list))
	for _, e := range list {
		m := e.(*chat.Message) // these statements select kind 1 only
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
	page, err := loadPart(ctx, vw, &vw.eventPages, &vw.pages, r, c.ID, func(ctx context.Context, tx pgx.Tx, page []chat.ConversationID) (map[chat.ConversationID]*EventPage, error) {
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
		vw.rememberMessages(list)
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
		found, err := vw.messages(ctx, tx, sqlMessage, vw.viewer.User, []chat.ConversationID{conv}, seq)
		m = found[conv]
		return err
	})
	return m, err
}
