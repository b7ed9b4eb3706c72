package store_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
	"tidemark/store"
)

// compare holds what a viewer sees, or what everyone does, against the model.
func (h *history) compare(everyone bool) {
	h.t.Helper()
	viewers := slices.DeleteFunc(slices.Clone(h.devices), func(d *modelDevice) bool { return d.revoked })
	if len(viewers) == 0 {
		return
	}
	if everyone {
		h.compareCounting()
	} else {
		viewers = []*modelDevice{viewers[h.turn/4%len(viewers)]}
	}
	for _, d := range viewers {
		h.compareViewer(d, everyone)
	}
}

// compareViewer holds what one user sees on one device, in one snapshot, against the model.
func (h *history) compareViewer(d *modelDevice, thoroughly bool) {
	h.t.Helper()
	sn, vw := h.view(d.user, d.id)
	defer sn.Close()
	size := 50
	if thoroughly {
		size = 2
		h.compareFilters(vw, d.user)
	}
	rows := h.compareLists(vw, d, size)
	h.compareBadge(vw, d.user)
	for _, c := range h.convs {
		if row := rows[c.id]; row != nil && (thoroughly || h.turn%len(h.convs) == int(c.head())%len(h.convs)) {
			h.compareParts(vw, row, c, d.user)
			h.compareReceipts(vw, row, c, d.user)
		}
	}
	h.compareCopy(vw, d, rows)
}

// compareCounting holds the model against the counting query.
func (h *history) compareCounting() {
	h.t.Helper()
	rows, err := h.conn.Query(h.ctx, countingQuery, h.prefix)
	h.must(err)
	var u chat.UserID
	var conv chat.ConversationID
	var active bool
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&u, &conv, &active, &n}, func() error {
		c := h.conversation(conv)
		if h.persons[u].erased {
			return nil
		}
		if c.unread(u) != n || c.ordinalUnread(u) != n {
			h.t.Fatalf("unread of %s in %s: counted %d, by the rule %d, by ordinals %d", u, conv, n, c.unread(u), c.ordinalUnread(u))
		}
		return nil
	})
	h.must(err)
}

// compareLists reads every list of the viewer, in pages of size, and holds each
// row, and the order, against the model.
func (h *history) compareLists(vw *store.View, d *modelDevice, size int) map[chat.ConversationID]*chat.Conversation {
	h.t.Helper()
	seen := map[chat.ConversationID]*chat.Conversation{}
	for _, r := range []store.InboxRange{{}, {Archived: true}, {Left: true}, {Left: true, Archived: true}} {
		r.First = size
		var last *chat.Conversation
		for more := true; more; {
			page, err := vw.Inbox(h.ctx, r)
			h.must(err)
			for _, c := range page.Conversations {
				m := h.conversation(c.ID)
				if m.member(d.user) == r.Left || m.archived(d.user) != r.Archived {
					h.t.Fatalf("%s is in the wrong list of %s: %+v", c.ID, d.user, r)
				}
				if last != nil && !before(last, c) {
					h.t.Fatalf("%s stands before %s in the list of %s", last.ID, c.ID, d.user)
				}
				last, seen[c.ID] = c, c
			}
			if more = page.More; more {
				r.After = &store.InboxKey{Pinned: last.Pinned, Activity: last.LastActivityAt.Time, ID: last.ID}
			}
		}
	}
	for _, c := range h.convs {
		row := seen[c.id]
		if (row != nil) != c.ever(d.user) {
			h.t.Fatalf("%s in the lists of %s: %v", c.id, d.user, row)
		}
		if row == nil {
			continue
		}
		if got, want := seenRow(row), c.row(d.user, d, pullAbove); got != want {
			h.t.Fatalf("%s sees\n%s, want\n%s", d.id, got, want)
		}
		if c.member(d.user) {
			if row.Head < h.visible[c.id] {
				h.t.Fatalf("head of %s went back from %d to %d", c.id, h.visible[c.id], row.Head)
			}
			h.visible[c.id] = row.Head
		}
	}
	return seen
}

// before is the order of the list.
func before(a, b *chat.Conversation) bool {
	if a.Pinned != b.Pinned {
		return a.Pinned
	}
	if x, y := a.LastActivityAt.Time, b.LastActivityAt.Time; !x.Equal(y) {
		return x.After(y)
	}
	return a.ID > b.ID
}

func (h *history) compareFilters(vw *store.View, u chat.UserID) {
	h.t.Helper()
	yes, no := true, false
	for _, choice := range []*bool{&yes, &no} {
		attention, err := vw.Inbox(h.ctx, store.InboxRange{Unread: choice, First: 50})
		h.must(err)
		mentioned, err := vw.Inbox(h.ctx, store.InboxRange{Mentioned: choice, First: 50})
		h.must(err)
		var n, m int
		for _, c := range h.convs {
			if !c.member(u) || c.archived(u) {
				continue
			}
			if counts := c.counts(u); counts.Attention() == *choice {
				n++
			}
			if mentions, _ := c.mentions(u); (mentions > 0) == *choice {
				m++
			}
		}
		if len(attention.Conversations) != n || len(mentioned.Conversations) != m {
			h.t.Fatalf("filters %v of %s: %d and %d rows, want %d and %d", *choice, u, len(attention.Conversations), len(mentioned.Conversations), n, m)
		}
	}
}

func (h *history) compareBadge(vw *store.View, u chat.UserID) {
	h.t.Helper()
	badge, err := vw.Badge(h.ctx)
	h.must(err)
	want := h.sumBadge(u)
	if want.Version = badge.Version; *badge != want {
		h.t.Fatalf("badge of %s: %+v, want %+v", u, *badge, want)
	}
}

// compareParts holds the events that a user may see, and those that stand out
// among them, against the model.
func (h *history) compareParts(vw *store.View, row *chat.Conversation, c *modelConversation, u chat.UserID) {
	h.t.Helper()
	visible, firstUnread, lastMessage, activity := c.landmarks(u)
	_, firstMention := c.mentions(u)
	check := func(what string, message *chat.Message, err error, want chat.Seq) {
		h.t.Helper()
		h.must(err)
		got := chat.Seq(0)
		if message != nil {
			got = message.Seq
			h.compareMessage(message, c, u)
		}
		if got != want {
			h.t.Fatalf("%s of %s in %s: %d, want %d", what, u, c.id, got, want)
		}
	}
	m, err := vw.FirstUnread(h.ctx, row)
	check("first unread", m, err, firstUnread)
	m, err = vw.LastMessage(h.ctx, row)
	check("last message", m, err, lastMessage)
	m, err = vw.FirstUnreadMention(h.ctx, row)
	check("first unread mention", m, err, firstMention)
	page, err := vw.Events(h.ctx, row, store.EventRange{Before: chat.EndOfLog, Limit: 5, Backwards: true})
	h.must(err)
	var events []chat.Seq
	for _, e := range page.Events {
		events = append(events, e.Header().Seq)
		if m, ok := e.(*chat.Message); ok {
			h.compareMessage(m, c, u)
		}
	}
	if want := visible[max(0, len(visible)-5):]; !slices.Equal(events, want) || page.More != (len(visible) > 5) {
		h.t.Fatalf("last events of %s in %s: %v, more %v; want %v of %d", u, c.id, events, page.More, want, len(visible))
	}
	h.compareActivity(row, c, u, activity)
}

func (h *history) compareMessage(m *chat.Message, c *modelConversation, u chat.UserID) {
	h.t.Helper()
	withdrawn := c.log[m.Seq-1].Withdrawn
	wantBody, wantMentions, wantAll := c.content(u, m.Seq)
	body, mentions := "", []chat.UserID(nil)
	if m.Body != nil {
		body = *m.Body
	}
	for _, u := range m.Mentions {
		mentions = append(mentions, u.ID)
	}
	if body != wantBody || (m.Recalled || m.TakenDown) != withdrawn || m.MentionsAll != wantAll || !slices.Equal(mentions, wantMentions) && len(mentions)+len(wantMentions) > 0 {
		h.t.Fatalf("message %d of %s for %s: %q %v %+v, want %q %v %v, withdrawn %v", m.Seq, c.id, u, body, mentions, m, wantBody, wantMentions, wantAll, withdrawn)
	}
}

const activityQuery = `SELECT at FROM events WHERE conv_id = $1 AND seq = $2`

// compareActivity: the time of the newest message or notice, else of the newest join.
func (h *history) compareActivity(row *chat.Conversation, c *modelConversation, u chat.UserID, activity chat.Seq) {
	h.t.Helper()
	if activity == 0 {
		periods := c.periods[u]
		activity = periods[len(periods)-1].From
	}
	var at time.Time
	h.must(h.conn.QueryRow(h.ctx, activityQuery, c.id, activity).Scan(&at))
	if !row.LastActivityAt.Time.Equal(at) {
		h.t.Fatalf("activity of %s for %s: %v, want that of %d, %v", c.id, u, row.LastActivityAt, activity, at)
	}
}

// compareReceipts holds the receipts of the last visible messages against the model.
func (h *history) compareReceipts(vw *store.View, row *chat.Conversation, c *modelConversation, u chat.UserID) {
	h.t.Helper()
	page, err := vw.Events(h.ctx, row, store.EventRange{Before: chat.EndOfLog, Limit: 12, Backwards: true})
	h.must(err)
	for _, e := range page.Events {
		m, ok := e.(*chat.Message)
		if !ok {
			continue
		}
		receipt, err := vw.Receipt(h.ctx, m)
		h.must(err)
		shown := c.member(u) && c.policy.Shows(c.log[m.Seq-1].Sender == u, h.persons[u].shares)
		if (receipt != nil) != shown {
			h.t.Fatalf("receipt of %d in %s for %s under %s: %v, want one: %v", m.Seq, c.id, u, c.policy, receipt, shown)
		}
		if receipt == nil {
			continue
		}
		delivered, err := vw.DeliveredCount(h.ctx, receipt)
		h.must(err)
		readers, pending, got := h.receipt(c, m.Seq)
		if int(receipt.ReadCount) != len(readers) || int(receipt.Audience) != len(readers)+len(pending) || delivered != got ||
			receipt.Detail != chat.Detail(c.members(), namesBelow) {
			h.t.Fatalf("receipt of %d in %s: %+v, delivered %d; want %v read, %v not, delivered %d", m.Seq, c.id, receipt, delivered, readers, pending, got)
		}
		if receipt.Detail == chat.DetailNames {
			h.compareReaders(vw, receipt, false, readers)
			h.compareReaders(vw, receipt, true, pending)
		}
	}
}

func (h *history) compareReaders(vw *store.View, receipt *chat.Receipt, pending bool, want []chat.UserID) {
	h.t.Helper()
	page, err := vw.Readers(h.ctx, receipt, store.ReaderRange{Pending: pending, Limit: 10})
	h.must(err)
	var got []chat.UserID
	for _, r := range page.Readers {
		got = append(got, r.User.ID)
	}
	if !slices.Equal(got, want) {
		h.t.Fatalf("readers (pending %v) of %+v: %v, want %v", pending, receipt, got, want)
	}
}

// compareCopy brings the device's copy up to date by changes, and holds it
// against what the lists have just given (P9).
func (h *history) compareCopy(vw *store.View, d *modelDevice, rows map[chat.ConversationID]*chat.Conversation) {
	h.t.Helper()
	fresh := func() {
		token, err := vw.SyncToken(h.ctx)
		h.must(err)
		d.copy, d.token = maps.Clone(rows), token
	}
	if d.token == "" {
		fresh()
		return
	}
	for {
		page, err := vw.Changes(h.ctx, d.token, 1+h.turn%3)
		h.must(err)
		if page.Resync { // of an older install
			fresh()
			break
		}
		for _, c := range page.Changed {
			d.copy[c.ID] = c
		}
		for _, key := range page.Withdrawn {
			if e := h.conversation(key.Conversation).log[key.Seq-1]; !e.Withdrawn {
				h.t.Fatalf("%+v is said to be withdrawn", key)
			}
		}
		if d.token = page.SyncToken; !page.More {
			break
		}
	}
	if len(d.copy) != len(rows) {
		h.t.Fatalf("the copy of %s has %d conversations, want %d", d.id, len(d.copy), len(rows))
	}
	for id, c := range rows {
		if got, want := seenRow(d.copy[id]), seenRow(c); got != want || !d.copy[id].LastActivityAt.Equal(c.LastActivityAt.Time) {
			h.t.Fatalf("the copy of %s holds\n%s, but it is\n%s", d.id, got, want)
		}
	}
}

// bringToZero reads everything that counts up to its head, mentions included.
func (h *history) bringToZero() {
	h.t.Helper()
	for _, u := range h.people() {
		for _, c := range h.inbox(u, store.InboxRange{}) {
			h.must(h.read(u, c.ID, c.Head).Err)
			m := h.conversation(c.ID)
			m.positions[u] = m.positions[u].MarkRead(c.Head, false)
		}
		if b := h.sumBadge(u); b != (chat.Badge{}) {
			h.t.Fatalf("the model's badge of %s is %+v", u, b)
		}
		if b := h.badge(u); *b != (chat.Badge{Version: b.Version}) {
			h.t.Fatalf("after reading everything the badge of %s is %s", u, fmt.Sprintf("%+v", *b))
		}
	}
}
