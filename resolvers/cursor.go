package resolvers

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"tidemark/chat"
	"tidemark/store"
)

// cursor is the key of a row in a list. It names its list, so that one from
// another list is refused instead of misread. Clients must not look into it.
type cursor struct {
	List string `json:"l"`
	// Pinned is of a conversation.
	Pinned bool `json:"p,omitempty"`
	// Micros is the activity of a conversation in microseconds since 1970.
	Micros int64  `json:"t,omitempty"`
	ID     string `json:"i"`
}

func (c cursor) String() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and a number always marshal
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// maxMicros is the end of the year 9999, where RFC 3339 ends.
const maxMicros = 253_402_300_799_999_999

func errForeignCursor() error {
	return chat.BadInput("after", "after is not a cursor of this list. Pass an endCursor that the same list answered.")
}

// maxCursor is the largest cursor of ours in bytes, generously.
const maxCursor = 4 << 10

// parseCursor reads a cursor of this list; nil for none.
func parseCursor(text *string, list string) (*cursor, error) {
	if text == nil {
		return nil, nil
	}
	bad := errForeignCursor()
	if len(*text) > maxCursor {
		return nil, bad
	}
	b, err := base64.RawURLEncoding.DecodeString(*text)
	if err != nil {
		return nil, bad
	}
	var c cursor
	if json.Unmarshal(b, &c) != nil || c.List != list || chat.CheckID("after", c.ID) != nil {
		return nil, bad
	}
	return &c, nil
}

// inboxList names the list that a filter selects.
func inboxList(r store.InboxRange) string {
	list := "inbox"
	if r.Left {
		list = "left"
	}
	if r.Archived {
		list += " archived"
	}
	return list + choice("unread", r.Unread) + choice("mentioned", r.Mentioned)
}

func choice(name string, filter *bool) string {
	switch {
	case filter == nil:
		return ""
	case *filter:
		return "+" + name
	}
	return "-" + name
}

func inboxCursor(c *chat.Conversation, r store.InboxRange) string {
	return cursor{List: inboxList(r), Pinned: c.Pinned, Micros: c.LastActivityAt.UnixMicro(), ID: string(c.ID)}.String()
}

func parseInboxCursor(text *string, r store.InboxRange) (*store.InboxKey, error) {
	c, err := parseCursor(text, inboxList(r))
	if c == nil || err != nil {
		return nil, err
	}
	if c.Micros < 0 || c.Micros > maxMicros {
		return nil, errForeignCursor()
	}
	return &store.InboxKey{Pinned: c.Pinned, Activity: time.UnixMicro(c.Micros), ID: chat.ConversationID(c.ID)}, nil
}

func memberList(conv chat.ConversationID) string { return "members of " + string(conv) }

func memberCursor(conv chat.ConversationID, user chat.UserID) string {
	return cursor{List: memberList(conv), ID: string(user)}.String()
}

// parseMemberCursor answers the id to start behind; empty for the front.
func parseMemberCursor(text *string, conv chat.ConversationID) (chat.UserID, error) {
	c, err := parseCursor(text, memberList(conv))
	if c == nil || err != nil {
		return "", err
	}
	return chat.UserID(c.ID), nil
}

func readerList(m chat.MessageKey, pending bool) string {
	list := "readers"
	if pending {
		list = "pending"
	}
	return fmt.Sprintf("%s of %d in %s", list, m.Seq, m.Conversation)
}

func readerCursor(m chat.MessageKey, pending bool, user chat.UserID) string {
	return cursor{List: readerList(m, pending), ID: string(user)}.String()
}

// parseReaderCursor answers the id to start behind; empty for the front.
func parseReaderCursor(text *string, m chat.MessageKey, pending bool) (chat.UserID, error) {
	c, err := parseCursor(text, readerList(m, pending))
	if c == nil || err != nil {
		return "", err
	}
	return chat.UserID(c.ID), nil
}
