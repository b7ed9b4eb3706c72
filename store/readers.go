package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// ReaderRange selects a page of a receipt's audience by user id: those who have
// read, or with Pending those who have not.
type ReaderRange struct {
	Pending bool
	After   chat.UserID // ids greater than this one; empty starts at the front
	Limit   int
}

// ReaderPage is a page of readers. More says that some follow it.
type ReaderPage struct {
	Readers []*chat.Reader
	More    bool
}

// sqlReaders: for each message of the page whose receipt the viewer may see, a
// page of its audience, in one pass over the members. Only conversations with
// fewer than $7 members. $4 pending, $5 after, $6 rows.
var sqlReaders = `
WITH ` + sqlReceiptPage + `,
asked AS MATERIALIZED (SELECT DISTINCT conv_id, receipt_policy FROM asked_of WHERE member_count < $7),` + audience(false, true, "") + `
SELECT p.conv_id, p.seq, a.user_id, u.name, a.seen_at, a.present
FROM asked_of p CROSS JOIN LATERAL (
  SELECT * FROM audience a
  WHERE a.conv_id = p.conv_id AND p.seq BETWEEN a.from_seq AND a.to_seq AND a.user_id <> p.sender
    AND (a.seen < p.seq) = $4 AND a.user_id > $5
  ORDER BY a.user_id LIMIT $6) a` + probed("users", "u", "user_id", "a.user_id") + `
ORDER BY p.conv_id, p.seq, a.user_id`

// Readers reads a page of who of a receipt's audience has read the message, or
// has not; nil if the receipt has counts only.
func (vw *View) Readers(ctx context.Context, receipt *chat.Receipt, r ReaderRange) (*ReaderPage, error) {
	if receipt.Detail != chat.DetailNames {
		return nil, nil
	}
	page, err := loadPart(ctx, vw, &vw.readerPages, &vw.messagePages, r, receipt.Message, func(ctx context.Context, tx pgx.Tx, page []chat.MessageKey) (map[chat.MessageKey]*ReaderPage, error) {
		convs, seqs := messageColumns(page)
		rows, err := tx.Query(ctx, sqlReaders, vw.viewer.User, convs, seqs, r.Pending, r.After, r.Limit+1, vw.sn.store.namesBelow)
		if err != nil {
			return nil, err
		}
		found := map[chat.MessageKey]*ReaderPage{}
		var key chat.MessageKey
		var id chat.UserID
		var name *string
		var at *time.Time
		var member bool
		_, err = pgx.ForEachRow(rows, []any{&key.Conversation, &key.Seq, &id, &name, &at, &member}, func() error {
			p := found[key]
			if p == nil {
				p = &ReaderPage{}
				found[key] = p
			}
			if p.More = len(p.Readers) == r.Limit; p.More {
				return nil
			}
			reader := &chat.Reader{User: &chat.User{ID: id, Name: name}, Member: member}
			if at != nil && !r.Pending {
				reader.LastReadAt = &chat.DateTime{Time: *at}
			}
			p.Readers = append(p.Readers, reader)
			return nil
		})
		return found, err
	})
	if page == nil && err == nil {
		page = &ReaderPage{}
	}
	return page, err
}
