package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// Want is what a caller wants to see after something has changed.
type Want struct {
	Viewer Viewer
	// Conversation is which row of the list; empty for none.
	Conversation chat.ConversationID
	// Message is which message; its zero value for none.
	Message chat.MessageKey
	// Badge asks for the viewer's badge.
	Badge bool
}

// Found is what was there: nil for what was not wanted, and for what the viewer
// may not see.
type Found struct {
	Conversation *chat.Conversation
	Message      *chat.Message
	Badge        *chat.Badge
	// Took is this want's share of the time that reading all of them took.
	Took time.Duration
}

// sqlWantedConversations and sqlWantedMessages: for users $1, each on the device
// or about the message beside them, the row of the list and the message, and
// which of the wants it answers. By primary keys only.
var sqlWantedConversations = `
SELECT k.i, ` + conversationColumns("k.d") + ` FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k(u, d, c, i)
` + wantedView

var sqlWantedMessages = `
SELECT k.i, ` + sqlMessageColumns + ` FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS k(u, c, s, i)
` + wantedView + `
CROSS JOIN LATERAL (SELECT * FROM events e WHERE e.conv_id = m.conv_id AND e.seq = k.s AND e.kind = 1 OFFSET 0) e` + sqlMessageJoins + `
WHERE ` + visible("e.seq") + ` OR e.sender = m.user_id`

// wantedView is [sqlViewed] for each want k, by the same probes.
const wantedView = `
CROSS JOIN LATERAL (SELECT * FROM members m WHERE m.user_id = k.u AND m.conv_id = k.c OFFSET 0) m` + viewedJoins

// See reads what many callers want from one snapshot and in one round trip. What
// several want is read once, and handed to each of them: it must not be changed.
func (s *Store) See(ctx context.Context, wants []Want) (found []Found, err error) {
	_, err = s.repeat(ctx, "see", func() error {
		g, began := gather(wants), time.Now()
		if err := s.requests.SendBatch(ctx, g.batch(s)).Close(); err != nil {
			return err
		}
		found = g.found(wants, time.Since(began))
		return nil
	})
	return found, err
}

// gathering is what several wants come to, and what was found of it.
type gathering struct {
	rows          numbers[wantedRow]
	messages      numbers[wantedMessage]
	badges        numbers[chat.UserID]
	version       chat.Version
	conversations []*chat.Conversation
	contents      []*chat.Message
	sums          []*chat.Badge
}

type wantedRow struct {
	Viewer
	conversation chat.ConversationID
}

type wantedMessage struct {
	user chat.UserID
	chat.MessageKey
}

// numbers gives each different thing a number, from 0 on.
type numbers[T comparable] struct {
	list []T
	of   map[T]int
}

func (n *numbers[T]) add(v T) {
	if _, known := n.of[v]; known {
		return
	}
	if n.of == nil {
		n.of = map[T]int{}
	}
	n.of[v] = len(n.list)
	n.list = append(n.list, v)
}

func (w Want) row() wantedRow { return wantedRow{w.Viewer, w.Conversation} }

func (w Want) message() wantedMessage { return wantedMessage{w.Viewer.User, w.Message} }

func gather(wants []Want) *gathering {
	g := &gathering{}
	for _, w := range wants {
		if w.Conversation != "" {
			g.rows.add(w.row())
		}
		if w.Message != (chat.MessageKey{}) {
			g.messages.add(w.message())
		}
		if w.Badge {
			g.badges.add(w.Viewer.User)
		}
	}
	g.conversations = make([]*chat.Conversation, len(g.rows.list))
	g.contents = make([]*chat.Message, len(g.messages.list))
	g.sums = make([]*chat.Badge, len(g.badges.list))
	return g
}

// batch is one transaction that reads it all.
func (g *gathering) batch(s *Store) *pgx.Batch {
	batch := &pgx.Batch{}
	batch.Queue(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`)
	batch.Queue(sqlVersion).QueryRow(func(row pgx.Row) error { return row.Scan(&g.version) })
	if len(g.rows.list) > 0 {
		batch.Queue(sqlWantedConversations, columnOf(g.rows.list, func(r wantedRow) chat.UserID { return r.User }),
			columnOf(g.rows.list, func(r wantedRow) chat.DeviceID { return r.Device }),
			columnOf(g.rows.list, func(r wantedRow) chat.ConversationID { return r.conversation })).Query(func(rows pgx.Rows) error {
			return collectNumbered(rows, g.conversations, func(row pgx.CollectableRow, i *int64) (*chat.Conversation, error) {
				return scanConversation(row, g.version, s.pullAbove, i)
			})
		})
	}
	if len(g.messages.list) > 0 {
		batch.Queue(sqlWantedMessages, columnOf(g.messages.list, func(m wantedMessage) chat.UserID { return m.user }),
			columnOf(g.messages.list, func(m wantedMessage) chat.ConversationID { return m.Conversation }),
			columnOf(g.messages.list, func(m wantedMessage) chat.Seq { return m.Seq })).Query(func(rows pgx.Rows) error {
			return collectNumbered(rows, g.contents, func(row pgx.CollectableRow, i *int64) (*chat.Message, error) {
				return scanMessage(row, i)
			})
		})
	}
	if len(g.badges.list) > 0 {
		batch.Queue(sqlBadges, g.badges.list, []chat.ConversationID{}).Query(func(rows pgx.Rows) error { return collectBadges(rows, g.version, g.sums) })
	}
	batch.Queue(`COMMIT`)
	return batch
}

// found answers each want.
func (g *gathering) found(wants []Want, took time.Duration) []Found {
	found := make([]Found, len(wants))
	for i, w := range wants {
		found[i].Took = took / time.Duration(len(wants))
		if w.Conversation != "" {
			found[i].Conversation = g.conversations[g.rows.of[w.row()]]
		}
		if w.Message != (chat.MessageKey{}) {
			found[i].Message = g.contents[g.messages.of[w.message()]]
		}
		if w.Badge {
			found[i].Badge = g.sums[g.badges.of[w.Viewer.User]]
		}
	}
	return found
}

// Hold gives a view that nothing was read through yet what was found for its
// viewer: these parts need no transaction then.
func (vw *View) Hold(f Found) { vw.held = f }
