package store

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlEventColumns: an event with the names of its actor and subject, and of a
// recall or an edit the message that it is about. Over e, the event, and the
// viewer's m and c. The message of a recall or an edit may lie outside what the
// viewer may see: then what it holds is withheld.
var sqlEventColumns = `
  e.conv_id, e.seq, e.kind, e.at, e.sender, a.name, a.erased_at IS NOT NULL, e.subject, b.name, ` + content("e", "true") + `,
  t.seq, t.at, t.sender, ta.name, ta.erased_at IS NOT NULL, ` + content("t", visible("t.seq"))

// sqlEventJoins: one probe by primary key after the other, as in [sqlViewed].
var sqlEventJoins = probed("users", "a", "user_id", "e.sender") + probed("users", "b", "user_id", "e.subject") + replaced("e") + `
LEFT JOIN LATERAL (SELECT * FROM events t WHERE t.conv_id = e.conv_id AND t.seq = e.target_seq OFFSET 0) t ON true` +
	probed("users", "ta", "user_id", "t.sender") + replaced("t")

// sqlMessageColumns and sqlMessageJoins are what of these concerns events that are
// messages: lists ask for little else, and joins that find nothing cost, too.
var (
	sqlMessageColumns = `e.conv_id, e.seq, e.at, e.sender, a.name, a.erased_at IS NOT NULL, ` + content("e", "true")
	sqlMessageJoins   = probed("users", "a", "user_id", "e.sender") + replaced("e")
)

// probed joins the row of a table whose key has a value, if there is one.
func probed(table, as, key, value string) string {
	return `
LEFT JOIN LATERAL (SELECT * FROM ` + table + ` ` + as + ` WHERE ` + as + `.` + key + ` = ` + value + ` OFFSET 0) ` + as + ` ON true`
}

// replaced: of a message e that was edited after the viewer had left, what it held
// until then, as e_was. One probe of events_edits, for such messages only.
func replaced(e string) string {
	return `
LEFT JOIN LATERAL (
  SELECT x.seq, x.body, x.mention_ids, x.mentions_all, x.edited_at FROM events x
  WHERE m.to_seq IS NOT NULL AND ` + e + `.kind = 1 AND ` + e + `.edited_at IS NOT NULL AND ` + e + `.withdrawn_kind IS NULL
    AND x.conv_id = ` + e + `.conv_id AND x.kind = 5 AND x.target_seq = ` + e + `.seq AND x.seq > m.to_seq
  ORDER BY x.seq LIMIT 1) ` + e + `_was ON true`
}

// content: what a message holds for the viewer, where the condition is true, and
// how it was withdrawn. What an event of an edit keeps is never told by itself.
func content(e, shown string) string {
	of := func(column string) string {
		return `CASE WHEN ` + e + `_was.seq IS NULL THEN ` + e + `.` + column + ` ELSE ` + e + `_was.` + column + ` END`
	}
	when := func(value string) string {
		return `CASE WHEN ` + e + `.kind <> 5 AND ` + shown + ` THEN ` + value + ` END`
	}
	return when(e+".client_message_id") + `, ` + when(of("body")) + `, ` + when(of("edited_at")) + `, ` +
		when(of("mentions_all")) + `, ` + when(of("mention_ids")) + `,
  CASE WHEN ` + e + `.mention_ids IS NOT NULL OR ` + e + `_was.mention_ids IS NOT NULL THEN ARRAY(
    SELECT u.name FROM unnest(` + of("mention_ids") + `) WITH ORDINALITY AS n(user_id, i) LEFT JOIN users u ON u.user_id = n.user_id ORDER BY n.i) END, ` +
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

// scanMessage reads the columns of sqlMessageColumns, and into first what stands
// before them.
func scanMessage(row pgx.CollectableRow, first ...any) (*chat.Message, error) {
	var r eventRow
	columns := append(first, &r.conv, &r.seq, &r.at, &r.sender, &r.senderName, &r.senderErased)
	if err := row.Scan(append(columns, r.content.scan()...)...); err != nil {
		return nil, err
	}
	return r.content.message(chat.Entry{ConversationID: r.conv, Seq: r.seq, At: chat.DateTime{Time: r.at}, Actor: actor(r.sender, r.senderName, r.senderErased)}), nil
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
