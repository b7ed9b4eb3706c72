package store

import (
	"strconv"

	"tidemark/chat"
)

// A message that mentions all has one row under the empty id, which no user can
// have, whatever the number of members.

// mentionsOf: the rows of mentions of user, an expression, that count for the
// viewer: of messages of others that they may see, after the mention position, and
// not made by an edit after the viewer had left.
// Withdrawn messages have no rows. One index-only range; over the names of unread.go.
func mentionsOf(user string) string {
	return `mentions n
  WHERE n.conv_id = m.conv_id AND n.user_id = ` + user + ` AND ` + behind("n.seq", "rp.mention_seq") + `
    AND n.sender <> m.user_id AND n.since <= coalesce(m.to_seq, c.head)
    AND (n.covered_by IS NULL OR n.covered_by > coalesce(m.to_seq, c.head)) AND ` + visible("n.seq")
}

// sqlMentions: how many messages mention the viewer, by name or with all. A name
// in a message that mentions all is covered by the row of all, so that each
// message counts once. Counting stops at chat.MaxMentionCount; nothing is read
// unless something beyond the position ever mentioned anybody.
var sqlMentions = `
CASE WHEN c.last_mention_seq <= coalesce(rp.mention_seq, 0) THEN 0 ELSE
  least(` + maxMentions + `, (SELECT count(*) FROM (SELECT FROM ` + mentionsOf("m.user_id") + ` LIMIT ` + maxMentions + `) named)
    + (SELECT count(*) FROM (SELECT FROM ` + mentionsOf("''") + ` LIMIT ` + maxMentions + `) everybody)) END`

var maxMentions = strconv.Itoa(chat.MaxMentionCount)
