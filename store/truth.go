package store

// sqlTruth counts everything anew from the log of conversation $1: the position
// and the ordinals of each event (log), and what follows for the conversation
// (totals), for each period (periods), each member (sent, past), each read
// position (positions) and for who is mentioned where (mentioned).
const sqlTruth = `
WITH log AS MATERIALIZED (
  SELECT e.*, row_number() OVER w AS true_seq, count(*) FILTER (WHERE kind = 1) OVER w AS true_ord,
    CASE WHEN kind = 1 THEN count(*) FILTER (WHERE kind = 1) OVER (PARTITION BY sender ORDER BY seq) END AS true_own
  FROM events e WHERE conv_id = $1 WINDOW w AS (ORDER BY seq)),
totals AS MATERIALIZED (
  SELECT count(*) AS head, count(*) FILTER (WHERE kind = 1) AS message_ord,
    coalesce(max(seq) FILTER (WHERE kind = 1), 0) AS last_message_seq,
    coalesce(max(seq) FILTER (WHERE kind IN (1, 6)), 0) AS last_activity_seq,
    max(at) FILTER (WHERE kind IN (1, 6)) AS last_activity_at,
    coalesce(max(seq) FILTER (WHERE withdrawn_kind IS NOT NULL), 0) AS last_withdrawn_seq FROM log),
stored_periods AS MATERIALIZED (
  SELECT user_id, from_seq, to_seq, from_ord, from_own, to_ord, to_own, true AS newest FROM members WHERE conv_id = $1
  UNION ALL
  SELECT user_id, from_seq, to_seq, from_ord, from_own, to_ord, to_own, false FROM membership_periods WHERE conv_id = $1),
periods AS MATERIALIZED (
  SELECT p.*, coalesce(f.true_ord, 0) AS true_from_ord, CASE WHEN p.to_seq IS NOT NULL THEN coalesce(t.true_ord, 0) END AS true_to_ord,
    o.from_own AS true_from_own, CASE WHEN p.to_seq IS NOT NULL THEN o.to_own END AS true_to_own
  FROM stored_periods p
  JOIN (SELECT q.user_id, q.from_seq, count(*) FILTER (WHERE l.seq < q.from_seq) AS from_own, count(*) FILTER (WHERE l.seq <= q.to_seq) AS to_own
        FROM stored_periods q LEFT JOIN log l ON l.kind = 1 AND l.sender = q.user_id GROUP BY 1, 2) o USING (user_id, from_seq)
  LEFT JOIN log f ON f.seq = p.from_seq - 1
  LEFT JOIN log t ON t.seq = p.to_seq),
positions AS MATERIALIZED (
  SELECT r.*, coalesce(l.true_ord, 0) AS true_ord, o.own AS true_own
  FROM read_positions r
  JOIN (SELECT q.user_id, count(l.seq) AS own FROM read_positions q
        LEFT JOIN log l ON l.kind = 1 AND l.sender = q.user_id AND l.seq <= q.read_seq
        WHERE q.conv_id = $1 GROUP BY 1) o USING (user_id)
  LEFT JOIN log l ON l.seq = r.read_seq WHERE r.conv_id = $1),
sent AS MATERIALIZED (
  SELECT m.user_id, m.sent_ord, count(l.seq) AS true_sent FROM members m
  LEFT JOIN log l ON l.kind = 1 AND l.sender = m.user_id WHERE m.conv_id = $1 GROUP BY 1, 2),
past AS MATERIALIZED (
  SELECT m.user_id, m.past_activity_at, (
    SELECT max(l.at) FROM log l WHERE l.kind IN (1, 6) AND (l.seq BETWEEN m.from_seq AND m.to_seq OR EXISTS (
      SELECT FROM membership_periods p WHERE p.user_id = m.user_id AND p.conv_id = $1 AND NOT p.hidden AND l.seq BETWEEN p.from_seq AND p.to_seq))) AS true_past
  FROM members m WHERE m.conv_id = $1),
mentioned AS MATERIALIZED (
  SELECT u.user_id, l.seq, l.sender, l.mentions_all AS covered, l.since FROM (
    SELECT l.*, greatest(l.seq, (SELECT max(x.seq) FROM events x WHERE x.conv_id = $1 AND x.kind = 5 AND x.target_seq = l.seq)) AS since FROM log l) l CROSS JOIN LATERAL unnest(l.mention_ids) AS u(user_id)
  WHERE l.kind = 1 AND l.withdrawn_kind IS NULL
  UNION ALL
  SELECT '', seq, sender, false, greatest(seq, (SELECT max(x.seq) FROM events x WHERE x.conv_id = $1 AND x.kind = 5 AND x.target_seq = log.seq))
  FROM log WHERE kind = 1 AND withdrawn_kind IS NULL AND mentions_all)`
