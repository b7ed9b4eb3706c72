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
