package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlRoutes: one index range of members. sqlCredentials: the user's devices.
const (
	sqlRoutes      = `SELECT conv_id FROM members WHERE user_id = $1 AND left_at IS NULL`
	sqlCredentials = `SELECT device_id, token_sha256 FROM devices WHERE user_id = $1 AND revoked_at IS NULL`
)

// Routes reads which conversations a user is a member of now, and the
// credentials of their devices that are still good: what is needed to route
// hints to their sessions and to end sessions whose credential has ended.
func (s *Store) Routes(ctx context.Context, user chat.UserID) ([]chat.ConversationID, map[chat.DeviceID]TokenHash, error) {
	var convs []chat.ConversationID
	devices := map[chat.DeviceID]TokenHash{}
	_, err := s.repeat(ctx, "routes", func() error {
		var batch pgx.Batch
		batch.Queue(sqlRoutes, user).Query(func(rows pgx.Rows) (err error) {
			convs, err = pgx.CollectRows(rows, pgx.RowTo[chat.ConversationID])
			return err
		})
		batch.Queue(sqlCredentials, user).Query(func(rows pgx.Rows) error {
			clear(devices)
			var id chat.DeviceID
			var hash []byte
			_, err := pgx.ForEachRow(rows, []any{&id, &hash}, func() error {
				devices[id] = TokenHash(hash)
				return nil
			})
			return err
		})
		return s.routes.SendBatch(ctx, &batch).Close()
	})
	return convs, devices, err
}
