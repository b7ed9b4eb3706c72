package chat

// Event is one entry of a conversation's log. Only a [Message] counts as unread.
type Event interface {
	IsEvent()
	// Header is what all events have in common.
	Header() Entry
}

// Entry is what all events have in common.
type Entry struct {
	ConversationID ConversationID
	Seq            Seq
	At             DateTime
	// Actor is who caused the event; nil when it was the service, or somebody who was erased.
	Actor *User
}

// IsEvent marks every type that embeds Entry as an [Event].
func (Entry) IsEvent() {}

// Header returns the entry itself.
func (e Entry) Header() Entry { return e }

// MessageKey names a message.
type MessageKey struct {
	Conversation ConversationID
	Seq          Seq
}

// Message is something a member said. Body is nil, and nobody is mentioned,
// once it was withdrawn: Recalled by its sender, or TakenDown by the service or
// because its sender was erased.
type Message struct {
	Entry
	ClientMessageID *ID
	Body            *string
	Mentions        []*User
	MentionsAll     bool
	EditedAt        *DateTime
	Recalled        bool
	TakenDown       bool
}

// Key names the message.
func (m *Message) Key() MessageKey { return MessageKey{m.ConversationID, m.Seq} }

// MemberJoined begins a membership period of Member.
type MemberJoined struct {
	Entry
	Member *User
}

// MemberLeft ends a membership period of Member.
type MemberLeft struct {
	Entry
	Member *User
}

// MessageRecalled says that the message at MessageSeq was withdrawn by its
// sender. Message is it as it is now.
type MessageRecalled struct {
	Entry
	MessageSeq Seq
	Message    *Message
}

// MessageEdited says that the message at MessageSeq was changed by its sender.
// Message is it as it is now.
type MessageEdited struct {
	Entry
	MessageSeq Seq
	Message    *Message
}

// Notice is a line from the service: a rename, a call that ended.
type Notice struct {
	Entry
	Text string
}
