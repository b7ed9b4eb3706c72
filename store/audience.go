package store

// audience is the one SQL definition of who has to do with a message's receipt:
// CTEs over a CTE asked (conv_id), the conversations that are asked about, each
// with its receipt_policy.
//
// audience has a row for each membership period of each user whom receipts may
// tell of: from_seq to to_seq, both inclusive, seen and got how far they count as
// having read and received in it, seen_at, and whether they are a member now
// (present). A user is in the audience of a message if one of their periods holds
// it and they did not send it: chat.InAudience, chat.HasRead. Erased users are in
// none, nor are those who do not share, unless the policy is REQUIRED. In a hidden
// period counts what was so when it was hidden. What any device has received at
// its present install, if it was not revoked, is received; it is looked for only
// with deliveries. sent tells the users whom the statement senders (conv_id, user_id) names.
// kept are rows that a statement looks at more than once; else they need not be stored.
//
// By the indexes on conv_id: as many rows as the conversations ever had members.
// They are put together by FULL JOINs, which leave the planner no nested loop whatever
// it expects, and so no product. Former periods, which are few, are looked up one by one,
// and so is whether a user is one of those whom receipts do not tell of: users_apart
// holds only them, so that for all others the probe ends in the index.
func audience(deliveries, kept bool, senders string) string {
	stored := ""
	if kept {
		stored = "MATERIALIZED "
	}
	received, got, formerlyGot := "", "0::bigint", "0::bigint"
	if deliveries {
		received = `
  FULL JOIN (
    SELECT dc.conv_id, d.user_id, max(dc.delivered_seq) AS got FROM asked
    CROSS JOIN LATERAL (SELECT * FROM device_cursors dc WHERE dc.conv_id = asked.conv_id OFFSET 0) dc
    CROSS JOIN LATERAL (
      SELECT d.user_id FROM devices d WHERE d.device_id = dc.device_id AND d.install_epoch = dc.install_epoch AND d.revoked_at IS NULL OFFSET 0) d
    GROUP BY 1, 2) g ON g.conv_id = m.conv_id AND g.user_id = m.user_id`
		got, formerlyGot = `coalesce(g.got, 0)`, `coalesce((
    SELECT max(dc.delivered_seq) FROM devices d JOIN device_cursors dc USING (device_id, install_epoch)
    WHERE d.user_id = p.user_id AND d.revoked_at IS NULL AND dc.conv_id = p.conv_id), 0)`
	}
	sent := func(of string) string {
		if senders == "" {
			return "false"
		}
		return `(` + of + `.conv_id, ` + of + `.user_id) IN (` + senders + `)`
	}
	return `
known AS (
  SELECT m.conv_id, m.user_id, m.from_seq, m.to_seq, NULL::bigint AS seen_cap, NULL::bigint AS delivered_cap, m.to_seq IS NULL AS present,
    r.seen_seq, r.seen_at, ` + got + ` AS got, ` + sent("m") + ` AS sent
  FROM (
    SELECT m.* FROM asked CROSS JOIN LATERAL (
      SELECT conv_id, user_id, from_seq, to_seq FROM members m WHERE m.conv_id = asked.conv_id AND m.left_at IS NULL
      UNION ALL
      SELECT conv_id, user_id, from_seq, to_seq FROM members m WHERE m.conv_id = asked.conv_id AND m.left_at IS NOT NULL OFFSET 0) m) m
  FULL JOIN (
    SELECT r.* FROM asked CROSS JOIN LATERAL (SELECT conv_id, user_id, seen_seq, seen_at FROM read_positions r WHERE r.conv_id = asked.conv_id OFFSET 0) r) r
    ON r.conv_id = m.conv_id AND r.user_id = m.user_id` + received + `
  WHERE coalesce(m.from_seq, 0) > 0 -- and not IS NOT NULL, which would turn the FULL JOINs into others
  UNION ALL
  SELECT p.conv_id, p.user_id, p.from_seq, p.to_seq, p.seen_cap, p.delivered_cap, m.left_at IS NULL, r.seen_seq, r.seen_at, ` + formerlyGot + `, ` + sent("p") + `
  FROM asked CROSS JOIN LATERAL (SELECT * FROM membership_periods p WHERE p.conv_id = asked.conv_id OFFSET 0) p
  CROSS JOIN LATERAL (SELECT * FROM members m WHERE m.user_id = p.user_id AND m.conv_id = p.conv_id OFFSET 0) m
  LEFT JOIN LATERAL (SELECT * FROM read_positions r WHERE r.user_id = p.user_id AND r.conv_id = p.conv_id OFFSET 0) r ON true),
audience AS ` + stored + `(
  SELECT k.conv_id, k.user_id, k.from_seq, coalesce(k.to_seq, 9223372036854775807) AS to_seq,
    coalesce(k.seen_cap, k.seen_seq, 0) AS seen, k.seen_at, coalesce(k.delivered_cap, k.got) AS got, k.present, k.sent
  FROM known k
  WHERE NOT EXISTS (
    SELECT FROM users u WHERE u.user_id = k.user_id AND (u.erased_at IS NOT NULL OR NOT u.shares_reads)
      AND (u.erased_at IS NOT NULL OR NOT EXISTS (SELECT FROM asked WHERE asked.conv_id = k.conv_id AND asked.receipt_policy = 'REQUIRED')) OFFSET 0))`
}
