package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlAttention: the conversation v asks for attention; chat.Counts.Attention.
const sqlAttention = `(CASE WHEN v.muted THEN v.mentions > 0 ELSE v.unread > 0 OR v.mentions > 0 OR v.marked_unread END)`

// sqlBadges: for each user of $1, the sum that the badge is defined as, over the
// rows of the list that count; chat.SumBadge. For each user one index range of
// members, then primary keys.
var sqlBadges = `
SELECT k.i, b.* FROM unnest($1::text[]) WITH ORDINALITY AS k(u, i) CROSS JOIN LATERAL (
  SELECT coalesce(sum(CASE WHEN v.muted THEN least(v.unread, v.mentions) ELSE v.unread END), 0)::bigint,
         coalesce(sum(v.mentions), 0)::bigint,
         count(*) FILTER (WHERE ` + sqlAttention + `),
         coalesce(sum(v.unread) FILTER (WHERE v.muted), 0)::bigint
  FROM (SELECT m.muted, coalesce(rp.marked_unread, false) AS marked_unread, ` + sqlUnread + ` AS unread, ` + sqlMentions + ` AS mentions
        FROM ` + sqlViewed + ` WHERE m.user_id = k.u AND m.left_at IS NULL AND NOT ` + sqlArchived + `) v) b`

// collectBadges reads the rows of sqlBadges into the places of its users.
func collectBadges(rows pgx.Rows, version chat.Version, into []*chat.Badge) error {
	return collectNumbered(rows, into, func(row pgx.CollectableRow, place *int64) (*chat.Badge, error) {
		var unread, mentions, conversations, muted int64
		err := row.Scan(place, &unread, &mentions, &conversations, &muted)
		return &chat.Badge{Version: version, Unread: chat.Count(unread), Mentions: chat.Count(mentions),
			Conversations: chat.Count(conversations), MutedUnread: chat.Count(muted)}, err
	})
}

// Badge reads the viewer's badge.
func (vw *View) Badge(ctx context.Context) (*chat.Badge, error) {
	if held := vw.held.Badge; held != nil {
		return held, nil
	}
	err := vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if vw.badge != nil {
			return nil
		}
		rows, err := tx.Query(ctx, sqlBadges, []chat.UserID{vw.viewer.User})
		if err != nil {
			return err
		}
		badge := []*chat.Badge{nil}
		err = collectBadges(rows, vw.sn.version, badge)
		vw.badge = badge[0]
		return err
	})
	return vw.badge, err
}
