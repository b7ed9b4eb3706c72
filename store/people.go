package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// MemberRange selects a page of a conversation's present members by id.
type MemberRange struct {
	After chat.UserID // ids greater than this one; empty starts at the front
	Limit int
}

// MemberPage is a page of members. Total is how many there are in all; More
// says that some follow the page.
type MemberPage struct {
	Members []*chat.Member
	Total   int32
	More    bool
}

// sqlMembers: per conversation one range of members_present and as many rows of
// members. Nothing for a viewer who has left. $3 after, $4 rows.
const sqlMembers = `
SELECT m.conv_id, c.member_count, x.user_id, u.name, x.joined_at
FROM ` + sqlViewed + `
LEFT JOIN LATERAL (
  SELECT o.user_id, o.joined_at FROM members o
  WHERE o.conv_id = m.conv_id AND o.left_at IS NULL AND o.user_id > $3 ORDER BY o.user_id LIMIT $4) x ON true
LEFT JOIN users u ON u.user_id = x.user_id
WHERE m.user_id = $1 AND m.conv_id = ANY($2) AND m.left_at IS NULL ORDER BY m.conv_id, x.user_id`

// Members reads a page of the present members; empty for a viewer who has left.
func (vw *View) Members(ctx context.Context, c *chat.Conversation, r MemberRange) (*MemberPage, error) {
	page, err := loadPart(ctx, vw, &vw.memberPages, &vw.pages, r, c.ID, func(ctx context.Context, tx pgx.Tx, page []chat.ConversationID) (map[chat.ConversationID]*MemberPage, error) {
		rows, err := tx.Query(ctx, sqlMembers, vw.viewer.User, page, r.After, r.Limit+1)
		if err != nil {
			return nil, err
		}
		pages := map[chat.ConversationID]*MemberPage{}
		var conv chat.ConversationID
		var total int32
		var id *chat.UserID
		var name *string
		var joined *time.Time
		_, err = pgx.ForEachRow(rows, []any{&conv, &total, &id, &name, &joined}, func() error {
			p := pages[conv]
			if p == nil {
				p = &MemberPage{Total: total}
				pages[conv] = p
			}
			if p.More = len(p.Members) == r.Limit; !p.More && id != nil {
				p.Members = append(p.Members, &chat.Member{User: user(id, name), JoinedAt: chat.DateTime{Time: *joined}})
			}
			return nil
		})
		return pages, err
	})
	if page == nil && err == nil {
		page = &MemberPage{}
	}
	return page, err
}

const sqlDevices = `SELECT ` + deviceColumns + ` FROM devices d WHERE d.user_id = $1 AND d.revoked_at IS NULL ORDER BY d.created_at, d.device_id`

// Devices reads the viewer's devices that are not revoked, oldest first.
func (vw *View) Devices(ctx context.Context) (devices []*chat.Device, err error) {
	err = vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlDevices, vw.viewer.User)
		if err != nil {
			return err
		}
		devices, err = pgx.CollectRows(rows, plainDevice)
		return err
	})
	return devices, err
}

// Device reads the viewer's own device.
func (vw *View) Device(ctx context.Context) (d *chat.Device, err error) {
	err = vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		d, err = one(ctx, tx, plainDevice, sqlDevice, vw.viewer.Device)
		if err == pgx.ErrNoRows {
			return chat.ErrUnauthenticated()
		}
		return err
	})
	return d, err
}

// User reads the viewer.
func (vw *View) User(ctx context.Context) (u *chat.User, err error) {
	err = vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		u, err = one(ctx, tx, scanUser, sqlUser, vw.viewer.User)
		if err == pgx.ErrNoRows {
			return errNoUser()
		}
		return err
	})
	return u, err
}

const sqlRef = `SELECT conv_id, kind, title, head, member_count, receipt_policy FROM conversations WHERE conv_id = $1`

// Ref reads a conversation as the application's back end sees it; nil if there is none.
func (sn *Snapshot) Ref(ctx context.Context, id chat.ConversationID) (ref *chat.ConversationRef, err error) {
	err = sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var r chat.ConversationRef
		err := tx.QueryRow(ctx, sqlRef, id).Scan(&r.ID, &r.Kind, &r.Title, &r.Head, &r.MemberCount, &r.ReceiptPolicy)
		if err == pgx.ErrNoRows {
			return nil
		}
		r.Mode = chat.Fanout(r.MemberCount, sn.store.pullAbove)
		ref = &r
		return err
	})
	return ref, err
}
