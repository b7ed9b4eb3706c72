package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// syncToken says up to where a device's copy is whole. Clients get it as an
// opaque text that is authenticated, see [syncState.seal].
type syncToken struct {
	// Generation names the history of the database that Snapshot belongs to.
	Generation   string        `json:"g"`
	User         chat.UserID   `json:"u"`
	Device       chat.DeviceID `json:"d"`
	InstallEpoch int32         `json:"e"`
	// Snapshot is the pg_snapshot whose changes the copy has.
	Snapshot string `json:"s"`
	// Next and After are of a round that has more pages: the snapshot that its
	// first page was read from, which becomes the final token, and the last row so far.
	Next  string              `json:"n,omitempty"`
	After chat.ConversationID `json:"a,omitempty"`
}

// syncState is what tokens are made of and judged by, read in the snapshot.
type syncState struct {
	generation   string
	key          []byte
	installEpoch int32
	snapshot     string
}

// sqlSyncState: a restored database or a promoted standby may give the same
// transaction numbers to other transactions, so that a token is good for one
// cluster, one timeline, one database, one generation and one incarnation only. The timeline is that of the
// WAL being written: that of the control file changes only with the next checkpoint.
const sqlSyncState = `
SELECT s.system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/' || b.oid || '/' || m.generation || '/' || i.since,
  m.token_key, d.install_epoch, pg_current_snapshot()::text
FROM meta m CROSS JOIN incarnation i CROSS JOIN pg_control_system() s JOIN pg_database b ON b.datname = current_database() JOIN devices d ON d.device_id = $1 AND d.revoked_at IS NULL`

// syncState reads it once per view.
func (vw *View) syncState(ctx context.Context, tx pgx.Tx) (*syncState, error) {
	if vw.sync != nil {
		return vw.sync, nil
	}
	var st syncState
	err := tx.QueryRow(ctx, sqlSyncState, vw.viewer.Device).Scan(&st.generation, &st.key, &st.installEpoch, &st.snapshot)
	if err == pgx.ErrNoRows {
		return nil, chat.ErrUnauthenticated()
	}
	if err == nil {
		vw.sync = &st
	}
	return vw.sync, err
}

// SyncToken makes a token for [View.Changes]: everything that this snapshot shows is known.
func (vw *View) SyncToken(ctx context.Context) (token string, err error) {
	err = vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		st, err := vw.syncState(ctx, tx)
		if err == nil {
			token = st.seal(vw.fresh(st))
		}
		return err
	})
	return token, err
}

// fresh is the token of what the snapshot shows.
func (vw *View) fresh(st *syncState) syncToken {
	return syncToken{Generation: st.generation, User: vw.viewer.User, Device: vw.viewer.Device, InstallEpoch: st.installEpoch, Snapshot: st.snapshot}
}

// following is the token behind a page of ids, read from snapshot now. A round
// ends with the snapshot of its first page, so that what changes while it goes
// on comes in the next one.
func (t syncToken) following(more bool, ids []chat.ConversationID, now string) syncToken {
	if t.Next == "" {
		t.Next = now
	}
	if more {
		t.After = ids[len(ids)-1]
		return t
	}
	t.Snapshot, t.Next, t.After = t.Next, "", ""
	return t
}

// tokenVersion begins each token; another format gets another one.
const tokenVersion = "t1."

// maxToken is the largest token in bytes: a snapshot names every transaction in
// progress, of which there are as many as connections.
const maxToken = 64 << 10

// seal writes a token as text: its JSON behind a MAC by the database's own key.
func (st *syncState) seal(t syncToken) string {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return tokenVersion + base64.RawURLEncoding.EncodeToString(append(st.mac(b), b...))
}

func (st *syncState) mac(b []byte) []byte {
	h := hmac.New(sha256.New, st.key)
	h.Write(b)
	return h.Sum(nil)
}

// open reads a token. What does not look like one is BAD_USER_INPUT; one that
// this database did not make, or that was changed, is not authentic.
func (st *syncState) open(text string) (t syncToken, authentic bool, err error) {
	bad := chat.BadInput("since", "since is not a syncToken. Pass one that conversations or changes answered.")
	if len(text) < len(tokenVersion) || len(text) > maxToken || text[:len(tokenVersion)] != tokenVersion {
		return t, false, bad
	}
	b, err := base64.RawURLEncoding.DecodeString(text[len(tokenVersion):])
	if err != nil || len(b) < sha256.Size {
		return t, false, bad
	}
	mac, b := b[:sha256.Size], b[sha256.Size:]
	if !hmac.Equal(mac, st.mac(b)) {
		return t, false, nil
	}
	return t, true, json.Unmarshal(b, &t)
}
