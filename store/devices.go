package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// TokenHash is the SHA-256 of a device's token: all that is stored of it.
type TokenHash [sha256.Size]byte

// HashToken is what a token is looked up by.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// newToken makes a token of 256 random bits, in URL-safe base64.
func newToken() (string, TokenHash) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	token := base64.RawURLEncoding.EncodeToString(b[:])
	return token, HashToken(token)
}

const deviceColumns = `d.device_id, d.user_id, d.name, d.install_epoch, d.install_id, d.created_at`

// scanDevice reads deviceColumns, and into first what stands before them;
// plainDevice reads nothing but them.
func scanDevice(row pgx.CollectableRow, first ...any) (*chat.Device, error) {
	var d chat.Device
	err := row.Scan(append(first, &d.ID, &d.UserID, &d.Name, &d.InstallEpoch, &d.InstallID, &d.CreatedAt.Time)...)
	return &d, err
}

func plainDevice(row pgx.CollectableRow) (*chat.Device, error) { return scanDevice(row) }

// One probe of the unique index on token_sha256 for each.
const sqlDevicesByToken = `
SELECT k.i, ` + deviceColumns + ` FROM unnest($1::bytea[]) WITH ORDINALITY AS k(hash, i)
JOIN devices d ON d.token_sha256 = k.hash JOIN users u USING (user_id)
WHERE d.revoked_at IS NULL AND u.erased_at IS NULL`

// Authenticate finds the device whose token has each hash; nil for an unknown or
// a revoked one.
func (s *Store) Authenticate(ctx context.Context, hashes []TokenHash) (devices []*chat.Device, err error) {
	_, err = s.repeat(ctx, "authenticate", func() error {
		rows, err := s.requests.Query(ctx, sqlDevicesByToken, columnOf(hashes, func(h TokenHash) []byte { return h[:] }))
		if err != nil {
			return err
		}
		devices = make([]*chat.Device, len(hashes))
		return collectNumbered(rows, devices, func(row pgx.CollectableRow, place *int64) (*chat.Device, error) {
			return scanDevice(row, place)
		})
	})
	return devices, err
}

const sqlCreateDevice = `
WITH owner AS (SELECT user_id FROM users WHERE user_id = $2 AND erased_at IS NULL FOR SHARE)
INSERT INTO devices AS d (device_id, user_id, name, token_sha256)
SELECT $1, user_id, $3, $4 FROM owner RETURNING ` + deviceColumns

// CreateDevice adds a device for a user and returns its token, which is stored
// nowhere. An unknown user is NOT_FOUND, an id that exists BAD_USER_INPUT.
func (s *Store) CreateDevice(ctx context.Context, user chat.UserID, id chat.DeviceID, name *string) (*chat.Device, string, error) {
	token, hash := newToken()
	d, err := one(ctx, s.requests, plainDevice, sqlCreateDevice, id, user, name, hash[:])
	if err == pgx.ErrNoRows {
		return nil, "", errNoUser()
	}
	if err != nil {
		return nil, "", domainError(err)
	}
	return d, token, nil
}

const sqlRotateToken = `
UPDATE devices d SET token_sha256 = $2 WHERE device_id = $1 AND revoked_at IS NULL RETURNING ` + deviceColumns

// RotateToken replaces a device's token; the old one ends. An unknown or
// revoked device is NOT_FOUND.
func (s *Store) RotateToken(ctx context.Context, id chat.DeviceID) (*chat.Device, string, error) {
	token, hash := newToken()
	d, err := one(ctx, s.requests, plainDevice, sqlRotateToken, id, hash[:])
	if err == pgx.ErrNoRows {
		return nil, "", errNoDevice()
	}
	if err != nil {
		return nil, "", domainError(err)
	}
	return d, token, nil
}

// Revoking again finds the row and changes nothing in it.
const sqlRevokeDevice = `
WITH ours AS (SELECT device_id, user_id, revoked_at FROM devices WHERE device_id = $1 AND ($2::text IS NULL OR user_id = $2)),
ended AS (UPDATE devices d SET revoked_at = now() FROM ours WHERE d.device_id = ours.device_id AND d.revoked_at IS NULL)
SELECT user_id FROM ours`

// RevokeDevice ends a device's credential and names its user. With owner set,
// the device must be theirs; otherwise any. Else it is NOT_FOUND. Safe to repeat.
func (s *Store) RevokeDevice(ctx context.Context, id chat.DeviceID, owner *chat.UserID) (user chat.UserID, err error) {
	_, err = s.repeat(ctx, "revoke device", func() error {
		return s.requests.QueryRow(ctx, sqlRevokeDevice, id, owner).Scan(&user)
	})
	if err == pgx.ErrNoRows {
		return "", errNoDevice()
	}
	return user, err
}

// The epoch is compared and raised on the row itself, so that of two calls at
// once with the same install id only one raises it. The first id is no reinstall.
const sqlRegisterInstall = `
WITH moved AS (
  UPDATE devices d SET install_id = $2, install_epoch = d.install_epoch + (d.install_id IS NOT NULL)::int
  WHERE d.device_id = $1 AND d.revoked_at IS NULL AND d.install_id IS DISTINCT FROM $2
  RETURNING ` + deviceColumns + `, d.install_epoch > 0 AS reinstalled)
SELECT * FROM moved`

const sqlDevice = `SELECT ` + deviceColumns + ` FROM devices d WHERE d.device_id = $1 AND d.revoked_at IS NULL`

// RegisterInstall records which installation runs on the device. The first one
// leaves epoch 0, the same again changes nothing, another one raises the epoch
// by one, which takes all earlier delivered positions out of account. known is
// the epoch that the caller saw before: after a lost connection it tells whether
// this call was the reinstall. A revoked device is UNAUTHENTICATED. Safe to repeat.
func (s *Store) RegisterInstall(ctx context.Context, id chat.DeviceID, install string, known int32) (d *chat.Device, reinstalled bool, err error) {
	repeated, err := s.repeat(ctx, "register install", func() error {
		d, err = one(ctx, s.requests, func(row pgx.CollectableRow) (*chat.Device, error) {
			var d chat.Device
			err := row.Scan(&d.ID, &d.UserID, &d.Name, &d.InstallEpoch, &d.InstallID, &d.CreatedAt.Time, &reinstalled)
			return &d, err
		}, sqlRegisterInstall, id, install)
		if err != pgx.ErrNoRows {
			return err
		}
		reinstalled = false
		d, err = one(ctx, s.requests, plainDevice, sqlDevice, id)
		return err
	})
	if err == pgx.ErrNoRows {
		return nil, false, chat.ErrUnauthenticated()
	}
	if err != nil {
		return nil, false, err
	}
	return d, reinstalled || repeated && d.InstallEpoch > known, nil
}
