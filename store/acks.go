package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// AckReport says that a device, at the install epoch that its client knows,
// holds every event of a conversation up to Seq.
type AckReport struct {
	Device       chat.DeviceID
	InstallEpoch int32
	Conversation chat.ConversationID
	Seq          chat.Seq
}

// AckResult is the merged position for one report, or Err. Moved says that this
// call moved it from Previous, or may have after a lost connection, and Shown
// that others may be told so.
type AckResult struct {
	Delivered, Previous chat.Seq
	Moved, Shown        bool
	Err                 error
}

// sqlAck writes a batch of acknowledgements without a lock on devices: a cursor
// row counts only while its install_epoch is the device's. A higher epoch
// replaces the row, an equal one merges by maximum, a lower one does nothing, so
// that an old ack cannot slip past a reinstall that commits meanwhile. All by primary keys,
// one probe after the other, as in [sqlMarkRead]; a device and its owner once for all of its cursors.
// $1 index, $2 device, $3 conversation, $4 seq, $5 install epoch, one of each per report.
var sqlAck = `
WITH input AS (
  SELECT * FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::int[]) AS t(i, d, c, seq, epoch)),
owners AS MATERIALIZED (
  SELECT k.d, dv.user_id, dv.install_epoch, x.shares_reads FROM (SELECT DISTINCT d FROM unnest($2::text[]) AS t(d)) k
  CROSS JOIN LATERAL (SELECT * FROM devices dv WHERE dv.device_id = k.d AND dv.revoked_at IS NULL OFFSET 0) dv
  CROSS JOIN LATERAL (SELECT * FROM users x WHERE x.user_id = dv.user_id OFFSET 0) x),
judged AS MATERIALIZED (
  SELECT t.*, coalesce(m.to_seq, cv.head, 0) AS head,
         CASE WHEN o.user_id IS NULL THEN 3 WHEN t.epoch <> o.install_epoch THEN 4
              WHEN m.user_id IS NULL THEN 1 WHEN t.seq < 0 OR m.to_seq IS NULL AND t.seq > cv.head THEN 2 ELSE 0 END AS refused,
         least(t.seq, coalesce(m.to_seq, cv.head)) AS v,
         CASE WHEN dc.install_epoch = t.epoch THEN dc.delivered_seq ELSE 0 END AS delivered_seq, ` + sqlShown("o", "cv") + ` AS shown
  FROM input t
  LEFT JOIN owners o ON o.d = t.d
  LEFT JOIN LATERAL (SELECT * FROM members m WHERE m.user_id = o.user_id AND m.conv_id = t.c OFFSET 0) m ON true
  LEFT JOIN LATERAL (SELECT * FROM conversations cv WHERE cv.conv_id = m.conv_id OFFSET 0) cv ON true
  LEFT JOIN LATERAL (SELECT * FROM device_cursors dc WHERE dc.device_id = t.d AND dc.conv_id = t.c OFFSET 0) dc ON true),
wanted AS (
  SELECT d, c, epoch, max(v) AS v FROM judged WHERE refused = 0 AND v > delivered_seq GROUP BY d, c, epoch),
moved AS (
  INSERT INTO device_cursors AS r (device_id, conv_id, install_epoch, delivered_seq)
  SELECT d, c, epoch, v FROM wanted ORDER BY d COLLATE "C", c COLLATE "C"
  ON CONFLICT (device_id, conv_id) DO UPDATE SET
    delivered_seq = CASE WHEN excluded.install_epoch > r.install_epoch THEN excluded.delivered_seq
                         ELSE greatest(r.delivered_seq, excluded.delivered_seq) END,
    install_epoch = excluded.install_epoch, changed_xid = pg_current_xact_id()
  WHERE excluded.install_epoch > r.install_epoch
     OR excluded.install_epoch = r.install_epoch AND excluded.delivered_seq > r.delivered_seq
  RETURNING device_id, conv_id, delivered_seq)
SELECT j.i, j.refused, j.head, j.delivered_seq, coalesce(n.delivered_seq, j.delivered_seq), n.device_id IS NOT NULL AND j.refused = 0, coalesce(j.shown, false),
       j.refused = 0 AND j.v > j.delivered_seq AND n.device_id IS NULL
FROM judged j LEFT JOIN moved n ON n.device_id = j.d AND n.conv_id = j.c`

// sqlEpochs runs behind sqlAck in the same transaction with a younger snapshot: a
// device whose epoch went up meanwhile has become a stale one.
const sqlEpochs = `SELECT device_id, install_epoch FROM devices WHERE device_id = ANY($1)`

// sqlAckTruth is asked after sqlAck about those that were to move and did not,
// since a concurrent ack was ahead.
const sqlAckTruth = `
SELECT t.i, dc.delivered_seq FROM unnest($1::int[], $2::text[], $3::text[], $4::int[]) AS t(i, d, c, epoch)
CROSS JOIN LATERAL (SELECT * FROM device_cursors dc WHERE dc.device_id = t.d AND dc.conv_id = t.c OFFSET 0) dc WHERE dc.install_epoch = t.epoch`

// Ack merges acknowledgements by maximum into the devices' cursors, in one
// transaction and one round trip, and answers the merged position for each.
// STALE_INSTALL, UNAUTHENTICATED (the device was revoked), NOT_MEMBER and
// CURSOR_AHEAD refuse a report without spoiling the others; one beyond the end
// of a membership that is over is capped there. The error of the call itself is
// the database's. Safe to repeat, and repeated within ctx if the connection is lost.
func (s *Store) Ack(ctx context.Context, reports []AckReport) ([]AckResult, error) {
	results := make([]AckResult, len(reports))
	repeated, err := s.repeat(ctx, "ack", func() error { return s.ackOnce(ctx, reports, results) })
	if err != nil {
		return nil, err
	}
	for i := range results {
		results[i].Moved = results[i].Moved || repeated && results[i].Err == nil
	}
	return results, nil
}

func (s *Store) ackOnce(ctx context.Context, reports []AckReport, results []AckResult) error {
	index := make([]int, len(reports))
	for i := range index {
		index[i] = i
	}
	devices := columnOf(reports, func(r AckReport) chat.DeviceID { return r.Device })
	convs := columnOf(reports, func(r AckReport) chat.ConversationID { return r.Conversation })
	epochs := columnOf(reports, func(r AckReport) int32 { return r.InstallEpoch })
	var lost []int
	var batch pgx.Batch
	batch.Queue(sqlAck, index, devices, convs, columnOf(reports, func(r AckReport) chat.Seq { return r.Seq }), epochs).Query(func(rows pgx.Rows) error {
		var i, refused int
		var head chat.Seq
		var r AckResult
		var late bool
		_, err := pgx.ForEachRow(rows, []any{&i, &refused, &head, &r.Previous, &r.Delivered, &r.Moved, &r.Shown, &late}, func() error {
			results[i] = r
			switch refused {
			case 1:
				results[i] = AckResult{Err: chat.ErrNotMember()}
			case 2:
				results[i] = AckResult{Err: chat.ErrCursorAhead(head)}
			case 3:
				results[i] = AckResult{Err: chat.ErrUnauthenticated()}
			case 4:
				results[i] = AckResult{Err: chat.ErrStaleInstall()}
			}
			if late && refused == 0 {
				lost = append(lost, i)
			}
			return nil
		})
		return err
	})
	batch.Queue(sqlEpochs, distinct(devices)).Query(func(rows pgx.Rows) error {
		now := map[chat.DeviceID]int32{}
		var device chat.DeviceID
		var epoch int32
		_, err := pgx.ForEachRow(rows, []any{&device, &epoch}, func() error { now[device] = epoch; return nil })
		for i := range results {
			if results[i].Err == nil && now[devices[i]] != epochs[i] {
				results[i] = AckResult{Err: chat.ErrStaleInstall()}
			}
		}
		return err
	})
	if err := s.requests.SendBatch(ctx, &batch).Close(); err != nil || len(lost) == 0 {
		return err
	}
	rows, err := s.requests.Query(ctx, sqlAckTruth, lost, columnOf(lost, func(i int) chat.DeviceID { return devices[i] }),
		columnOf(lost, func(i int) chat.ConversationID { return convs[i] }), columnOf(lost, func(i int) int32 { return epochs[i] }))
	if err != nil {
		return err
	}
	var i int
	var delivered chat.Seq
	_, err = pgx.ForEachRow(rows, []any{&i, &delivered}, func() error {
		if results[i].Err == nil {
			results[i].Delivered = delivered
		}
		return nil
	})
	return err
}
