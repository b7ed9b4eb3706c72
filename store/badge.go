package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// sqlAttention: the conversation v asks for attention; chat.Counts.Attention.
const sqlAttention = `(CASE WHEN v.muted THEN v.mentions > 0 ELSE v.unread > 0 OR v.mentions > 0 OR v.marked_unread END)`

// sqlBadge: the sum that the badge is defined as, over the rows of sqlInbox that
// count; chat.SumBadge. One index range of members, then primary keys.
var sqlBadge = `
SELECT coalesce(sum(CASE WHEN v.muted THEN least(v.unread, v.mentions) ELSE v.unread END), 0)::bigint,
       coalesce(sum(v.mentions), 0)::bigint,
       count(*) FILTER (WHERE ` + sqlAttention + `),
       coalesce(sum(v.unread) FILTER (WHERE v.muted), 0)::bigint
FROM (SELECT m.muted, coalesce(rp.marked_unread, false) AS marked_unread, ` + sqlUnread + ` AS unread, ` + sqlMentions + ` AS mentions
      FROM ` + sqlViewed + ` WHERE m.user_id = $1 AND m.left_at IS NULL AND NOT ` + sqlArchived + `) v`

// Badge reads the viewer's badge.
func (vw *View) Badge(ctx context.Context) (*chat.Badge, error) {
	err := vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if vw.badge != nil {
			return nil
		}
		var unread, mentions, conversations, muted int64
		if err := tx.QueryRow(ctx, sqlBadge, vw.viewer.User).Scan(&unread, &mentions, &conversations, &muted); err != nil {
			return err
		}
		vw.badge = &chat.Badge{Version: vw.sn.version, Unread: chat.Count(unread), Mentions: chat.Count(mentions),
			Conversations: chat.Count(conversations), MutedUnread: chat.Count(muted)}
		return nil
	})
	return vw.badge, err
}
