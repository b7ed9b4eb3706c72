package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// Deviation is one thing that a verification found wrong.
type Deviation struct {
	// Rule is the invariant that does not hold (M1, M2, M4 to M7, M9), or
	// "ordinals", "mentions", "receipts", "archive", "erasure".
	Rule string
	// Conversation is empty where it is not about one.
	Conversation chat.ConversationID
	// Subject is whose value it is: an event, a user, a device, the conversation.
	Subject string
	// Found says what is stored and what should be.
	Found string
}

func (d Deviation) String() string {
	if d.Conversation == "" {
		return fmt.Sprintf("%s: %s: %s", d.Rule, d.Subject, d.Found)
	}
	return fmt.Sprintf("%s: conversation %q, %s: %s", d.Rule, d.Conversation, d.Subject, d.Found)
}

const (
	sqlNextConversations = `SELECT conv_id FROM conversations WHERE conv_id > $1 ORDER BY conv_id LIMIT 500`
	sqlNextUsers         = `SELECT user_id FROM users WHERE user_id > $1 AND erased_at IS NULL ORDER BY user_id LIMIT 500`
)

// Verify recomputes what is stored from the logs and passes what deviates to
// report: ordinals, mentions, positions, receipts and unread conversation by
// conversation (M1, M2, M4, M5, M6, M9), badges user by user (M7), and what
// belongs to nothing or was left of erased users. M3 and M8 are about what a
// call does and leave nothing to be seen in what is stored. Each conversation,
// and each user, is judged in one snapshot, so that a live database may go on
// changing. It returns how many conversations it looked at.
func (s *Store) Verify(ctx context.Context, report func(Deviation)) (conversations int, err error) {
	conversations, err = each(ctx, s, sqlNextConversations, func(conv chat.ConversationID) error { return s.verifyConversation(ctx, conv, report) })
	if err != nil {
		return conversations, err
	}
	if _, err = each(ctx, s, sqlNextUsers, func(user chat.UserID) error { return s.verifyUser(ctx, user, report) }); err != nil {
		return conversations, err
	}
	rows, err := s.requests.Query(ctx, sqlStrays)
	if err != nil {
		return conversations, err
	}
	var d Deviation
	_, err = pgx.ForEachRow(rows, []any{&d.Rule, &d.Conversation, &d.Subject, &d.Found}, func() error { report(d); return nil })
	return conversations, err
}

// each calls do for every id that next lists in batches, and counts them.
func each[ID ~string](ctx context.Context, s *Store, next string, do func(ID) error) (n int, err error) {
	for after := ID(""); ; {
		batch, err := column[ID](ctx, s.requests, next, after)
		if err != nil || len(batch) == 0 {
			return n, err
		}
		for _, id := range batch {
			if err := do(id); err != nil {
				return n, err
			}
			n++
		}
		after = batch[len(batch)-1]
	}
}

func (s *Store) verifyConversation(ctx context.Context, conv chat.ConversationID, report func(Deviation)) error {
	sn := s.Snapshot()
	defer sn.Close()
	return sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{sqlDeviations, sqlReceiptDeviations(reads), sqlReceiptDeviations(deliveries)} {
			rows, err := tx.Query(ctx, sql, conv)
			if err != nil {
				return err
			}
			d := Deviation{Conversation: conv}
			if _, err := pgx.ForEachRow(rows, []any{&d.Rule, &d.Subject, &d.Found}, func() error { report(d); return nil }); err != nil {
				return err
			}
		}
		return nil
	})
}

// verifyUser adds up the badge from the rows of the list, by chat.SumBadge. Each
// row with anything unread must have something to read.
func (s *Store) verifyUser(ctx context.Context, user chat.UserID, report func(Deviation)) error {
	sn := s.Snapshot()
	defer sn.Close()
	vw := sn.View(Viewer{User: user})
	var rows []chat.Counts
	for r := (InboxRange{First: chat.MaxPage}); ; {
		page, err := vw.Inbox(ctx, r)
		if err != nil {
			return err
		}
		for _, c := range page.Conversations {
			counts, _ := c.Counts() // the list has only what counts
			rows = append(rows, counts)
			if c.UnreadMessages > 0 && c.Read >= c.Head {
				report(Deviation{Rule: "M7", Conversation: c.ID, Subject: "user " + string(user),
					Found: fmt.Sprintf("has %d unread, but read to head: they cannot be brought to 0", c.UnreadMessages)})
			}
		}
		if !page.More {
			break
		}
		last := page.Conversations[len(page.Conversations)-1]
		r.After = &InboxKey{Pinned: last.Pinned, Activity: last.LastActivityAt.Time, ID: last.ID}
	}
	badge, err := sn.View(vw.viewer).Badge(ctx) // by a view that has seen no rows
	if err != nil {
		return err
	}
	sum := chat.SumBadge(rows)
	if sum.Version = badge.Version; sum != *badge {
		report(Deviation{Rule: "M7", Subject: "user " + string(user), Found: fmt.Sprintf("badge %+v, the sum of its rows %+v", *badge, sum)})
	}
	return nil
}
