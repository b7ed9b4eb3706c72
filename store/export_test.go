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
	SQLInboxFiltered  = sqlInboxFiltered
	SQLReceiptReads   = sqlReceiptCounts[reads]
	SQLReceiptGot     = sqlReceiptCounts[deliveries]
	SQLReaders        = sqlReaders
	SQLWatched        = sqlWatchedPositions
	SQLAck            = sqlAck
	SQLMarkRead       = sqlMarkRead
)

// The two statements of an append, for a test that lets something happen between them.
var (
	SQLLockForAppend = sqlLockForAppend
	SQLAppend        = sqlAppend
)
