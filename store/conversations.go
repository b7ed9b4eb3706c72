package store

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// NewConversation describes a conversation to create.
type NewConversation struct {
	ID      chat.ConversationID
	Kind    chat.ConversationKind
	Title   *string
	Members []chat.UserID // in the order of their joins; repeated ids count once
	// Policy says who sees receipts; empty means SENDER.
	Policy chat.ReceiptPolicy
}

// DO NOTHING covers both keys: the id, and the pair of a DIRECT conversation.
const sqlCreateConversation = `
INSERT INTO conversations (conv_id, kind, title, direct_low, direct_high, receipt_policy) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING`

const sqlConversationOfPair = `SELECT conv_id FROM conversations WHERE direct_low = $1 AND direct_high = $2`

const sqlPresentMembers = `SELECT user_id FROM members WHERE conv_id = $1 AND left_at IS NULL ORDER BY user_id`

// CreateConversation creates a conversation with its first members and returns
// its id. If the id exists with the same kind and present members, or the pair
// of a DIRECT one exists, the existing id is returned and created is false. An
// id that exists otherwise is BAD_USER_INPUT, an unknown user NOT_FOUND.
// Safe to repeat.
func (s *Store) CreateConversation(ctx context.Context, n NewConversation) (id chat.ConversationID, created bool, err error) {
	n.Members = distinct(n.Members)
	if n.Policy == "" {
		n.Policy = chat.ReceiptsSender
	}
	var low, high *chat.UserID
	if n.Kind == chat.Direct {
		if len(n.Members) != 2 {
			return "", false, chat.BadInput("memberIds", "A DIRECT conversation takes exactly two different members.")
		}
		pair := slices.Sorted(slices.Values(n.Members))
		low, high = &pair[0], &pair[1]
	}
	repeated, err := s.repeat(ctx, "create conversation", func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, sqlCreateConversation, n.ID, n.Kind, n.Title, low, high, n.Policy)
			if err != nil {
				return err
			}
			if created = tag.RowsAffected() == 1; !created {
				if id, err = existingConversation(ctx, tx, n, low, high); err != nil {
					return err
				}
				return lockUsers(ctx, tx, n.Members)
			}
			if err := lockUsers(ctx, tx, n.Members); err != nil {
				return err
			}
			id = n.ID
			_, err = join(ctx, tx, id, n.Members, chat.HistoryMembership)
			return err
		})
	})
	return id, created || repeated && err == nil, err
}

// existingConversation finds what stood in the way of a creation.
func existingConversation(ctx context.Context, tx pgx.Tx, n NewConversation, low, high *chat.UserID) (chat.ConversationID, error) {
	kind, err := lockConversation(ctx, tx, n.ID)
	if err == nil {
		present, err := column[chat.UserID](ctx, tx, sqlPresentMembers, n.ID)
		if err != nil {
			return "", err
		}
		if kind != n.Kind || !slices.Equal(present, slices.Sorted(slices.Values(n.Members))) {
			return "", chat.BadInput("id", "A conversation with this id exists and has another kind or other members. Choose another id, or change its members.")
		}
		return n.ID, nil
	}
	if err != pgx.ErrNoRows {
		return "", err
	}
	var id chat.ConversationID
	err = tx.QueryRow(ctx, sqlConversationOfPair, low, high).Scan(&id)
	return id, err
}

// ConversationChange is what to change of a conversation: with Retitle the
// title (nil clears it), with Policy the receipt policy.
type ConversationChange struct {
	Retitle bool
	Title   *string
	Policy  *chat.ReceiptPolicy
}

// Changed tells what a [ConversationChange] really changed.
type Changed struct {
	Title, Policy bool
}

const (
	sqlSetTitle = `
UPDATE conversations SET title = $2, changed_xid = pg_current_xact_id() WHERE conv_id = $1 AND title IS DISTINCT FROM $2`
	sqlSetPolicy = `
UPDATE conversations SET receipt_policy = $2, changed_xid = pg_current_xact_id() WHERE conv_id = $1 AND receipt_policy <> $2`
)

// UpdateConversation changes title and policy where they differ. A new title
// appends a Notice with the title as its text, empty where it was cleared; a
// new policy appends nothing. NOT_FOUND for an unknown conversation. Safe to
// repeat. Locks the conversation.
func (s *Store) UpdateConversation(ctx context.Context, conv chat.ConversationID, change ConversationChange) (changed Changed, err error) {
	repeated, err := s.repeat(ctx, "update conversation", func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			changed = Changed{}
			if _, err := lockConversation(ctx, tx, conv); err == pgx.ErrNoRows {
				return errNoConversation()
			} else if err != nil {
				return err
			}
			if change.Retitle {
				tag, err := tx.Exec(ctx, sqlSetTitle, conv, change.Title)
				if err != nil {
					return err
				}
				if changed.Title = tag.RowsAffected() == 1; changed.Title {
					text := ""
					if change.Title != nil {
						text = *change.Title
					}
					if _, err := tx.Exec(ctx, sqlNotice, conv, nil, text); err != nil {
						return err
					}
				}
			}
			if change.Policy != nil {
				tag, err := tx.Exec(ctx, sqlSetPolicy, conv, *change.Policy)
				if err != nil {
					return err
				}
				changed.Policy = tag.RowsAffected() == 1
			}
			return nil
		})
	})
	if repeated && err == nil {
		changed = Changed{Title: change.Retitle, Policy: change.Policy != nil}
	}
	return changed, err
}
