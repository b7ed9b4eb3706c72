package store

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// exported are the parts of what is stored about the user $1, each row as JSON
// under the names of its columns. A token is stored as a hash only, which
// identifies nobody and is left out.
var exported = []struct{ part, sql string }{
	{"devices", `SELECT to_jsonb(d) - 'token_sha256' FROM devices d WHERE user_id = $1 ORDER BY device_id`},
	{"memberships", `SELECT to_jsonb(m) || jsonb_build_object('conversation_title', CASE WHEN m.left_at IS NULL THEN c.title ELSE m.left_title END)
		FROM members m JOIN conversations c USING (conv_id) WHERE user_id = $1 ORDER BY conv_id`},
	{"former_periods", `SELECT to_jsonb(p) FROM membership_periods p WHERE user_id = $1 ORDER BY conv_id, from_seq`},
	{"read_positions", `SELECT to_jsonb(r) FROM read_positions r WHERE user_id = $1 ORDER BY conv_id`},
	{"device_cursors", `SELECT to_jsonb(c) FROM device_cursors c JOIN devices d USING (device_id) WHERE d.user_id = $1 ORDER BY device_id, conv_id`},
	// Whatever they caused: a pass over the logs of the conversations they were in.
	{"events", `SELECT to_jsonb(e) FROM members m JOIN events e ON e.conv_id = m.conv_id AND (e.sender = $1 OR e.subject = $1)
		WHERE m.user_id = $1 ORDER BY e.conv_id, e.seq`},
	{"mentioned_in", `SELECT to_jsonb(n) FROM members m JOIN mentions n ON n.conv_id = m.conv_id AND n.user_id = $1
		WHERE m.user_id = $1 ORDER BY n.conv_id, n.seq`},
}

const sqlExportUser = `SELECT to_jsonb(u) FROM users u WHERE user_id = $1`

// Export passes all that is stored about a user to row, part by part, from the
// snapshot: first part "user" with one row, then lists, whose rows may be none. An
// unknown user is NOT_FOUND; of an erased one what is left is passed.
func (sn *Snapshot) Export(ctx context.Context, user chat.UserID, begin func(part string) error, row func(json.RawMessage) error) error {
	return sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var about json.RawMessage
		if err := tx.QueryRow(ctx, sqlExportUser, user).Scan(&about); err == pgx.ErrNoRows {
			return errNoUser()
		} else if err != nil {
			return err
		}
		if err := begin("user"); err != nil {
			return err
		}
		if err := row(about); err != nil {
			return err
		}
		for _, e := range exported {
			if err := begin(e.part); err != nil {
				return err
			}
			rows, err := tx.Query(ctx, e.sql, user)
			if err != nil {
				return err
			}
			var r json.RawMessage
			if _, err := pgx.ForEachRow(rows, []any{&r}, func() error { return row(r) }); err != nil {
				return err
			}
		}
		return nil
	})
}
