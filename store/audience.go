package store

// The fragments below are the one SQL definition of who has to do with a
// message's receipt. They are CTEs over a CTE asked (conv_id): the conversations
// that are asked about.

// sqlAudience: audience has a row for each membership period of each user whom
// receipts may tell of: from_seq to to_seq, both inclusive, seen and received how
// far they count as having read and received in it, seen_at, and whether they
// are a member now (present). A user is in the audience of a message if one of
// their periods holds it and they did not send it: chat.InAudience, chat.HasRead.
// Erased users are in none, nor are those who do not share, unless the policy is
// REQUIRED. In a hidden period counts what was so when it was hidden. By the
// indexes on conv_id, then primary keys: as many rows as the conversations ever
// had members.
var sqlAudience = `
periods AS MATERIALIZED (
  SELECT m.conv_id, m.user_id, m.from_seq, NULL::bigint AS to_seq, NULL::bigint AS seen_cap, NULL::bigint AS delivered_cap, true AS present
  FROM asked JOIN members m ON m.conv_id = asked.conv_id AND m.left_at IS NULL
  UNION ALL
  SELECT m.conv_id, m.user_id, m.from_seq, m.to_seq, NULL, NULL, false
  FROM asked JOIN members m ON m.conv_id = asked.conv_id AND m.left_at IS NOT NULL
  UNION ALL
  SELECT p.conv_id, p.user_id, p.from_seq, p.to_seq, p.seen_cap, p.delivered_cap, m.left_at IS NULL
  FROM asked JOIN membership_periods p ON p.conv_id = asked.conv_id JOIN members m ON m.user_id = p.user_id AND m.conv_id = p.conv_id),
audience AS MATERIALIZED (
  SELECT p.conv_id, p.user_id, u.name, p.from_seq, coalesce(p.to_seq, 9223372036854775807) AS to_seq,
    coalesce(p.seen_cap, r.seen_seq, 0) AS seen, r.seen_at, p.delivered_cap, p.present
  FROM periods p
  JOIN conversations c ON c.conv_id = p.conv_id
  JOIN users u ON u.user_id = p.user_id AND u.erased_at IS NULL AND (u.shares_reads OR c.receipt_policy = 'REQUIRED')
  LEFT JOIN read_positions r ON r.user_id = p.user_id AND r.conv_id = p.conv_id)`

// sqlReceived: received has how far any device of a user has received, at its
// present install; devices that were revoked do not count. By the index on conv_id.
const sqlReceived = `
received AS MATERIALIZED (
  SELECT dc.conv_id, d.user_id, max(dc.delivered_seq) AS seq
  FROM asked JOIN device_cursors dc ON dc.conv_id = asked.conv_id
  JOIN devices d ON d.device_id = dc.device_id AND d.install_epoch = dc.install_epoch AND d.revoked_at IS NULL
  GROUP BY dc.conv_id, d.user_id)`
