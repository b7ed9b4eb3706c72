package store

// The fragments below are the one SQL definition of what a viewer sees and of
// what is unread. They stand over these names: m, the viewer's row of members;
// c, its conversation; rp, the viewer's row of read_positions, which may be
// missing.

// visible: the seq, a column such as e.seq, lies in a visible period of the
// viewer. The newest period is in the member row; the others are looked up only
// where there are any.
func visible(seq string) string {
	return `(` + seq + ` BETWEEN m.from_seq AND coalesce(m.to_seq, c.head)
 OR m.former_periods > 0 AND EXISTS (
   SELECT FROM membership_periods p
   WHERE p.user_id = m.user_id AND p.conv_id = m.conv_id AND NOT p.hidden AND ` + seq + ` BETWEEN p.from_seq AND p.to_seq))`
}

// behind: the seq lies behind a position of the viewer, and behind where what they
// may see begins, if that is in the member row: the bound that an index range begins with.
func behind(seq, position string) string {
	return seq + ` > greatest(coalesce(` + position + `, 0), CASE WHEN m.former_periods = 0 THEN m.from_seq ELSE 0 END)`
}

// ofAnother: e, a row of events, is a message of somebody else that is not withdrawn.
func ofAnother(e string) string {
	return e + `.kind = 1 AND ` + e + `.withdrawn_kind IS NULL AND ` + e + `.sender <> m.user_id`
}

// countable: e, a row of events, is a message that can count as unread for the
// viewer: of somebody else, not withdrawn, and theirs to see.
func countable(e string) string {
	return ofAnother(e) + ` AND ` + visible(e+".seq")
}

// unreadMessage: e, a row of events, is an unread message of the viewer.
func unreadMessage(e string) string {
	return countable(e) + ` AND ` + behind(e+".seq", "rp.read_seq")
}

// sqlUnread: how many rows are an [unreadMessage], by ordinals: messages after
// the read position, summed over the visible periods, less the user's own, less
// the withdrawn ones of others. It reads no event but withdrawn ones
// (events_withdrawn, index only), and those only if something beyond the read
// position was ever withdrawn. The formula is chat.UnreadByOrdinals.
var sqlUnread = `
greatest(0,
  greatest(0, coalesce(m.to_ord, c.message_ord) - greatest(m.from_ord, coalesce(rp.read_ord, 0)))
  - greatest(0, coalesce(m.to_own, m.sent_ord) - greatest(m.from_own, coalesce(rp.read_own, 0)))
  + CASE WHEN m.former_periods = 0 THEN 0 ELSE (
      SELECT coalesce(sum(greatest(0, p.to_ord - greatest(p.from_ord, coalesce(rp.read_ord, 0)))
                        - greatest(0, p.to_own - greatest(p.from_own, coalesce(rp.read_own, 0)))), 0)::bigint
      FROM membership_periods p WHERE p.user_id = m.user_id AND p.conv_id = m.conv_id AND NOT p.hidden) END
  - CASE WHEN c.last_withdrawn_seq <= coalesce(rp.read_seq, 0) THEN 0 ELSE (
      SELECT count(*) FROM events e
      WHERE e.conv_id = m.conv_id AND e.withdrawn_kind IS NOT NULL AND e.sender <> m.user_id
        AND ` + behind("e.seq", "rp.read_seq") + ` AND ` + visible("e.seq") + `) END)`

// sqlPeriods: the visible periods of the viewer as rows (from_seq, to_seq),
// to_seq of an open one being head.
const sqlPeriods = `(
  SELECT m.from_seq, coalesce(m.to_seq, c.head) AS to_seq
  UNION ALL
  SELECT p.from_seq, p.to_seq FROM membership_periods p
  WHERE m.former_periods > 0 AND p.user_id = m.user_id AND p.conv_id = m.conv_id AND NOT p.hidden)`

// sqlViewed: the viewer's member rows with what they are joined to. $1 is the
// viewer. From one index range of members on, one probe by primary key after the
// other: OFFSET 0 keeps the planner from turning these into joins, and so from plans that
// read a table as a whole. Those look good where a table is small, or users have many
// conversations on average, and a prepared statement would keep one for everybody.
const sqlViewed = `
members m` + viewedJoins

// viewedJoins: what a member row m is joined to.
const viewedJoins = theirConversation + `
LEFT JOIN LATERAL (SELECT * FROM read_positions rp WHERE rp.user_id = m.user_id AND rp.conv_id = m.conv_id OFFSET 0) rp ON true`

const theirConversation = `
CROSS JOIN LATERAL (SELECT * FROM conversations c WHERE c.conv_id = m.conv_id OFFSET 0) c`

// everythingOf: the same rows where all of a user's are looked at: one range of
// members and one of read_positions, which together cost less than a probe for each
// row, then a probe for each conversation. The FULL JOIN leaves the planner no nested
// loop over both ranges. A position without a member row finds no conversation. What
// is asked of a member row must be asked outside, or an index for others would do.
func everythingOf(user string) string {
	return `
(SELECT * FROM members WHERE user_id = ` + user + ` OFFSET 0) m
FULL JOIN (SELECT * FROM read_positions WHERE user_id = ` + user + ` OFFSET 0) rp ON rp.conv_id = m.conv_id` + theirConversation
}

// UnreadOfEach is the statement that benchmarks compare with counting: the unread
// of each present conversation of the user $1, as arrays, and their sum.
var UnreadOfEach = `
SELECT array_agg(v.conv_id), array_agg(v.unread), sum(v.unread)::bigint FROM (
  SELECT m.conv_id, ` + sqlUnread + ` AS unread FROM ` + everythingOf("$1") + ` WHERE m.left_at IS NULL OFFSET 0) v`
