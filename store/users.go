package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// One row by primary key; a name that stays the same writes nothing and answers no row.
const sqlPutUser = `
INSERT INTO users (user_id, name) VALUES ($1, $2)
ON CONFLICT (user_id) DO UPDATE SET name = excluded.name
WHERE users.erased_at IS NULL AND $3 AND users.name IS DISTINCT FROM excluded.name
RETURNING user_id, name`

const sqlUser = `SELECT user_id, name FROM users WHERE user_id = $1 AND erased_at IS NULL`

// PutUser creates the user, or changes the name of a present one. rename false
// leaves a present name as it is; with rename a nil name clears it. An erased
// user is NOT_FOUND. Safe to repeat.
func (s *Store) PutUser(ctx context.Context, id chat.UserID, name *string, rename bool) (u *chat.User, err error) {
	_, err = s.repeat(ctx, "put user", func() error {
		u, err = one(ctx, s.requests, scanUser, sqlPutUser, id, name, rename)
		if err == pgx.ErrNoRows {
			u, err = one(ctx, s.requests, scanUser, sqlUser, id)
		}
		return err
	})
	if err == pgx.ErrNoRows {
		return nil, &chat.Error{Code: chat.NotFound, Message: "This user was erased; the id cannot be used again."}
	}
	return u, err
}

func scanUser(row pgx.CollectableRow) (*chat.User, error) {
	var u chat.User
	err := row.Scan(&u.ID, &u.Name)
	return &u, err
}

// sqlLockUser keeps the user from being erased until the transaction ends.
const sqlLockUser = `SELECT FROM users WHERE user_id = $1 AND erased_at IS NULL FOR SHARE`

// lockUser fails with UNAUTHENTICATED if the caller was erased meanwhile.
func lockUser(ctx context.Context, tx pgx.Tx, user chat.UserID) error {
	tag, err := tx.Exec(ctx, sqlLockUser, user)
	if err == nil && tag.RowsAffected() == 0 {
		err = chat.ErrUnauthenticated()
	}
	return err
}

// sqlLockUsers locks those of the ids that are users, in the order of ids. By primary key.
const sqlLockUsers = `
SELECT user_id FROM users WHERE user_id = ANY($1) AND erased_at IS NULL ORDER BY user_id FOR SHARE`

// lockUsers fails with NOT_FOUND unless every id is a user that is not erased,
// and keeps them so until the transaction ends. The conversation's lock, if any,
// must be held already.
func lockUsers(ctx context.Context, tx pgx.Tx, ids []chat.UserID) error {
	ids = distinct(ids)
	found, err := column[chat.UserID](ctx, tx, sqlLockUsers, ids)
	if err == nil && len(found) < len(ids) {
		err = errNoUser()
	}
	return err
}
