package store_test

// countingQuery is the plain reference for unread: it counts the events after
// the read position, one by one. $1 is a prefix of conversation ids.
const countingQuery = `
SELECT m.user_id, m.conv_id, m.left_at IS NULL, count(e.seq)
FROM members m
LEFT JOIN read_positions rp ON rp.user_id = m.user_id AND rp.conv_id = m.conv_id
LEFT JOIN events e ON e.conv_id = m.conv_id AND e.kind = 1 AND e.withdrawn_kind IS NULL AND e.sender <> m.user_id
  AND e.seq > coalesce(rp.read_seq, 0)
  AND (e.seq >= m.from_seq AND (m.to_seq IS NULL OR e.seq <= m.to_seq)
       OR EXISTS (SELECT FROM membership_periods p WHERE p.user_id = m.user_id AND p.conv_id = m.conv_id
                  AND NOT p.hidden AND e.seq >= p.from_seq AND e.seq <= p.to_seq))
WHERE m.conv_id LIKE $1 || '%'
GROUP BY 1, 2, 3`
