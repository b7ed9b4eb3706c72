package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"tidemark/chat"
	"tidemark/store"
)

// history is a random life of a few users in a few conversations, told to the
// store and to a naive model at once. After every step the two must agree.
type history struct {
	*world
	conn    *pgx.Conn
	prefix  string
	people  []chat.UserID
	devices []*modelDevice
	convs   []*modelConversation
	// visible is the largest head that was ever seen, by conversation (P5).
	visible map[chat.ConversationID]chat.Seq
	counts  map[string]int
	turn    int
}

type modelDevice struct {
	id        chat.DeviceID
	user      chat.UserID
	install   string
	epoch     int32
	delivered map[chat.ConversationID]chat.Seq
}

type modelConversation struct {
	id      chat.ConversationID
	log     []chat.LogEntry
	periods map[chat.UserID][]chat.Period
	read    map[chat.UserID]chat.Seq
	sent    map[string]chat.Seq // client message id of a user -> seq
}

func (c *modelConversation) head() chat.Seq { return chat.Seq(len(c.log)) }

func (c *modelConversation) member(u chat.UserID) bool {
	p := c.periods[u]
	return len(p) > 0 && p[len(p)-1].To == 0
}

func (c *modelConversation) join(u chat.UserID) {
	c.log = append(c.log, chat.LogEntry{})
	c.periods[u] = append(c.periods[u], chat.Period{From: c.head()})
}

func (c *modelConversation) leave(u chat.UserID) {
	c.log = append(c.log, chat.LogEntry{})
	c.periods[u][len(c.periods[u])-1].To = c.head()
}

// TestP1P2P4P5P6 runs random histories: the ordinal form, the counting query and
// the pure function agree for everyone after every step; the badge is the sum of
// the rows; read and delivered leave each other alone; the log only grows at its
// end; whatever is unread can be listed and brought to 0.
func TestP1P2P4P5P6RandomHistories(t *testing.T) {
	w := newWorld(t)
	conn := w.conn(t)
	counts := map[string]int{}
	histories := 0
	rapid.Check(t, func(rt *rapid.T) {
		histories++
		h := &history{world: &world{w.Store, rt, w.url, w.ctx, w.ids}, conn: conn,
			prefix: fmt.Sprintf("h%d-", w.ids.Add(1)), visible: map[chat.ConversationID]chat.Seq{}, counts: counts}
		h.begin(rt)
		short, long := rapid.IntRange(1, 40), rapid.IntRange(40, 300)
		steps := rapid.OneOf(short, short, long).Draw(rt, "steps")
		for range steps {
			h.step(rt)
			h.compare(rt)
		}
		h.bringToZero(rt)
	})
	w.noDeviations(t)
	t.Logf("%d histories", histories)
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-14s %6d", k, counts[k])
	}
}

func (h *history) begin(rt *rapid.T) {
	for _, name := range []string{"a", "b", "c"} {
		u := chat.UserID(h.prefix + name)
		h.people = append(h.people, u)
		h.users(u)
		for n := range 2 {
			d := &modelDevice{id: chat.DeviceID(fmt.Sprintf("%s-%d", u, n)), user: u, delivered: map[chat.ConversationID]chat.Seq{}}
			h.device(u, d.id)
			h.devices = append(h.devices, d)
		}
	}
	for n := range 2 {
		c := &modelConversation{id: chat.ConversationID(fmt.Sprintf("%sc%d", h.prefix, n)),
			periods: map[chat.UserID][]chat.Period{}, read: map[chat.UserID]chat.Seq{}, sent: map[string]chat.Seq{}}
		members := h.people[:2+n]
		h.group(c.id, members...)
		for _, m := range members {
			c.join(m)
		}
		h.convs = append(h.convs, c)
	}
}

func (h *history) step(rt *rapid.T) {
	c := rapid.SampledFrom(h.convs).Draw(rt, "conversation")
	u := rapid.SampledFrom(h.people).Draw(rt, "user")
	// The generator prefers what stands first.
	op := rapid.SampledFrom([]string{"send", "recall", "read", "join", "leave", "batch", "readBatch", "ack", "resend", "remove", "recall", "send", "install"}).Draw(rt, "op")
	h.counts[op]++
	if op == "join" || op == "leave" || op == "remove" {
		u = h.likely(rt, u, func(u chat.UserID) bool { return c.member(u) == (op != "join") })
	}
	switch op {
	case "send":
		h.append(c, []chat.UserID{u}, false)
	case "batch":
		h.append(c, rapid.SliceOfN(rapid.SampledFrom(h.people), 2, 5).Draw(rt, "senders"), false)
	case "resend":
		h.append(c, []chat.UserID{u}, true)
	case "recall":
		h.recall(rt, c, u)
	case "read":
		h.report(rt, []chat.UserID{u}, c)
	case "readBatch":
		h.report(rt, rapid.SliceOfN(rapid.SampledFrom(h.people), 2, 6).Draw(rt, "readers"), c)
	case "ack":
		h.acknowledge(rt, c)
	case "join":
		h.join(rt, c, u)
	case "leave", "remove":
		h.leave(c, u, op == "remove")
	case "install":
		h.install(rt)
	}
}

// likely is mostly a user of whom suits holds, if there is one, so that most
// steps do something and some do not.
func (h *history) likely(rt *rapid.T, u chat.UserID, suits func(chat.UserID) bool) chat.UserID {
	if rapid.IntRange(0, 4).Draw(rt, "unlikely") == 4 {
		return u
	}
	for _, p := range h.people {
		if suits(p) {
			return p
		}
	}
	return u
}

func (h *history) append(c *modelConversation, senders []chat.UserID, again bool) {
	h.t.Helper()
	var drafts []store.Draft
	var want []chat.Seq
	for _, u := range senders {
		id := fmt.Sprint("m", h.ids.Add(1))
		if again {
			for old, seq := range c.sent {
				if c.log[seq-1].Sender == u {
					id = old
				}
			}
		}
		drafts = append(drafts, store.Draft{Sender: u, ClientMessageID: id, Body: "x"})
		if seq, ok := c.sent[id]; ok {
			want = append(want, seq)
		} else if c.member(u) {
			c.log = append(c.log, chat.LogEntry{Message: true, Sender: u})
			c.sent[id] = c.head()
			want = append(want, c.head())
		} else {
			want = append(want, 0)
		}
	}
	got, err := h.Append(h.ctx, c.id, drafts)
	h.must(err)
	for i, r := range got {
		if r.Seq != want[i] || (want[i] == 0) != errors.Is(r.Err, &chat.Error{Code: chat.NotMember}) {
			h.t.Fatalf("append %d: seq %d, %v; want %d", i, r.Seq, r.Err, want[i])
		}
	}
}

func (h *history) recall(rt *rapid.T, c *modelConversation, u chat.UserID) {
	seq := chat.Seq(rapid.IntRange(0, int(c.head())+1).Draw(rt, "seq"))
	if rapid.Bool().Draw(rt, "own") && seq >= 1 && seq <= c.head() && c.log[seq-1].Message {
		u = c.log[seq-1].Sender
	}
	_, err := h.Recall(h.ctx, u, c.id, seq)
	var want chat.Code
	switch {
	case !c.member(u):
		want = chat.NotMember
	case seq < 1 || seq > c.head() || !c.log[seq-1].Message || !chat.Sees(c.periods[u], seq):
		want = chat.NotFound
	case c.log[seq-1].Sender != u:
		want = chat.Forbidden
	case !c.log[seq-1].Withdrawn:
		c.log[seq-1].Withdrawn = true
		c.log = append(c.log, chat.LogEntry{})
	}
	h.wantCode(err, want)
}

func (h *history) wantCode(err error, want chat.Code) {
	h.t.Helper()
	var e *chat.Error
	if want == "" && err != nil || want != "" && (!errors.As(err, &e) || e.Code != want) {
		h.t.Fatalf("error %v, want code %q", err, want)
	}
}

// report sends one batch of read reports, among them some that must be refused.
func (h *history) report(rt *rapid.T, readers []chat.UserID, c *modelConversation) {
	var reports []store.ReadReport
	for _, u := range readers {
		seq := chat.Seq(rapid.IntRange(-1, int(c.head())+2).Draw(rt, "seq"))
		reports = append(reports, store.ReadReport{User: u, Conversation: c.id, Seq: seq})
	}
	got, err := h.MarkRead(h.ctx, reports)
	h.must(err)
	for _, r := range reports {
		if v, err := chat.Cap(c.periods[r.User], c.head(), r.Seq); err == nil {
			c.read[r.User] = chat.Merge(c.read[r.User], v)
		}
	}
	for i, r := range reports {
		_, err := chat.Cap(c.periods[r.User], c.head(), r.Seq)
		var e *chat.Error
		if errors.As(err, &e) {
			h.wantCode(got[i].Err, e.Code)
		} else if got[i].Err != nil || got[i].Read != c.read[r.User] {
			h.t.Fatalf("markRead(%s, %d): %d, %v; want %d", r.User, r.Seq, got[i].Read, got[i].Err, c.read[r.User])
		}
	}
}

func (h *history) acknowledge(rt *rapid.T, c *modelConversation) {
	d := rapid.SampledFrom(h.devices).Draw(rt, "device")
	epoch := d.epoch - rapid.Int32Range(0, 1).Draw(rt, "stale")
	seq := chat.Seq(rapid.IntRange(-1, int(c.head())+2).Draw(rt, "seq"))
	got := h.ack(d.id, epoch, c.id, seq)
	if epoch != d.epoch {
		h.wantCode(got.Err, chat.StaleInstall)
		return
	}
	v, err := chat.Cap(c.periods[d.user], c.head(), seq)
	var e *chat.Error
	if errors.As(err, &e) {
		h.wantCode(got.Err, e.Code)
		return
	}
	d.delivered[c.id] = chat.Merge(d.delivered[c.id], v)
	if got.Err != nil || got.Delivered != d.delivered[c.id] {
		h.t.Fatalf("ack(%s, %d): %d, %v; want %d", d.id, seq, got.Delivered, got.Err, d.delivered[c.id])
	}
}

func (h *history) join(rt *rapid.T, c *modelConversation, u chat.UserID) {
	how := rapid.SampledFrom([]chat.HistoryOnJoin{chat.HistoryMembership, chat.HistorySinceJoin}).Draw(rt, "history")
	_, err := h.AddMembers(h.ctx, c.id, []chat.UserID{u}, how)
	h.must(err)
	if c.member(u) {
		return
	}
	if how == chat.HistorySinceJoin {
		for i := range c.periods[u] {
			c.periods[u][i].Hidden = true
		}
	}
	c.join(u)
}

func (h *history) leave(c *modelConversation, u chat.UserID, removed bool) {
	var err error
	if removed {
		_, err = h.RemoveMembers(h.ctx, c.id, []chat.UserID{u})
		h.must(err)
	} else if _, err = h.Leave(h.ctx, u, c.id); len(c.periods[u]) == 0 {
		h.wantCode(err, chat.NotMember)
	} else {
		h.must(err)
	}
	if c.member(u) {
		c.leave(u)
	}
}

func (h *history) install(rt *rapid.T) {
	d := rapid.SampledFrom(h.devices).Draw(rt, "device")
	install := rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "install")
	got, reinstalled, err := h.RegisterInstall(h.ctx, d.id, install, 0)
	h.must(err)
	want := d.install != "" && d.install != install
	if want {
		d.epoch++
		clear(d.delivered)
	}
	d.install = install
	if reinstalled != want || got.InstallEpoch != d.epoch {
		h.t.Fatalf("registerInstall: reinstalled %v, epoch %d; want %v, %d", reinstalled, got.InstallEpoch, want, d.epoch)
	}
}

// compare holds what everyone sees against the model and the counting query.
func (h *history) compare(rt *rapid.T) {
	type key struct {
		user chat.UserID
		conv chat.ConversationID
	}
	counted := map[key]int64{}
	rows, err := h.conn.Query(h.ctx, countingQuery, h.prefix)
	h.must(err)
	var k key
	var active bool
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&k.user, &k.conv, &active, &n}, func() error { counted[k] = n; return nil })
	h.must(err)

	// Everyone on one of their two devices, in turns.
	h.turn++
	for n, d := range h.devices {
		if n%2 != h.turn%2 {
			continue
		}
		sn, vw := h.view(d.user, d.id)
		seen := map[chat.ConversationID]*chat.Conversation{}
		for _, left := range []bool{false, true} {
			page, err := vw.Inbox(h.ctx, store.InboxRange{Left: left, First: 10})
			h.must(err)
			for _, c := range page.Conversations {
				if c.Membership.Active == left {
					rt.Fatalf("%s is in the wrong list", c.ID)
				}
				seen[c.ID] = c
			}
		}
		badge, err := vw.Badge(h.ctx)
		h.must(err)
		for _, m := range h.convs {
			if c := seen[m.id]; c != nil && h.turn%len(h.devices) == n { // one of them each step
				h.compareParts(rt, vw, c, m, d.user)
			}
		}
		sn.Close()
		var total int64
		for _, m := range h.convs {
			c := seen[m.id]
			if len(m.periods[d.user]) == 0 {
				if c != nil {
					rt.Fatalf("%s sees %s without ever having been a member", d.user, m.id)
				}
				continue
			}
			want := chat.Unread(m.log, m.periods[d.user], d.user, m.read[d.user])
			if c.UnreadMessages != want || counted[key{d.user, m.id}] != want || m.ordinalUnread(d.user) != want {
				rt.Fatalf("unread of %s in %s: ordinals %d, counting query %d, ordinal rule %d; want %d",
					d.user, m.id, c.UnreadMessages, counted[key{d.user, m.id}], m.ordinalUnread(d.user), want)
			}
			if c.Read != m.read[d.user] || c.Delivered != d.delivered[m.id] || c.Head != chat.End(m.periods[d.user], m.head()) {
				rt.Fatalf("%s in %s: read %d delivered %d head %d; want %d %d %d", d.id, m.id,
					c.Read, c.Delivered, c.Head, m.read[d.user], d.delivered[m.id], chat.End(m.periods[d.user], m.head()))
			}
			if m.member(d.user) {
				total += want
				if c.Head < h.visible[m.id] {
					rt.Fatalf("head of %s went back from %d to %d", m.id, h.visible[m.id], c.Head)
				}
				h.visible[m.id] = c.Head
			}
		}
		if int64(badge.Unread) != total {
			rt.Fatalf("badge of %s: %d, want the sum of its rows, %d", d.user, badge.Unread, total)
		}
	}
}

// compareParts holds the events that a user may see, and those that stand out
// among them, against the model.
func (h *history) compareParts(rt *rapid.T, vw *store.View, c *chat.Conversation, m *modelConversation, u chat.UserID) {
	var visible []chat.Seq
	var firstUnread, lastMessage chat.Seq
	for i, e := range m.log {
		seq := chat.Seq(i + 1)
		if !chat.Sees(m.periods[u], seq) {
			continue
		}
		visible = append(visible, seq)
		if e.Message {
			lastMessage = seq
		}
		if e.Message && !e.Withdrawn && e.Sender != u && seq > m.read[u] && firstUnread == 0 {
			firstUnread = seq
		}
	}
	seqOf := func(message *chat.Message, err error) chat.Seq {
		h.must(err)
		if message == nil {
			return 0
		}
		return message.Seq
	}
	if got := seqOf(vw.FirstUnread(h.ctx, c)); got != firstUnread {
		rt.Fatalf("first unread of %s in %s: %d, want %d", u, m.id, got, firstUnread)
	}
	if got := seqOf(vw.LastMessage(h.ctx, c)); got != lastMessage {
		rt.Fatalf("last message of %s in %s: %d, want %d", u, m.id, got, lastMessage)
	}
	page, err := vw.Events(h.ctx, c, store.EventRange{Before: chat.EndOfLog, Limit: 5, Backwards: true})
	h.must(err)
	var events []chat.Seq
	for _, e := range page.Events {
		events = append(events, e.Header().Seq)
	}
	if want := visible[max(0, len(visible)-5):]; !slices.Equal(events, want) || page.More != (len(visible) > 5) {
		rt.Fatalf("last events of %s in %s: %v, more %v; want %v of %d", u, m.id, events, page.More, want, len(visible))
	}
	if c.MinSeq != visible[0] {
		rt.Fatalf("first seq of %s in %s: %d, want %d", u, m.id, c.MinSeq, visible[0])
	}
}

// ordinalUnread is the ordinal form of the rule over the model's own log.
func (c *modelConversation) ordinalUnread(u chat.UserID) int64 {
	var periods []chat.OrdinalPeriod
	var withdrawn int64
	read := c.read[u]
	for _, p := range c.periods[u] {
		if p.Hidden {
			continue
		}
		to := p.To
		if to == 0 {
			to = c.head()
		}
		periods = append(periods, chat.OrdinalPeriod{Before: chat.OrdinalAt(c.log, u, p.From-1), Through: chat.OrdinalAt(c.log, u, to)})
		for seq := max(p.From, read+1); seq <= to; seq++ {
			if e := c.log[seq-1]; e.Withdrawn && e.Sender != u {
				withdrawn++
			}
		}
	}
	return chat.UnreadByOrdinals(periods, chat.OrdinalAt(c.log, u, read), withdrawn)
}

// bringToZero reads everything that is listed as unread up to its head.
func (h *history) bringToZero(rt *rapid.T) {
	unread := true
	for _, u := range h.people {
		for _, c := range h.inbox(u, store.InboxRange{Unread: &unread}) {
			h.must(h.read(u, c.ID, c.Head).Err)
		}
		if b := h.badge(u); b.Unread != 0 || b.Conversations != 0 {
			rt.Fatalf("after reading everything the badge of %s is %+v", u, b)
		}
	}
}
