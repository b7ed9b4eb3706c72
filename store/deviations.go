package store

import (
	"fmt"

	"tidemark/chat"
)

// sqlDeviations compares what is stored about conversation $1 with sqlTruth, and
// what the statements of everyday answer with plain counting.
var sqlDeviations = sqlTruth + sqlLogDeviations + `
UNION ALL` + sqlPositionDeviations + `
UNION ALL` + sqlMentionDeviations + `
ORDER BY 1, 2, 3`

// sqlLogDeviations: the log and its ordinals.
const sqlLogDeviations = `
SELECT 'M6', 'event ' || seq, 'is event number ' || true_seq || ' of the log' FROM log WHERE seq <> true_seq
UNION ALL
SELECT 'ordinals', 'event ' || seq, 'stored ' || message_ord || '/' || coalesce(sender_ord::text, '-') || ', counted ' || true_ord || '/' || coalesce(true_own::text, '-')
FROM log WHERE (message_ord, sender_ord) IS DISTINCT FROM (true_ord, true_own)
UNION ALL
SELECT 'M6', 'the conversation', 'head ' || c.head || ', the log ends at ' || t.head FROM conversations c, totals t WHERE c.conv_id = $1 AND c.head <> t.head
UNION ALL
SELECT 'ordinals', 'the conversation', 'message_ord, last_message_seq, last_withdrawn_seq stored ' || concat_ws(', ', c.message_ord, c.last_message_seq, c.last_withdrawn_seq)
  || '; counted ' || concat_ws(', ', t.message_ord, t.last_message_seq, t.last_withdrawn_seq)
FROM conversations c, totals t
WHERE c.conv_id = $1 AND (c.message_ord, c.last_message_seq, c.last_withdrawn_seq) IS DISTINCT FROM (t.message_ord, t.last_message_seq, t.last_withdrawn_seq)
UNION ALL
SELECT 'ordinals', 'the conversation', 'last_activity_seq and its time stored ' || c.last_activity_seq || ' ' || c.last_activity_at || '; counted ' || t.last_activity_seq || ' ' || coalesce(t.last_activity_at::text, 'none')
FROM conversations c, totals t
WHERE c.conv_id = $1 AND (c.last_activity_seq <> t.last_activity_seq OR c.last_activity_at <> t.last_activity_at)
UNION ALL
SELECT 'ordinals', 'user ' || user_id, 'past_activity_at stored ' || coalesce(past_activity_at::text, 'none') || ', counted ' || coalesce(true_past::text, 'none')
FROM past WHERE past_activity_at IS DISTINCT FROM true_past
UNION ALL
SELECT 'ordinals', 'the conversation', 'member_count stored ' || c.member_count || ', counted ' || n.n
FROM conversations c, (SELECT count(*) AS n FROM members WHERE conv_id = $1 AND left_at IS NULL) n WHERE c.conv_id = $1 AND c.member_count <> n.n
UNION ALL
SELECT 'ordinals', 'user ' || user_id, 'sent_ord stored ' || sent_ord || ', counted ' || true_sent FROM sent WHERE sent_ord <> true_sent
UNION ALL
SELECT 'ordinals', 'user ' || user_id, 'period from ' || from_seq || ' stored ' || concat_ws(', ', from_ord, from_own, to_ord, to_own)
  || '; counted ' || concat_ws(', ', true_from_ord, true_from_own, true_to_ord, true_to_own)
FROM periods WHERE (from_ord, from_own, to_ord, to_own) IS DISTINCT FROM (true_from_ord, true_from_own, true_to_ord, true_to_own)
UNION ALL
SELECT 'ordinals', 'user ' || m.user_id, 'former_periods stored ' || m.former_periods || ', counted ' || n.n
FROM members m CROSS JOIN LATERAL (SELECT count(*) AS n FROM membership_periods p WHERE p.user_id = m.user_id AND p.conv_id = m.conv_id) n
WHERE m.conv_id = $1 AND m.former_periods <> n.n
`

// sqlPositionDeviations: read and delivered positions, archives, and unread by
// ordinals against counting.
var sqlPositionDeviations = `
SELECT 'ordinals', 'user ' || user_id, 'read_ord, read_own stored ' || read_ord || ', ' || read_own || '; counted ' || true_ord || ', ' || true_own
FROM positions WHERE (read_ord, read_own) IS DISTINCT FROM (true_ord, true_own)
UNION ALL
SELECT 'M1', 'device ' || d.device_id, 'delivered ' || d.delivered_seq || ' lies beyond ' || coalesce(m.to_seq, c.head, 0)
FROM device_cursors d JOIN devices v USING (device_id)
LEFT JOIN members m ON m.user_id = v.user_id AND m.conv_id = d.conv_id LEFT JOIN conversations c ON c.conv_id = m.conv_id
WHERE d.conv_id = $1 AND d.delivered_seq > coalesce(m.to_seq, c.head, 0)
UNION ALL
SELECT 'M5', 'device ' || d.device_id, 'a cursor of install ' || d.install_epoch || ', but the device is at install ' || v.install_epoch
FROM device_cursors d JOIN devices v USING (device_id) WHERE d.conv_id = $1 AND d.install_epoch > v.install_epoch
UNION ALL
SELECT 'M2', 'user ' || r.user_id, 'read, seen, mention ' || concat_ws(', ', r.read_seq, r.seen_seq, r.mention_seq) || ' lie beyond ' || coalesce(m.to_seq, c.head, 0)
FROM positions r LEFT JOIN members m ON m.user_id = r.user_id AND m.conv_id = r.conv_id LEFT JOIN conversations c ON c.conv_id = m.conv_id
WHERE greatest(r.read_seq, r.seen_seq, r.mention_seq) > coalesce(m.to_seq, c.head, 0)
UNION ALL
SELECT 'M4', 'user ' || user_id, 'unread by ordinals ' || unread || ', counted ' || counted
FROM (
  SELECT m.user_id, ` + sqlUnread + ` AS unread,
    (SELECT count(*) FROM log e WHERE ` + unreadMessage("e") + `) AS counted
  FROM ` + sqlViewed + ` WHERE m.conv_id = $1) u
WHERE unread <> counted
UNION ALL
SELECT 'archive', 'user ' || user_id, CASE WHEN archived THEN 'archived, though ' ELSE 'not archived, though no ' END || 'messages of others came after ' || archived_at_seq
FROM (
  SELECT m.user_id, m.archived_at_seq, ` + sqlArchived + ` AS archived, NOT EXISTS (
    SELECT FROM log l JOIN stored_periods p ON p.user_id = m.user_id AND l.seq BETWEEN p.from_seq AND coalesce(p.to_seq, l.seq)
    WHERE l.kind = 1 AND l.sender <> m.user_id AND l.seq > m.archived_at_seq) AS lasts
  FROM ` + sqlViewed + ` WHERE m.conv_id = $1 AND m.archived_at_seq IS NOT NULL) a
WHERE archived <> lasts`

// sqlMentionDiffers: a row n of mentions is not what the log says, t.
const sqlMentionDiffers = `((n.sender, n.covered_by IS NOT NULL) IS DISTINCT FROM (t.sender, t.covered) OR n.since > t.since OR n.covered_by > t.since)`

// sqlMentionDeviations: the rows of mentions, which are as many as a message
// names, not as the conversation has members; and unread mentions by those rows
// against counting in the log.
var sqlMentionDeviations = `
SELECT 'M9', 'event ' || seq, 'has ' || count(*) || ' rows of mentions' FROM mentions WHERE conv_id = $1
GROUP BY seq HAVING count(*) > ` + fmt.Sprint(chat.MaxMentions+1) + `
UNION ALL
SELECT 'mentions', 'event ' || coalesce(n.seq, t.seq), CASE WHEN n.seq IS NULL THEN 'no row' WHEN t.seq IS NULL THEN 'a row too much' ELSE 'a wrong row' END
  || ' for ' || CASE coalesce(n.user_id, t.user_id) WHEN '' THEN 'everybody' ELSE coalesce(n.user_id, t.user_id) END
FROM (SELECT * FROM mentions WHERE conv_id = $1) n FULL JOIN mentioned t ON t.user_id = n.user_id AND t.seq = n.seq
WHERE ` + sqlMentionDiffers + `
UNION ALL
SELECT 'mentions', 'the conversation', 'last_mention_seq stored ' || c.last_mention_seq || ', but event ' || t.seq || ' mentions somebody'
FROM conversations c, (SELECT max(seq) AS seq FROM mentioned) t WHERE c.conv_id = $1 AND c.last_mention_seq < t.seq
UNION ALL
SELECT 'M4', 'user ' || user_id, 'unread mentions by their rows ' || mentions || ', counted ' || counted
FROM (
  SELECT m.user_id, ` + sqlMentions + ` AS mentions,
    least(` + maxMentions + `, (SELECT count(*) FROM log e
      WHERE CASE WHEN m.left_at IS NULL THEN e.mentions_all OR m.user_id = ANY(e.mention_ids) ELSE EXISTS (
          SELECT FROM mentions n WHERE n.conv_id = $1 AND n.seq = e.seq AND n.user_id IN (m.user_id, '') AND n.since <= m.to_seq) END
        AND e.seq > coalesce(rp.mention_seq, 0) AND ` + countable("e") + `)) AS counted
  FROM ` + sqlViewed + ` WHERE m.conv_id = $1) u
WHERE mentions <> counted`

// sqlReceiptDeviations: the receipts of the newest 100 messages, counted in one
// pass against counting each by itself over everybody who was ever a member.
func sqlReceiptDeviations(p position) string {
	cap, has := "seen_cap", `(SELECT r.seen_seq FROM read_positions r WHERE r.user_id = u.user_id AND r.conv_id = $1)`
	if p == deliveries {
		cap, has = "delivered_cap", `(SELECT max(d.delivered_seq) FROM devices v JOIN device_cursors d USING (device_id, install_epoch)
          WHERE v.user_id = u.user_id AND v.revoked_at IS NULL AND d.conv_id = $1)`
	}
	return `
SELECT 'receipts', 'event ' || f.seq, '` + string(p) + ` in one pass ' || f.has || ' of ' || f.audience || ', one by one ' || n.has || ' of ' || n.audience
FROM (
  WITH rows AS MATERIALIZED (` + receiptCounts(`
asked_of AS MATERIALIZED (
  SELECT e.conv_id, e.seq, e.sender, c.member_count, false AS large, c.receipt_policy FROM events e JOIN conversations c USING (conv_id)
  WHERE e.conv_id = $1 AND e.kind = 1 ORDER BY e.seq DESC LIMIT 100)`, p, "true") + `)
  SELECT m.from_seq AS seq, coalesce(sum(sign * x.n), 0)::bigint AS audience, coalesce(sum(sign * x.n) FILTER (WHERE x.has >= m.from_seq), 0)::bigint AS has
  FROM rows m LEFT JOIN (SELECT r.*, CASE r.sort WHEN 1 THEN 1 ELSE -1 END AS sign FROM rows r WHERE r.sort > 0) x
    ON m.from_seq BETWEEN x.from_seq AND x.to_seq AND (x.sort = 1 OR x.user_id = m.user_id)
  WHERE m.sort = 0 GROUP BY 1) f
CROSS JOIN LATERAL (
  SELECT count(*) AS audience, count(*) FILTER (WHERE coalesce(q.cap, ` + has + `, 0) >= f.seq) AS has
  FROM users u
  JOIN (SELECT user_id, from_seq, to_seq, NULL::bigint AS cap FROM members WHERE conv_id = $1
        UNION ALL SELECT user_id, from_seq, to_seq, ` + cap + ` FROM membership_periods WHERE conv_id = $1) q
    ON q.user_id = u.user_id AND f.seq >= q.from_seq AND (q.to_seq IS NULL OR f.seq <= q.to_seq)
  WHERE u.erased_at IS NULL AND u.user_id <> (SELECT sender FROM events WHERE conv_id = $1 AND seq = f.seq)
    AND (u.shares_reads OR (SELECT receipt_policy FROM conversations WHERE conv_id = $1) = 'REQUIRED')) n
WHERE (f.has, f.audience) <> (n.has, n.audience) OR f.has > f.audience`
}

// sqlStrays: what belongs to nothing, over the whole database.
const sqlStrays = `
SELECT 'M6', e.conv_id, 'the conversation', 'has events but no row' FROM (SELECT DISTINCT conv_id FROM events) e
WHERE NOT EXISTS (SELECT FROM conversations c WHERE c.conv_id = e.conv_id)
UNION ALL
SELECT 'M2', r.conv_id, 'user ' || r.user_id, 'has a read position but never was a member' FROM read_positions r
WHERE NOT EXISTS (SELECT FROM members m WHERE m.user_id = r.user_id AND m.conv_id = r.conv_id)
UNION ALL
SELECT 'M1', d.conv_id, 'device ' || d.device_id, 'has a cursor but does not exist' FROM device_cursors d
WHERE NOT EXISTS (SELECT FROM devices v WHERE v.device_id = d.device_id)
UNION ALL
SELECT 'erasure', '', 'user ' || u.user_id, 'was erased, but there is still ' || x.what
FROM users u CROSS JOIN LATERAL (
  SELECT 'a name' AS what WHERE u.name IS NOT NULL
  UNION ALL SELECT 'a device' WHERE EXISTS (SELECT FROM devices d WHERE d.user_id = u.user_id)
  UNION ALL SELECT 'how far a hidden period was seen' WHERE EXISTS (
    SELECT FROM membership_periods p WHERE p.user_id = u.user_id AND (p.seen_cap > 0 OR p.delivered_cap > 0))
  UNION ALL SELECT 'a read position' WHERE EXISTS (SELECT FROM read_positions r WHERE r.user_id = u.user_id)
  UNION ALL SELECT 'a membership' WHERE EXISTS (SELECT FROM members m WHERE m.user_id = u.user_id AND m.left_at IS NULL)
  UNION ALL SELECT 'a message' WHERE EXISTS (
    SELECT FROM members m JOIN events e ON e.conv_id = m.conv_id AND e.sender = m.user_id AND e.kind = 1 WHERE m.user_id = u.user_id AND (e.content_hash <> '' OR e.withdrawn_kind IS NULL))
  UNION ALL SELECT 'a mention' WHERE EXISTS (
    SELECT FROM members m JOIN mentions n ON n.conv_id = m.conv_id AND n.user_id = m.user_id WHERE m.user_id = u.user_id)) x
WHERE u.erased_at IS NOT NULL
ORDER BY 1, 2, 3`
