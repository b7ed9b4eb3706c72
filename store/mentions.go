package store

import "tidemark/chat"

// everybody is whom a row of mentions names when the message mentions all: no
// user has an empty id. There is one such row, whatever the number of members.
const everybody = chat.UserID("")

// mentionsOf: the rows of mentions of user, an expression, that count for the
// viewer: of messages of others that they may see, after the mention position.
// Withdrawn messages have no rows. One index-only range; over the names of unread.go.
func mentionsOf(user string) string {
	return `mentions n
  WHERE n.conv_id = m.conv_id AND n.user_id = ` + user + ` AND n.seq > coalesce(rp.mention_seq, 0)
    AND n.sender <> m.user_id AND NOT n.covered AND ` + visible("n.seq")
}

// sqlMentions: how many messages mention the viewer, by name or with all. A name
// in a message that mentions all is covered by the row of all, so that each
// message counts once. Counting stops at chat.MaxMentionCount, which bounds what is
// read, and nothing is read unless something beyond the position ever mentioned anybody.
var sqlMentions = `
CASE WHEN c.last_mention_seq <= coalesce(rp.mention_seq, 0) THEN 0 ELSE
  least(999, (SELECT count(*) FROM (SELECT FROM ` + mentionsOf("m.user_id") + ` LIMIT 999) named)
    + (SELECT count(*) FROM (SELECT FROM ` + mentionsOf("''") + ` LIMIT 999) everybody)) END`

// sqlFirstMention: per conversation of the page $2, the first rows of the same two ranges.
var sqlFirstMention = `
SELECT ` + sqlEventColumns + `
FROM ` + sqlViewed + `
CROSS JOIN LATERAL (
  SELECT least((SELECT n.seq FROM ` + mentionsOf("m.user_id") + ` ORDER BY n.seq LIMIT 1),
               (SELECT n.seq FROM ` + mentionsOf("''") + ` ORDER BY n.seq LIMIT 1)) AS seq) f
JOIN events e ON e.conv_id = m.conv_id AND e.seq = f.seq ` + sqlEventJoins + `
WHERE m.user_id = $1 AND m.conv_id = ANY($2) AND c.last_mention_seq > coalesce(rp.mention_seq, 0)`
