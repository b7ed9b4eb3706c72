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
	// Actor is who caused the event; nil when it was the service.
	Actor *User
}

// IsEvent marks every type that embeds Entry as an [Event].
func (Entry) IsEvent() {}

// Header returns the entry itself.
func (e Entry) Header() Entry { return e }

// Message is something a member said. Body is nil once it was recalled.
type Message struct {
	Entry
	ClientMessageID *ID
	Body            *string
	Recalled        bool
}

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

// MessageRecalled says that the message at MessageSeq was withdrawn by its sender.
type MessageRecalled struct {
	Entry
	MessageSeq Seq
	Message    *Message
}
