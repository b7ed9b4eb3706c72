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

// install is an installation of a device's app: whatever one reports carries one epoch.
type install struct {
	device chat.DeviceID
	epoch  int32
}

func (r AckReport) install() install { return install{r.Device, r.InstallEpoch} }

// sqlAck writes a batch of acknowledgements without a lock on devices: a cursor
// row counts only while its install_epoch is the device's. A higher epoch
// replaces the row, an equal one merges by maximum, a lower one does nothing, so
// that an old ack cannot slip past a reinstall that commits meanwhile. All by primary keys,
// one probe after the other, as in [sqlMarkRead]; an install and its owner once for all of its cursors.
// What moved is part of what was judged: a full join is a left one here, and never compares each with each.
// $1 device, $2 install epoch, one of each per install; $3 install, $4 conversation, $5 seq, one of each per report. Counted from 1.
var sqlAck = `
WITH installs AS MATERIALIZED (
  SELECT k.n, k.d, k.epoch, dv.user_id, x.shares_reads,
         CASE WHEN x.user_id IS NULL THEN 3 WHEN k.epoch <> dv.install_epoch THEN 4 ELSE 0 END AS refused
  FROM unnest($1::text[], $2::int[]) WITH ORDINALITY AS k(d, epoch, n)
  LEFT JOIN LATERAL (SELECT * FROM devices dv WHERE dv.device_id = k.d AND dv.revoked_at IS NULL OFFSET 0) dv ON true
  LEFT JOIN LATERAL (SELECT * FROM users x WHERE x.user_id = dv.user_id OFFSET 0) x ON true),
judged AS MATERIALIZED (
  SELECT t.i, s.d, t.c, s.epoch, coalesce(m.to_seq, cv.head, 0) AS head,
         CASE WHEN s.refused > 0 THEN s.refused WHEN m.user_id IS NULL THEN 1
              WHEN t.seq < 0 OR m.to_seq IS NULL AND t.seq > cv.head THEN 2 ELSE 0 END AS refused,
         least(t.seq, coalesce(m.to_seq, cv.head)) AS v,
         CASE WHEN dc.install_epoch = s.epoch THEN dc.delivered_seq ELSE 0 END AS delivered_seq, ` + sqlShown("s", "cv") + ` AS shown
  FROM unnest($3::bigint[], $4::text[], $5::bigint[]) WITH ORDINALITY AS t(n, c, seq, i)
  JOIN installs s ON s.n = t.n
  LEFT JOIN LATERAL (SELECT * FROM members m WHERE m.user_id = s.user_id AND m.conv_id = t.c OFFSET 0) m ON true
  LEFT JOIN LATERAL (SELECT * FROM conversations cv WHERE cv.conv_id = m.conv_id OFFSET 0) cv ON true
  LEFT JOIN LATERAL (SELECT * FROM device_cursors dc WHERE dc.device_id = s.d AND dc.conv_id = t.c OFFSET 0) dc ON true),
moved AS (
  INSERT INTO device_cursors AS r (device_id, conv_id, install_epoch, delivered_seq)
  SELECT DISTINCT ON (d COLLATE "C", c COLLATE "C") d, c, epoch, v FROM judged WHERE refused = 0 AND v > delivered_seq
  ORDER BY d COLLATE "C", c COLLATE "C", v DESC
  ON CONFLICT (device_id, conv_id) DO UPDATE SET
    delivered_seq = CASE WHEN excluded.install_epoch > r.install_epoch THEN excluded.delivered_seq
                         ELSE greatest(r.delivered_seq, excluded.delivered_seq) END,
    install_epoch = excluded.install_epoch, changed_xid = pg_current_xact_id()
  WHERE excluded.install_epoch > r.install_epoch
     OR excluded.install_epoch = r.install_epoch AND excluded.delivered_seq > r.delivered_seq
  RETURNING device_id, conv_id, delivered_seq)
SELECT j.i, j.refused, j.head, j.delivered_seq, coalesce(n.delivered_seq, j.delivered_seq), n.device_id IS NOT NULL AND j.refused = 0, coalesce(j.shown, false),
       j.refused = 0 AND j.v > j.delivered_seq AND n.device_id IS NULL
FROM judged j FULL JOIN moved n ON n.device_id = j.d AND n.conv_id = j.c`

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
	installs := distinct(columnOf(reports, AckReport.install))
	number := make(map[install]int, len(installs))
	for i, n := range installs {
		number[n] = i + 1
	}
	devices := columnOf(installs, func(n install) chat.DeviceID { return n.device })
	var lost []int
	var batch pgx.Batch
	batch.Queue(sqlAck, devices, columnOf(installs, func(n install) int32 { return n.epoch }),
		columnOf(reports, func(r AckReport) int { return number[r.install()] }),
		columnOf(reports, func(r AckReport) chat.ConversationID { return r.Conversation }),
		columnOf(reports, func(r AckReport) chat.Seq { return r.Seq })).Query(func(rows pgx.Rows) error {
		var i, refused int
		var head chat.Seq
		var r AckResult
		var late bool
		_, err := pgx.ForEachRow(rows, []any{&i, &refused, &head, &r.Previous, &r.Delivered, &r.Moved, &r.Shown, &late}, func() error {
			results[i-1] = r
			switch refused {
			case 1:
				results[i-1] = AckResult{Err: chat.ErrNotMember()}
			case 2:
				results[i-1] = AckResult{Err: chat.ErrCursorAhead(head)}
			case 3:
				results[i-1] = AckResult{Err: chat.ErrUnauthenticated()}
			case 4:
				results[i-1] = AckResult{Err: chat.ErrStaleInstall()}
			}
			if late {
				lost = append(lost, i-1)
			}
			return nil
		})
		return err
	})
	batch.Queue(sqlEpochs, devices).Query(func(rows pgx.Rows) error {
		now := map[chat.DeviceID]int32{}
		var n install
		_, err := pgx.ForEachRow(rows, []any{&n.device, &n.epoch}, func() error { now[n.device] = n.epoch; return nil })
		for i, r := range reports {
			if results[i].Err == nil && now[r.Device] != r.InstallEpoch {
				results[i] = AckResult{Err: chat.ErrStaleInstall()}
			}
		}
		return err
	})
	if err := s.requests.SendBatch(ctx, &batch).Close(); err != nil || len(lost) == 0 {
		return err
	}
	return s.ackTruth(ctx, reports, lost, results)
}

// ackTruth tells the reports at index, which a concurrent ack was ahead of, what is now.
func (s *Store) ackTruth(ctx context.Context, reports []AckReport, index []int, results []AckResult) error {
	rows, err := s.requests.Query(ctx, sqlAckTruth, index,
		columnOf(index, func(i int) chat.DeviceID { return reports[i].Device }),
		columnOf(index, func(i int) chat.ConversationID { return reports[i].Conversation }),
		columnOf(index, func(i int) int32 { return reports[i].InstallEpoch }))
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
