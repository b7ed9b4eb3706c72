package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// ChangePage is a page of what changed for the viewer since a token.
type ChangePage struct {
	// Changed are conversations by id, each as it is now.
	Changed []*chat.Conversation
	// Withdrawn are messages of these conversations that were withdrawn since
	// without an event, or in an absence of the viewer, who may not see the event.
	Withdrawn []chat.MessageKey
	// More says that the round goes on with SyncToken.
	More      bool
	SyncToken string
	// Resync says that the token is of no use: the copy must be made anew. Nothing
	// else but SyncToken is set then.
	Resync bool
}

// newer: the transaction xid, an expression, is not among those that the snapshot $3 saw.
func newer(xid string) string {
	return `(` + xid + ` >= pg_snapshot_xmin($3::pg_snapshot) AND NOT pg_visible_in_snapshot(` + xid + `, $3::pg_snapshot))`
}

// sqlChanged: the viewer's conversations, of those with an id greater than $4,
// in which anything that they see was written by a transaction that $3 did not
// see. For one who has left, later events of the conversation are nothing that
// they see; withdrawals and edits of what they may see are. One index range of
// members, then primary keys, one by one: a join by the user alone would compare
// all of their rows with all, which a generic plan takes for cheap.
var sqlChanged = `
SELECT m.conv_id FROM members m JOIN conversations c ON c.conv_id = m.conv_id
LEFT JOIN LATERAL (SELECT r.changed_xid FROM read_positions r WHERE r.user_id = m.user_id AND r.conv_id = m.conv_id LIMIT 1) rp ON true
LEFT JOIN LATERAL (SELECT d.changed_xid FROM device_cursors d WHERE d.device_id = $2 AND d.conv_id = m.conv_id LIMIT 1) dc ON true
WHERE m.user_id = $1 AND m.conv_id > $4
  AND (` + newer("m.changed_xid") + ` OR ` + newer("rp.changed_xid") + ` OR ` + newer("dc.changed_xid") + `
    OR m.left_at IS NULL AND ` + newer("c.changed_xid") + `
    OR m.left_at IS NOT NULL AND ` + newer("c.revised_xid") + ` AND (
      EXISTS (SELECT FROM events e WHERE e.conv_id = m.conv_id AND e.withdrawn_kind IS NOT NULL AND ` + newer("e.withdrawn_xid") + ` AND ` + visible("e.seq") + `)
      OR EXISTS (SELECT FROM events e WHERE e.conv_id = m.conv_id AND e.revised_xid IS NOT NULL AND ` + newer("e.revised_xid") + ` AND ` + visible("e.seq") + `)))
ORDER BY m.conv_id LIMIT $5`

// maxWithdrawn is how many withdrawals one page may name; more make a resync.
const maxWithdrawn = 1_000

// sqlWithdrawn: of the conversations $2, the messages that were withdrawn by a
// transaction that $3 did not see, and no event tells the viewer: those without an event, and for
// one who is or was away all of them, since the event may lie in the absence. By events_withdrawn_by.
var sqlWithdrawn = `
SELECT e.conv_id, e.seq FROM ` + sqlViewed + `
JOIN events e ON e.conv_id = m.conv_id AND e.withdrawn_kind IS NOT NULL AND ` + newer("e.withdrawn_xid") + ` AND ` + visible("e.seq") + `
  AND (e.withdrawn_kind = 'TAKEN_DOWN' OR m.left_at IS NOT NULL OR m.former_periods > 0)
WHERE m.user_id = $1 AND m.conv_id = ANY($2) AND ` + newer("c.revised_xid") + `
ORDER BY e.conv_id, e.seq LIMIT $4`

// sqlFromTheFuture: the snapshot $1 has seen transactions that this database has not begun.
const sqlFromTheFuture = `SELECT pg_snapshot_xmax($1::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())`

// Changes reads the first conversations that changed since a token, at most
// first. It may repeat a change and never misses one: whatever a transaction
// wrote that the token's snapshot had not seen, however long it ran, is new. A
// text that is no token is BAD_USER_INPUT; a token of another device, install,
// database or history, and one after which more than 1,000 messages of a page
// were withdrawn, is answered with Resync.
func (vw *View) Changes(ctx context.Context, since string, first int) (page *ChangePage, err error) {
	err = vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		st, err := vw.syncState(ctx, tx)
		if err != nil {
			return err
		}
		token, good, err := vw.accept(ctx, tx, st, since)
		if err != nil {
			return err
		}
		if good {
			page, err = vw.changes(ctx, tx, st, token, first)
		}
		if page == nil && err == nil {
			page = &ChangePage{Resync: true, SyncToken: st.seal(vw.fresh(st))}
		}
		return err
	})
	return page, err
}

// accept opens a token; good says that it belongs to this viewer, install and
// history.
func (vw *View) accept(ctx context.Context, tx pgx.Tx, st *syncState, text string) (token syncToken, good bool, err error) {
	token, authentic, err := st.open(text)
	if err != nil || !authentic {
		return token, false, err
	}
	ours := vw.fresh(st)
	ours.Snapshot, ours.Next, ours.After = token.Snapshot, token.Next, token.After
	if token != ours {
		return token, false, nil
	}
	newest := token.Snapshot
	if token.Next != "" { // within a round
		newest = token.Next
	}
	var future bool
	err = tx.QueryRow(ctx, sqlFromTheFuture, newest).Scan(&future)
	return token, !future, err
}

// changes reads a page; nil if too much was withdrawn.
func (vw *View) changes(ctx context.Context, tx pgx.Tx, st *syncState, token syncToken, first int) (*ChangePage, error) {
	ids, err := column[chat.ConversationID](ctx, tx, sqlChanged, vw.viewer.User, vw.viewer.Device, token.Snapshot, token.After, first+1)
	if err != nil {
		return nil, err
	}
	page := &ChangePage{}
	if page.More = len(ids) > first; page.More {
		ids = ids[:first]
	}
	if page.Changed, err = vw.collect(ctx, tx, sqlConversations, vw.viewer.User, vw.viewer.Device, ids); err != nil {
		return nil, err
	}
	vw.remember(page.Changed)
	if page.Withdrawn, err = withdrawn(ctx, tx, vw.viewer.User, ids, token.Snapshot); err != nil || len(page.Withdrawn) > maxWithdrawn {
		return nil, err
	}
	page.SyncToken = st.seal(token.following(page.More, ids, st.snapshot))
	return page, nil
}

func withdrawn(ctx context.Context, tx pgx.Tx, viewer chat.UserID, convs []chat.ConversationID, since string) ([]chat.MessageKey, error) {
	rows, err := tx.Query(ctx, sqlWithdrawn, viewer, convs, since, maxWithdrawn+1)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (key chat.MessageKey, err error) {
		return key, row.Scan(&key.Conversation, &key.Seq)
	})
}
