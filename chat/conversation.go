package chat

import "fmt"

// ConversationKind tells a fixed pair from a group.
type ConversationKind string

// The kinds. A DIRECT conversation has exactly two members, for ever.
const (
	Direct ConversationKind = "DIRECT"
	Group  ConversationKind = "GROUP"
)

// HistoryOnJoin says what a member who comes back may see.
type HistoryOnJoin string

// HistoryMembership shows the periods of earlier memberships, HistorySinceJoin
// hides them.
const (
	HistoryMembership HistoryOnJoin = "MEMBERSHIP"
	HistorySinceJoin  HistoryOnJoin = "SINCE_JOIN"
)

// FanoutMode says how hints about new messages reach the members.
type FanoutMode string

// Push hints every member at once, Pull merges hints over a short window.
const (
	Push FanoutMode = "PUSH"
	Pull FanoutMode = "PULL"
)

// Fanout is the mode of a conversation with so many members: Pull above the limit.
func Fanout(members, pullAbove int32) FanoutMode {
	if members > pullAbove {
		return Pull
	}
	return Push
}

// Conversation is one conversation as one viewer sees it on one device, read
// from one snapshot. For a viewer who has left, Head, Title, Mode, ReceiptPolicy
// and LastActivityAt are those at the last event of their own membership.
type Conversation struct {
	ID             ConversationID
	Version        Version
	Kind           ConversationKind
	Title          *string
	Epoch          int32
	Head           Seq
	MinSeq         Seq
	Delivered      Seq
	Read           Seq
	ReadRevision   int32
	UnreadMessages int64
	UnreadMentions int32 // at most MaxMentionCount
	MarkedUnread   bool
	Pinned         bool
	Muted          bool
	Archived       bool
	Mode           FanoutMode
	ReceiptPolicy  ReceiptPolicy
	Membership     *Membership
	LastActivityAt DateTime
}

// Unread is the exact number of unread messages, or atMost if there are more.
// atMost must lie between 1 and 1,000,000.
func (c *Conversation) Unread(atMost *int32) (int32, error) {
	if atMost == nil {
		return Count(c.UnreadMessages), nil
	}
	if *atMost < 1 || *atMost > MaxAtMost {
		return 0, BadInput("atMost", fmt.Sprintf("atMost must lie between 1 and %d.", MaxAtMost))
	}
	return int32(min(c.UnreadMessages, int64(*atMost))), nil
}

// Count fits a number of rows into a GraphQL Int, which ends at 2^31 - 1.
func Count(n int64) int32 { return int32(min(n, 1<<31-1)) }

// Membership is the viewer's own.
type Membership struct {
	Active  bool
	Periods []*MembershipPeriod
}

// MembershipPeriod is an inclusive range of seqs, from the join to the leave.
// ToSeq is nil while the membership lasts.
type MembershipPeriod struct {
	FromSeq Seq
	ToSeq   *Seq
}

// ConversationRef is a conversation as the application's back end sees it.
type ConversationRef struct {
	ID          ConversationID
	Kind        ConversationKind
	Title       *string
	Head        Seq
	MemberCount int32
	// Mode and ReceiptPolicy are as in [Conversation].
	Mode          FanoutMode
	ReceiptPolicy ReceiptPolicy
}

// User is a person.
type User struct {
	ID   UserID
	Name *string
}

// Device is one place where a user is signed in.
type Device struct {
	ID           DeviceID
	UserID       UserID
	Name         *string
	InstallEpoch int32
	InstallID    *ID
	CreatedAt    DateTime
}

// Member is a present member of a conversation.
type Member struct {
	User     *User
	JoinedAt DateTime
}
