package store

// What tests outside the package look at: the statements whose plans are held.
var (
	SQLBadge = sqlBadge
	SQLInbox = sqlInbox
)
