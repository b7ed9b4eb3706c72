package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlAttention: the conversation v asks for attention; chat.Counts.Attention.
const sqlAttention = `(CASE WHEN v.muted THEN v.mentions > 0 ELSE v.unread > 0 OR v.mentions > 0 OR v.marked_unread END)`

// sqlBadges: for each user of $1, the sum that the badge is defined as, over the
// rows of the list that count, but for the conversations $2; chat.SumBadge. For each
// user one index range of members, one of read_positions, then primary keys.
var sqlBadges = `
SELECT k.i, b.* FROM unnest($1::text[]) WITH ORDINALITY AS k(u, i) CROSS JOIN LATERAL (
  SELECT coalesce(sum(CASE WHEN v.muted THEN least(v.unread, v.mentions) ELSE v.unread END), 0)::bigint,
         coalesce(sum(v.mentions), 0)::bigint,
         count(*) FILTER (WHERE ` + sqlAttention + `),
         coalesce(sum(v.unread) FILTER (WHERE v.muted), 0)::bigint
  FROM (SELECT m.muted, coalesce(rp.marked_unread, false) AS marked_unread, ` + sqlUnread + ` AS unread, ` + sqlMentions + ` AS mentions
        FROM ` + everythingOf("k.u") + `
        WHERE m.left_at IS NULL AND NOT ` + sqlArchived + ` AND m.conv_id NOT IN (SELECT unnest($2::text[])) OFFSET 0) v) b`

// collectBadges reads the rows of sqlBadges into the places of its users.
func collectBadges(rows pgx.Rows, version chat.Version, into []*chat.Badge) error {
	return collectNumbered(rows, into, func(row pgx.CollectableRow, place *int64) (*chat.Badge, error) {
		var unread, mentions, conversations, muted int64
		err := row.Scan(place, &unread, &mentions, &conversations, &muted)
		return &chat.Badge{Version: version, Unread: chat.Count(unread), Mentions: chat.Count(mentions),
			Conversations: chat.Count(conversations), MutedUnread: chat.Count(muted)}, err
	})
}

// Badge reads the viewer's badge. Rows that the view has handed out were counted
// for it: only the others are counted now.
func (vw *View) Badge(ctx context.Context) (*chat.Badge, error) {
	if held := vw.held.Badge; held != nil {
		return held, nil
	}
	err := vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if vw.badge != nil {
			return nil
		}
		counted, known := []chat.Counts{}, []chat.ConversationID{}
		for id, c := range vw.rows {
			if counts, ok := c.Counts(); ok {
				counted, known = append(counted, counts), append(known, id)
			}
		}
		rows, err := tx.Query(ctx, sqlBadges, []chat.UserID{vw.viewer.User}, known)
		if err != nil {
			return err
		}
		others := []*chat.Badge{nil}
		if err := collectBadges(rows, vw.sn.version, others); err != nil {
			return err
		}
		badge := others[0].Plus(chat.SumBadge(counted))
		vw.badge = &badge
		return nil
	})
	return vw.badge, err
}
