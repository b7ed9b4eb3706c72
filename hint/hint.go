// Package hint wakes sessions up. A hint says "look here"; a query says what is
// true. Nothing depends on a hint arriving, hints may be merged, repeated and
// overtake each other, and whoever may have missed one is told to look at
// everything (RESYNC).
//
// The way of a hint: after a commit the caller gives it to [Relay.Tell], which
// never blocks. The relay delivers it to this process's [Hub] and sends it over
// the [Bus] to the hubs of the others. The hub finds the sessions it concerns
// and puts it into their mailboxes, which merge. Each subscription empties its
// [Mailbox] at its own speed.
package hint

import "tidemark/chat"

// Reason says what happened.
type Reason string

// The reasons. Resync is told of a user of whom more may have changed than can be
// told; Credential never reaches a mailbox: it ends sessions.
const (
	Message    Reason = "MESSAGE"
	Edit       Reason = "EDIT"
	Recall     Reason = "RECALL"
	TakeDown   Reason = "TAKE_DOWN"
	Notice     Reason = "NOTICE"
	Membership Reason = "MEMBERSHIP"
	// Settings are a user's own of a conversation, or with no User the conversation's.
	Settings Reason = "SETTINGS"
	// Read, MarkedUnread and AllRead are moves of a user's read position. AllRead
	// is told once without a conversation, for those who watch their reads, and
	// once for each conversation that moved, for those who watch their inbox.
	Read         Reason = "READ"
	MarkedUnread Reason = "MARKED_UNREAD"
	AllRead      Reason = "ALL_READ"
	// Delivered is a move of a delivered position, Sharing a change of whose
	// receipts may be seen. Only those who watch receipts hear of them.
	Delivered  Reason = "DELIVERED"
	Sharing    Reason = "SHARING"
	Credential Reason = "CREDENTIAL"
	Resync     Reason = "RESYNC"
)

// Hint is one thing that happened in one conversation, or to one user.
type Hint struct {
	Reason       Reason              `json:"r"`
	Conversation chat.ConversationID `json:"c,omitempty"`
	// User is whose position, settings, sharing or credential it is.
	User chat.UserID `json:"u,omitempty"`
	// Position, Revision and Device are the position after it moved (0: not
	// known), and the device that moved it. Only moves have them.
	Position chat.Seq      `json:"s,omitempty"`
	Revision int32         `json:"v,omitempty"`
	Device   chat.DeviceID `json:"d,omitempty"`
	// Shown says that those who watch receipts may be told of a move: how far the
	// user had been seen to come before is Previous, perhaps a little less.
	Shown    bool     `json:"w,omitempty"`
	Previous chat.Seq `json:"p,omitempty"`
	// Joined and Left name the users of a Membership hint: routes change with them.
	Joined []chat.UserID `json:"j,omitempty"`
	Left   []chat.UserID `json:"l,omitempty"`
	// Merge lets hints about the same conversation be held back for a moment and
	// told as one; it is set for messages to large conversations.
	Merge bool `json:"m,omitempty"`
	// Origin is the session that caused it, which needs no hint.
	Origin Origin `json:"o,omitzero"`
}

// Origin names a session of a user. Both must match, so that nobody can silence
// the session of somebody else.
type Origin struct {
	User    chat.UserID `json:"u,omitempty"`
	Session string      `json:"s,omitempty"`
}
