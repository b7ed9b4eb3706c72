package store

// What tests outside the package look at: the statements whose plans are held.
var (
	SQLBadges         = sqlBadges
	SQLInbox          = sqlInbox
	SQLConversations  = sqlConversations
	SQLChanged        = sqlChanged
	SQLReadEverything = sqlReadEverything
	SQLFirstMention   = sqlFirstMention
	SQLFirstUnread    = sqlFirstUnread
	SQLLastMessage    = sqlLastMessage
)

// SQLUnreadOfEach is the unread of each present conversation of the user $1, and
// in every row their sum, the badge.
var SQLUnreadOfEach = `
SELECT v.conv_id, v.unread, sum(v.unread) OVER ()::bigint FROM (
  SELECT m.conv_id, ` + sqlUnread + ` AS unread FROM ` + sqlViewed + ` WHERE m.user_id = $1 AND m.left_at IS NULL) v`

// The two statements of an append, for a test that lets something happen between them.
var (
	SQLLockForAppend = sqlLockForAppend
	SQLAppend        = sqlAppend
)
