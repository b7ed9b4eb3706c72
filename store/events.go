package store

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// EventRange selects a page of a conversation's visible events: those with a
// seq greater than After (0 or more) and less than Before (chat.EndOfLog: no
// bound), the first Limit of them, or with Backwards the last.
type EventRange struct {
	After, Before chat.Seq
	Limit         int
	Backwards     bool
}

// EventPage is a page of events in ascending order. More says that the range
// goes on beyond it, in the direction of paging.
type EventPage struct {
	Events []chat.Event
	More   bool
}

// sqlEventsForward and sqlEventsBackward: per conversation, one bounded range of
// the primary key per visible period. $3 after, $4 before, $5 rows.
var sqlEventsForward = `
SELECT ` + sqlEventColumns + `
FROM ` + sqlViewed + `
CROSS JOIN LATERAL (
  SELECT x.* FROM ` + sqlPeriods + ` q CROSS JOIN LATERAL (
    SELECT e.* FROM events e
    WHERE e.conv_id = m.conv_id AND e.seq BETWEEN greatest(q.from_seq, $3::bigint + 1) AND least(q.to_seq, $4::bigint - 1)
    ORDER BY e.seq LIMIT $5) x
  ORDER BY x.seq LIMIT $5) e ` + sqlEventJoins + `
WHERE m.user_id = $1 AND m.conv_id = ANY($2) ORDER BY e.conv_id, e.seq`

var sqlEventsBackward = `
SELECT ` + sqlEventColumns + `
FROM ` + sqlViewed + `
CROSS JOIN LATERAL (
  SELECT x.* FROM ` + sqlPeriods + ` q CROSS JOIN LATERAL (
    SELECT e.* FROM events e
    WHERE e.conv_id = m.conv_id AND e.seq BETWEEN greatest(q.from_seq, $3::bigint + 1) AND least(q.to_seq, $4::bigint - 1)
    ORDER BY e.seq DESC LIMIT $5) x
  ORDER BY x.seq DESC LIMIT $5) e ` + sqlEventJoins + `
WHERE m.user_id = $1 AND m.conv_id = ANY($2) ORDER BY e.conv_id, e.seq DESC`

// Events reads a page of events that the viewer may see.
func (vw *View) Events(ctx context.Context, c *chat.Conversation, r EventRange) (*EventPage, error) {
	page, err := loadPart(ctx, vw, &vw.eventPages, &vw.pages, r, c.ID, func(ctx context.Context, tx pgx.Tx, page []chat.ConversationID) (map[chat.ConversationID]*EventPage, error) {
		sql := sqlEventsForward
		if r.Backwards {
			sql = sqlEventsBackward
		}
		rows, err := tx.Query(ctx, sql, vw.viewer.User, page, min(r.After, chat.EndOfLog-1), r.Before, r.Limit+1)
		if err != nil {
			return nil, err
		}
		list, err := pgx.CollectRows(rows, scanEvent)
		if err != nil {
			return nil, err
		}
		vw.rememberMessages(list)
		return cutEventPages(list, r), nil
	})
	if page == nil && err == nil {
		page = &EventPage{}
	}
	return page, err
}

// cutEventPages makes pages of rows that were read one beyond the limit.
func cutEventPages(list []chat.Event, r EventRange) map[chat.ConversationID]*EventPage {
	pages := map[chat.ConversationID]*EventPage{}
	for _, e := range list {
		conv := e.Header().ConversationID
		p := pages[conv]
		if p == nil {
			p = &EventPage{}
			pages[conv] = p
		}
		if p.More = len(p.Events) == r.Limit; !p.More {
			p.Events = append(p.Events, e)
		}
	}
	if r.Backwards {
		for _, p := range pages {
			slices.Reverse(p.Events)
		}
	}
	return pages
}
