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
//
// By the indexes on conv_id: as many rows as the conversations ever had members,
// put together by grouping, so that no estimate can make a product of it; then one
// probe of users each. Former periods, which are few, are looked up one by one.
func audience(deliveries bool, senders string) string {
	received, formerlyReceived := "", "0::bigint"
	if deliveries {
		received = `
    UNION ALL
    SELECT dc.conv_id, d.user_id, NULL, NULL, NULL, NULL, NULL, dc.delivered_seq, NULL
    FROM asked JOIN device_cursors dc ON dc.conv_id = asked.conv_id
    CROSS JOIN LATERAL (
      SELECT d.user_id FROM devices d WHERE d.device_id = dc.device_id AND d.install_epoch = dc.install_epoch AND d.revoked_at IS NULL LIMIT 1) d`
		formerlyReceived = `coalesce((
    SELECT max(dc.delivered_seq) FROM devices d JOIN device_cursors dc USING (device_id, install_epoch)
    WHERE d.user_id = p.user_id AND d.revoked_at IS NULL AND dc.conv_id = p.conv_id), 0)`
	}
	formerlySent := "false"
	if senders != "" {
		formerlySent = `EXISTS (SELECT FROM (` + senders + `) s WHERE s.conv_id = p.conv_id AND s.user_id = p.user_id)`
		senders = `
    UNION ALL
    SELECT s.conv_id, s.user_id, NULL, NULL, NULL, NULL, NULL, NULL, true FROM (` + senders + `) s`
	}
	return `
known AS MATERIALIZED (
  SELECT x.conv_id, x.user_id, max(x.from_seq) AS from_seq, max(x.to_seq) AS to_seq, NULL::bigint AS seen_cap, NULL::bigint AS delivered_cap,
    bool_or(x.present) AS present, max(x.seen_seq) AS seen_seq, max(x.seen_at) AS seen_at, coalesce(max(x.got), 0) AS got, coalesce(bool_or(x.sent), false) AS sent
  FROM (
    SELECT m.conv_id, m.user_id, m.from_seq, NULL::bigint AS to_seq, true AS present,
      NULL::bigint AS seen_seq, NULL::timestamptz AS seen_at, NULL::bigint AS got, NULL::boolean AS sent
    FROM asked JOIN members m ON m.conv_id = asked.conv_id AND m.left_at IS NULL
    UNION ALL
    SELECT m.conv_id, m.user_id, m.from_seq, m.to_seq, false, NULL, NULL, NULL, NULL
    FROM asked JOIN members m ON m.conv_id = asked.conv_id AND m.left_at IS NOT NULL
    UNION ALL
    SELECT r.conv_id, r.user_id, NULL, NULL, NULL, r.seen_seq, r.seen_at, NULL, NULL
    FROM asked JOIN read_positions r ON r.conv_id = asked.conv_id` + received + senders + `) x
  GROUP BY 1, 2
  UNION ALL
  SELECT p.conv_id, p.user_id, p.from_seq, p.to_seq, p.seen_cap, p.delivered_cap, m.left_at IS NULL, r.seen_seq, r.seen_at, ` + formerlyReceived + `, ` + formerlySent + `
  FROM asked JOIN membership_periods p ON p.conv_id = asked.conv_id
  CROSS JOIN LATERAL (SELECT * FROM members m WHERE m.user_id = p.user_id AND m.conv_id = p.conv_id OFFSET 0) m
  LEFT JOIN LATERAL (SELECT * FROM read_positions r WHERE r.user_id = p.user_id AND r.conv_id = p.conv_id OFFSET 0) r ON true),
audience AS MATERIALIZED (
  SELECT k.conv_id, k.user_id, u.name, k.from_seq, coalesce(k.to_seq, 9223372036854775807) AS to_seq,
    coalesce(k.seen_cap, k.seen_seq, 0) AS seen, k.seen_at, coalesce(k.delivered_cap, k.got) AS got, k.present, k.sent
  FROM known k
  CROSS JOIN LATERAL (SELECT * FROM users u WHERE u.user_id = k.user_id OFFSET 0) u
  WHERE k.from_seq IS NOT NULL AND u.erased_at IS NULL
    AND (u.shares_reads OR EXISTS (SELECT FROM asked WHERE asked.conv_id = k.conv_id AND asked.receipt_policy = 'REQUIRED')))`
}
