package store_test

import (
	"errors"
	"slices"

	"pgregory.net/rapid"

	"tidemark/chat"
	"tidemark/store"
)

// What users read and devices receive.

// report sends one batch of read reports, among them some that must be refused.
func (h *history) report(c *modelConversation, n int) func() {
	var reports []store.ReadReport
	for range n {
		u := h.likely(c.ever)
		reports = append(reports, store.ReadReport{User: u, Conversation: c.id, Seq: h.seqIn(c), Revision: h.revision(c, u), KeepMentions: h.chance(6)})
	}
	return func() {
		h.counts["markRead"] += n
		h.judgeReports(reports)
	}
}

// judgeReports sends reports as one batch. Each is judged by the position before
// the batch; those that are accepted merge.
func (h *history) judgeReports(reports []store.ReadReport) {
	h.t.Helper()
	got, err := h.MarkRead(h.ctx, reports)
	h.must(err)
	type key struct {
		c *modelConversation
		u chat.UserID
	}
	before := map[key]chat.Position{}
	accepted := make([]bool, len(reports))
	for i, r := range reports {
		c := h.conversation(r.Conversation)
		k := key{c, r.User}
		if _, known := before[k]; !known {
			before[k] = c.positions[r.User]
		}
		v, err := chat.Cap(c.periods[r.User], c.head(), r.Seq)
		if h.persons[r.User].erased {
			err = chat.ErrUnauthenticated()
		}
		var refusal *chat.Error
		if errors.As(err, &refusal) {
			h.wantCode(got[i].Err, refusal.Code)
			continue
		}
		h.must(got[i].Err)
		if accepted[i] = before[k].Accepts(r.Revision); accepted[i] {
			c.positions[r.User] = c.positions[r.User].MarkRead(v, r.KeepMentions)
		}
	}
	for i, r := range reports {
		c := h.conversation(r.Conversation)
		is := c.positions[r.User]
		if got[i].Err != nil {
			continue
		}
		if got[i].Read != is.Read || got[i].Revision != is.Revision || got[i].Moved != (accepted[i] && is != before[key{c, r.User}]) {
			h.t.Fatalf("markRead %+v: %+v; want %+v, accepted %v, before %+v", r, got[i], is, accepted[i], before[key{c, r.User}])
		}
	}
}

func (h *history) conversation(id chat.ConversationID) *modelConversation {
	return h.convs[slices.IndexFunc(h.convs, func(c *modelConversation) bool { return c.id == id })]
}

func (h *history) markUnread(c *modelConversation) func() {
	u := h.likely(func(u chat.UserID) bool { return c.positions[u].Read > 0 })
	ask := store.Unreading{}
	if !h.chance(4) {
		from := max(1, h.seqIn(c))
		if read := c.positions[u].Read; read > 0 && !h.chance(3) {
			from = chat.Seq(rapid.IntRange(1, int(read)).Draw(h.rt, "from"))
		}
		ask.From, ask.Expected = &from, c.positions[u].Read
		if h.chance(8) {
			ask.Expected++
		}
	}
	return func() {
		h.counts["markUnread"]++
		after, err := h.MarkUnread(h.ctx, u, c.id, ask)
		p := c.positions[u]
		switch {
		case h.persons[u].erased:
			h.wantCode(err, chat.Unauthenticated)
			return
		case !c.ever(u):
			h.wantCode(err, chat.NotMember)
			return
		case ask.From == nil:
			p = p.Remind()
		case c.member(u) && *ask.From > c.head():
			h.wantCode(err, chat.CursorAhead)
			return
		case ask.Expected != p.Read:
			h.wantCode(err, chat.ReadMoved)
			return
		default:
			p = p.MarkUnread(*ask.From)
		}
		h.must(err)
		if after != p {
			h.t.Fatalf("markUnread %+v: %+v, want %+v", ask, after, p)
		}
		c.positions[u] = p
	}
}

func (h *history) readAll() func() {
	u, mentions := h.somebody(), rapid.Bool().Draw(h.rt, "mentions")
	return func() {
		h.counts["markAllRead"]++
		got, err := h.ReadEverything(h.ctx, u, mentions)
		h.must(err)
		var want []chat.ConversationID
		for _, c := range h.convs {
			if !c.ever(u) || h.persons[u].erased {
				continue
			}
			p := c.positions[u]
			if c.positions[u] = p.MarkRead(c.end(u), !mentions); c.positions[u] != p {
				want = append(want, c.id)
			}
		}
		var changed []chat.ConversationID
		for _, r := range got {
			changed = append(changed, r.Conversation)
		}
		if !slices.Equal(slices.Sorted(slices.Values(want)), changed) {
			h.t.Fatalf("markAllRead of %s: %v, want %v", u, changed, want)
		}
	}
}

func (h *history) readUpTo() func() {
	u, mentions := h.somebody(), rapid.Bool().Draw(h.rt, "mentions")
	var reports []store.ReadReport
	for _, c := range h.convs {
		if h.chance(2) {
			reports = append(reports, store.ReadReport{User: u, Conversation: c.id, Seq: h.seqIn(c), Revision: h.revision(c, u), KeepMentions: !mentions})
		}
	}
	return func() {
		h.counts["markAllRead"]++
		h.judgeReports(reports)
	}
}

func (h *history) acknowledge(c *modelConversation) func() {
	d := rapid.SampledFrom(h.devices).Draw(h.rt, "device")
	epoch := d.epoch
	if h.chance(5) {
		epoch--
	}
	seq := h.seqIn(c)
	return func() {
		h.counts["ack"]++
		got := h.ack(d.id, epoch, c.id, seq)
		switch {
		case d.revoked || h.persons[d.user].erased:
			h.wantCode(got.Err, chat.Unauthenticated)
			return
		case epoch != d.epoch:
			h.wantCode(got.Err, chat.StaleInstall)
			return
		}
		v, err := chat.Cap(c.periods[d.user], c.head(), seq)
		var e *chat.Error
		if errors.As(err, &e) {
			h.wantCode(got.Err, e.Code)
			return
		}
		was := d.delivered[c.id]
		d.delivered[c.id] = chat.Merge(was, v)
		if got.Err != nil || got.Delivered != d.delivered[c.id] || got.Moved != (d.delivered[c.id] != was) {
			h.t.Fatalf("ack(%s, %d): %+v; want %d from %d", d.id, seq, got, d.delivered[c.id], was)
		}
	}
}

func (h *history) register() func() {
	d := rapid.SampledFrom(h.devices).Draw(h.rt, "device")
	install := rapid.SampledFrom([]string{"one", "two"}).Draw(h.rt, "install")
	return func() {
		h.counts["registerInstall"]++
		got, reinstalled, err := h.RegisterInstall(h.ctx, d.id, install, 0)
		if d.revoked || h.persons[d.user].erased {
			h.wantCode(err, chat.Unauthenticated)
			return
		}
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
}
