package store_test

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"tidemark/chat"
	"tidemark/store"
)

// What members and the service say: messages, edits, withdrawals, notices.

func (h *history) draft(c *modelConversation, u chat.UserID) store.Draft {
	d := store.Draft{Sender: u, ClientMessageID: fmt.Sprint("m", h.ids.Add(1)), Body: fmt.Sprint("body ", h.ids.Add(1))}
	if h.chance(3) {
		d.Mentions = rapid.SliceOfN(rapid.Custom(func(*rapid.T) chat.UserID { return h.somebody() }), 0, 3).Draw(h.rt, "mentions")
	}
	d.MentionsAll = h.chance(8)
	if h.chance(4) {
		seq := h.seqIn(c)
		d.ReadUpTo, d.ReadRevision = &seq, h.revision(c, u)
	}
	return d
}

// revision is none, the present one, an older or a newer one.
func (h *history) revision(c *modelConversation, u chat.UserID) *int32 {
	if h.chance(2) {
		return nil
	}
	r := max(0, c.positions[u].Revision+rapid.Int32Range(-1, 1).Draw(h.rt, "revision"))
	return &r
}

// say is what a draft must answer, and what it does to the model.
func (c *modelConversation) say(d store.Draft, head chat.Seq) (seq chat.Seq, code chat.Code) {
	if first, again := c.sent[d.ClientMessageID]; again && first.Sender == d.Sender {
		return c.seqs[d.ClientMessageID], ""
	}
	switch {
	case !c.member(d.Sender):
		return 0, chat.NotMember
	case d.ReadUpTo != nil && (*d.ReadUpTo < 0 || *d.ReadUpTo > head):
		return 0, chat.CursorAhead
	}
	seq = c.append(d)
	if p := c.positions[d.Sender]; d.ReadUpTo != nil && p.Accepts(d.ReadRevision) {
		c.positions[d.Sender] = p.MarkRead(*d.ReadUpTo, false)
	}
	return seq, ""
}

func (h *history) post(c *modelConversation, drafts ...store.Draft) {
	h.t.Helper()
	h.counts["sendMessage"] += len(drafts)
	got, err := h.Append(h.ctx, c.id, drafts)
	h.must(err)
	head := c.head()
	for i, d := range drafts {
		_, again := c.sent[d.ClientMessageID]
		seq, code := c.say(d, head)
		h.wantCode(got[i].Err, code)
		if got[i].Seq != seq || got[i].Duplicate != (again && code == "") {
			h.t.Fatalf("append %+v: %+v; want seq %d, duplicate %v", d, got[i], seq, again)
		}
	}
}

func (h *history) send(c *modelConversation) func() {
	d := h.draft(c, h.likely(c.member))
	return func() { h.post(c, d) }
}

func (h *history) sendBatch(c *modelConversation) func() {
	var drafts []store.Draft
	for range rapid.IntRange(2, 5).Draw(h.rt, "drafts") {
		d := h.draft(c, h.likely(c.member))
		if slices.ContainsFunc(drafts, func(other store.Draft) bool { return other.Sender == d.Sender && other.ReadUpTo != nil }) {
			d.ReadUpTo = nil // of two reports in one call the revisions are merged; once is enough
		}
		drafts = append(drafts, d)
	}
	return func() { h.post(c, drafts...) }
}

func (h *history) resend(c *modelConversation) func() {
	ids := slices.Sorted(maps.Keys(c.sent))
	if len(ids) == 0 {
		return func() {}
	}
	d := c.sent[rapid.SampledFrom(ids).Draw(h.rt, "sent")]
	if !h.chance(3) {
		return func() { h.post(c, d) }
	}
	return func() {
		if _, still := c.sent[d.ClientMessageID]; !still {
			return // forgotten with its sender
		}
		h.counts["sendMessage"]++
		other := d
		other.Body += "!"
		got, err := h.Append(h.ctx, c.id, []store.Draft{other})
		h.must(err)
		h.wantCode(got[0].Err, chat.IdempotencyConflict)
	}
}

// own is what a call about the caller's own message at seq must answer.
func (c *modelConversation) own(u chat.UserID, seq chat.Seq) chat.Code {
	switch {
	case !c.member(u):
		return chat.NotMember
	case seq < 0:
		return chat.CursorAhead
	case !c.message(seq) || !chat.Sees(c.periods[u], seq):
		return chat.NotFound
	case c.log[seq-1].Sender != u:
		return chat.Forbidden
	}
	return ""
}

func (h *history) recall(c *modelConversation) func() {
	seq, u := h.messageIn(c)
	return func() {
		h.counts["recallMessage"]++
		changed, err := h.Recall(h.ctx, u, c.id, seq)
		code := c.own(u, seq)
		h.wantCode(err, code)
		want := code == "" && !c.log[seq-1].Withdrawn
		if want {
			c.withdraw(seq)
			c.event()
		}
		h.changed("recall", changed, want)
	}
}

func (h *history) changed(what string, got, want bool) {
	h.t.Helper()
	if got != want {
		h.t.Fatalf("%s: changed %v, want %v", what, got, want)
	}
}

func (h *history) edit(c *modelConversation) func() {
	seq, u := h.messageIn(c)
	e := store.Edit{Body: fmt.Sprint("edit ", h.ids.Add(1))}
	if h.chance(3) && c.message(seq) {
		e.Body = c.bodies[seq]
	}
	if h.chance(2) {
		list := rapid.SliceOfN(rapid.Custom(func(*rapid.T) chat.UserID { return h.somebody() }), 0, 3).Draw(h.rt, "mentions")
		e.Mentions = &list
	}
	if h.chance(3) {
		all := rapid.Bool().Draw(h.rt, "all")
		e.MentionsAll = &all
	}
	return func() {
		h.counts["editMessage"]++
		changed, err := h.Edit(h.ctx, u, c.id, seq, e)
		code := c.own(u, seq)
		if code == "" && c.log[seq-1].Withdrawn {
			code = chat.NotFound
		}
		h.wantCode(err, code)
		h.changed("edit", changed, code == "" && c.edit(seq, e))
	}
}

// edit changes the model's message and tells whether anything differs.
func (c *modelConversation) edit(seq chat.Seq, e store.Edit) bool {
	old := c.log[seq-1]
	is := old
	if e.Mentions != nil {
		is.Mentions = nil
		for _, u := range *e.Mentions {
			if c.member(u) && chat.Sees(c.periods[u], seq) && !slices.Contains(is.Mentions, u) {
				is.Mentions = append(is.Mentions, u)
			}
		}
	}
	if e.MentionsAll != nil {
		is.MentionsAll = *e.MentionsAll
	}
	if e.Body == c.bodies[seq] && slices.Equal(is.Mentions, old.Mentions) && is.MentionsAll == old.MentionsAll {
		return false
	}
	c.edits[seq] = append(c.edits[seq], modelEdit{c.head() + 1, c.bodies[seq], old.Mentions, old.MentionsAll})
	is.Since = map[chat.UserID]chat.Seq{}
	for _, u := range is.Mentions {
		if is.Since[u] = old.Since[u]; !slices.Contains(old.Mentions, u) {
			is.Since[u] = c.head() + 1
		}
	}
	if is.Since[""] = old.Since[""]; is.MentionsAll && !old.MentionsAll {
		is.Since[""] = c.head() + 1
	}
	c.log[seq-1], c.bodies[seq] = is, e.Body
	c.event()
	return true
}

func (h *history) takeDown(c *modelConversation) func() {
	seq, _ := h.messageIn(c)
	return func() {
		h.counts["takeDownMessage"]++
		changed, err := h.TakeDown(h.ctx, c.id, seq)
		if seq < 0 {
			h.wantCode(err, chat.CursorAhead)
			return
		}
		if !c.message(seq) {
			h.wantCode(err, chat.NotFound)
			return
		}
		h.must(err)
		h.changed("take down", changed, !c.log[seq-1].Withdrawn)
		c.withdraw(seq)
	}
}

func (h *history) notice(c *modelConversation) func() {
	var id *string
	if h.chance(2) {
		text := fmt.Sprint("notice", rapid.IntRange(0, 5).Draw(h.rt, "notice"))
		id = &text
	}
	return func() {
		h.counts["postNotice"]++
		appended, err := h.PostNotice(h.ctx, c.id, "line", id)
		h.must(err)
		want := id == nil || !c.noticeIDs[*id]
		h.changed("notice", appended, want)
		if want {
			c.event()
			c.notices[c.head()] = true
		}
		if id != nil {
			c.noticeIDs[*id] = true
		}
	}
}

func (h *history) update(c *modelConversation) func() {
	change := store.ConversationChange{Retitle: h.chance(2)}
	if change.Retitle && !h.chance(4) {
		title := fmt.Sprint("title", rapid.IntRange(0, 3).Draw(h.rt, "title"))
		change.Title = &title
	}
	if h.chance(2) {
		policy := rapid.SampledFrom([]chat.ReceiptPolicy{chat.ReceiptsSender, chat.ReceiptsMembers, chat.ReceiptsOff, chat.ReceiptsRequired}).Draw(h.rt, "policy")
		change.Policy = &policy
	}
	return func() {
		h.counts["updateConversation"]++
		got, err := h.UpdateConversation(h.ctx, c.id, change)
		h.must(err)
		want := store.Changed{
			Title:  change.Retitle && text(change.Title) != text(c.title),
			Policy: change.Policy != nil && *change.Policy != c.policy,
		}
		if got != want {
			h.t.Fatalf("update %+v: %+v, want %+v", change, got, want)
		}
		if want.Title {
			c.title = change.Title
			c.event()
			c.notices[c.head()] = true
		}
		if want.Policy {
			c.policy = *change.Policy
		}
	}
}

func text(s *string) string {
	if s == nil {
		return "no text"
	}
	return "text " + *s
}
