package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// What a copy of an older state cannot know of itself. A position or a token that
// a client got from the state that was lost must not be taken for one of this.
const (
	sqlNewGeneration      = `UPDATE meta SET generation = gen_random_uuid()`
	sqlRaiseEpochs        = `UPDATE conversations SET epoch = epoch + 1, changed_xid = '0', revised_xid = '0'`
	sqlUntouchMembers     = `UPDATE members SET changed_xid = '0'`
	sqlUntouchPositions   = `UPDATE read_positions SET changed_xid = '0'`
	sqlUntouchCursors     = `UPDATE device_cursors SET changed_xid = '0'`
	sqlUntouchWithdrawals = `UPDATE events SET withdrawn_xid = '0' WHERE withdrawn_kind IS NOT NULL`
	sqlUntouchRevisions   = `UPDATE events SET revised_xid = '0' WHERE revised_xid IS NOT NULL`
)

// Restored tells the database that it was restored from a backup: it raises the
// epoch of every conversation, so that clients drop their copies, renews the
// generation, so that every sync token ends, and forgets which transactions wrote
// what, since their numbers may be given again. It returns how many conversations
// there are. No server must be running on the database.
func (s *Store) Restored(ctx context.Context) (conversations int64, err error) {
	err = s.write(ctx, func(tx pgx.Tx) error {
		for _, sql := range []string{sqlNewGeneration, sqlUntouchMembers, sqlUntouchPositions, sqlUntouchCursors, sqlUntouchWithdrawals, sqlUntouchRevisions} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		tag, err := tx.Exec(ctx, sqlRaiseEpochs)
		conversations = tag.RowsAffected()
		return err
	})
	return conversations, err
}
