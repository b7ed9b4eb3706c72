package chat

// Badge is the number on the app's icon, over the conversations that count: the
// viewer is a member, and they are not archived.
type Badge struct {
	Version Version
	// Unread is the sum of unread over those that are not muted, plus
	// min(unread, mentions) of those that are.
	Unread int32
	// Mentions is the sum of unread mentions.
	Mentions int32
	// Conversations is how many ask for attention, see [Counts.Attention].
	Conversations int32
	// MutedUnread is the sum of unread over the muted ones.
	MutedUnread int32
}

// Counts is what a conversation that counts adds to its viewer's badge.
type Counts struct {
	Unread, Mentions    int64
	Muted, MarkedUnread bool
}

// Counts is what the conversation adds to its viewer's badge; ok says whether it
// counts there.
func (c *Conversation) Counts() (counts Counts, ok bool) {
	return Counts{Unread: c.UnreadMessages, Mentions: int64(c.UnreadMentions), Muted: c.Muted, MarkedUnread: c.MarkedUnread},
		c.Membership.Active && !c.Archived
}

// Attention reports whether the conversation asks for attention: with anything
// unread, a mention or the reminder flag; a muted one with a mention only.
func (c Counts) Attention() bool {
	if c.Muted {
		return c.Mentions > 0
	}
	return c.Unread > 0 || c.Mentions > 0 || c.MarkedUnread
}

// SumBadge adds up the badge from its rows, plainly. Its Version is not set.
func SumBadge(rows []Counts) Badge {
	var unread, mentions, conversations, muted int64
	for _, c := range rows {
		mentions += c.Mentions
		if c.Muted {
			unread += min(c.Unread, c.Mentions)
			muted += c.Unread
		} else {
			unread += c.Unread
		}
		if c.Attention() {
			conversations++
		}
	}
	return Badge{Unread: Count(unread), Mentions: Count(mentions), Conversations: Count(conversations), MutedUnread: Count(muted)}
}

// Plus is the badge of b's rows and others together. The version stays b's.
func (b Badge) Plus(others Badge) Badge {
	b.Unread = Count(int64(b.Unread) + int64(others.Unread))
	b.Mentions = Count(int64(b.Mentions) + int64(others.Mentions))
	b.Conversations = Count(int64(b.Conversations) + int64(others.Conversations))
	b.MutedUnread = Count(int64(b.MutedUnread) + int64(others.MutedUnread))
	return b
}
