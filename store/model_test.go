package store_test

import (
	"fmt"
	"maps"
	"slices"

	"tidemark/chat"
	"tidemark/store"
)

// The naive model that random histories are held against: plain lists, and the
// rules of package chat applied one by one.

type modelUser struct {
	id     chat.UserID
	shares bool
	erased bool
}

type modelDevice struct {
	id        chat.DeviceID
	user      chat.UserID
	install   string
	epoch     int32
	revoked   bool
	delivered map[chat.ConversationID]chat.Seq
	// copy is what a client on this device holds, kept by changes since token.
	copy  map[chat.ConversationID]*chat.Conversation
	token string
}

// modelSettings are a member's; archivedAt is 0 while never archived.
type modelSettings struct {
	pinned, muted bool
	archivedAt    chat.Seq
}

// modelEdit is what an edit at a seq replaced.
type modelEdit struct {
	at       chat.Seq
	body     string
	mentions []chat.UserID
	all      bool
}

// modelEnd is what one who has left goes on seeing.
type modelEnd struct {
	title   *string
	policy  chat.ReceiptPolicy
	members int32
}

type modelConversation struct {
	id        chat.ConversationID
	title     *string
	policy    chat.ReceiptPolicy
	log       []chat.LogEntry
	notices   map[chat.Seq]bool
	noticeIDs map[string]bool
	bodies    map[chat.Seq]string
	edits     map[chat.Seq][]modelEdit
	periods   map[chat.UserID][]chat.Period
	caps      map[chat.UserID]map[chat.Seq]chat.Seq // delivered when a period was hidden, by its From
	positions map[chat.UserID]chat.Position
	settings  map[chat.UserID]modelSettings
	ends      map[chat.UserID]modelEnd
	sent      map[string]store.Draft // by client message id
	seqs      map[string]chat.Seq
}

func newModelConversation(id chat.ConversationID) *modelConversation {
	return &modelConversation{id: id, policy: chat.ReceiptsSender, notices: map[chat.Seq]bool{}, noticeIDs: map[string]bool{}, bodies: map[chat.Seq]string{}, edits: map[chat.Seq][]modelEdit{},
		periods: map[chat.UserID][]chat.Period{}, caps: map[chat.UserID]map[chat.Seq]chat.Seq{}, positions: map[chat.UserID]chat.Position{},
		settings: map[chat.UserID]modelSettings{}, ends: map[chat.UserID]modelEnd{}, sent: map[string]store.Draft{}, seqs: map[string]chat.Seq{}}
}

func (c *modelConversation) head() chat.Seq { return chat.Seq(len(c.log)) }

func (c *modelConversation) ever(u chat.UserID) bool { return len(c.periods[u]) > 0 }

func (c *modelConversation) member(u chat.UserID) bool {
	p := c.periods[u]
	return len(p) > 0 && p[len(p)-1].To == 0
}

func (c *modelConversation) members() (n int32) {
	for u := range c.periods {
		if c.member(u) {
			n++
		}
	}
	return n
}

func (c *modelConversation) end(u chat.UserID) chat.Seq { return chat.End(c.periods[u], c.head()) }

func (c *modelConversation) message(seq chat.Seq) bool {
	return seq >= 1 && seq <= c.head() && c.log[seq-1].Message
}

// event appends one that is no message.
func (c *modelConversation) event() { c.log = append(c.log, chat.LogEntry{}) }

func (c *modelConversation) join(u chat.UserID) {
	c.event()
	delete(c.ends, u)
	c.periods[u] = append(c.periods[u], chat.Period{From: c.head()})
}

func (c *modelConversation) leave(u chat.UserID) {
	c.ends[u] = modelEnd{c.title, c.policy, c.members()}
	c.event()
	c.periods[u][len(c.periods[u])-1].To = c.head()
}

func (c *modelConversation) append(d store.Draft) chat.Seq {
	e := chat.LogEntry{Message: true, Sender: d.Sender, MentionsAll: d.MentionsAll}
	for _, u := range d.Mentions {
		if c.member(u) && !slices.Contains(e.Mentions, u) {
			e.Mentions = append(e.Mentions, u)
		}
	}
	c.log = append(c.log, e)
	c.bodies[c.head()] = d.Body
	c.sent[d.ClientMessageID], c.seqs[d.ClientMessageID] = d, c.head()
	return c.head()
}

func (c *modelConversation) withdraw(seq chat.Seq) {
	e := &c.log[seq-1]
	e.Withdrawn, e.Mentions, e.MentionsAll, e.Since = true, nil, false, nil
	delete(c.bodies, seq)
	delete(c.edits, seq)
}

// content is what u sees of a message: for one who has left, what it held then.
func (c *modelConversation) content(u chat.UserID, seq chat.Seq) (body string, mentions []chat.UserID, all bool) {
	if !c.member(u) {
		for _, e := range c.edits[seq] {
			if e.at > c.end(u) {
				return e.body, e.mentions, e.all
			}
		}
	}
	return c.bodies[seq], c.log[seq-1].Mentions, c.log[seq-1].MentionsAll
}

func (c *modelConversation) archived(u chat.UserID) bool {
	at := c.settings[u].archivedAt
	return at != 0 && chat.ArchiveLasts(c.log, c.periods[u], u, at)
}

func (c *modelConversation) unread(u chat.UserID) int64 {
	return chat.Unread(c.log, c.periods[u], u, c.positions[u].Read)
}

func (c *modelConversation) mentions(u chat.UserID) (int64, chat.Seq) {
	return chat.UnreadMentions(c.log, c.periods[u], u, c.positions[u].Mention)
}

// ordinalUnread is the ordinal form of the rule over the model's own log.
func (c *modelConversation) ordinalUnread(u chat.UserID) int64 {
	var periods []chat.OrdinalPeriod
	var withdrawn int64
	read := c.positions[u].Read
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

// landmarks are the seqs that stand out among what u may see; 0 where there is none.
func (c *modelConversation) landmarks(u chat.UserID) (visible []chat.Seq, firstUnread, lastMessage, activity chat.Seq) {
	for i, e := range c.log {
		seq := chat.Seq(i + 1)
		if !chat.Sees(c.periods[u], seq) {
			continue
		}
		visible = append(visible, seq)
		if e.Message {
			lastMessage = seq
		}
		if e.Message || c.notices[seq] {
			activity = seq
		}
		if e.Message && !e.Withdrawn && e.Sender != u && seq > c.positions[u].Read && firstUnread == 0 {
			firstUnread = seq
		}
	}
	return visible, firstUnread, lastMessage, activity
}

// row is the conversation as u sees it on a device.
func (c *modelConversation) row(u chat.UserID, d *modelDevice, pullAbove int32) string {
	p, s := c.positions[u], c.settings[u]
	title, policy, members := c.title, c.policy, c.members()
	if end, left := c.ends[u]; left {
		title, policy, members = end.title, end.policy, end.members
	}
	mentions, _ := c.mentions(u)
	periods := ""
	visible, _, _, _ := c.landmarks(u)
	for _, p := range c.periods[u] {
		if !p.Hidden {
			periods += fmt.Sprint(p.From, "-", p.To, " ")
		}
	}
	return rowText(c.id, title, c.end(u), visible[0], d.delivered[c.id], p.Read, p.Revision, c.unread(u), int32(mentions), p.MarkedUnread, s.pinned, s.muted,
		c.archived(u), chat.Fanout(members, pullAbove), policy, c.member(u), periods)
}

// seenRow is the same of what the store answers.
func seenRow(c *chat.Conversation) string {
	periods := ""
	for _, p := range c.Membership.Periods {
		to := chat.Seq(0)
		if p.ToSeq != nil {
			to = *p.ToSeq
		}
		periods += fmt.Sprint(p.FromSeq, "-", to, " ")
	}
	return rowText(c.ID, c.Title, c.Head, c.MinSeq, c.Delivered, c.Read, c.ReadRevision, c.UnreadMessages, c.UnreadMentions, c.MarkedUnread, c.Pinned, c.Muted,
		c.Archived, c.Mode, c.ReceiptPolicy, c.Membership.Active, periods)
}

func rowText(id chat.ConversationID, title *string, head, first, delivered, read chat.Seq, revision int32, unread int64, mentions int32,
	marked, pinned, muted, archived bool, mode chat.FanoutMode, policy chat.ReceiptPolicy, active bool, periods string) string {
	name := "-"
	if title != nil {
		name = *title
	}
	return fmt.Sprintf("%s title %s head %d from %d delivered %d read %d revision %d unread %d mentions %d marked %v pinned %v muted %v archived %v %s %s active %v periods %s",
		id, name, head, first, delivered, read, revision, unread, mentions, marked, pinned, muted, archived, mode, policy, active, periods)
}

// model is everything that a history has made.
type model struct {
	persons map[chat.UserID]*modelUser
	devices []*modelDevice
	convs   []*modelConversation
}

// delivered is how far any device of u that counts has received c.
func (m *model) delivered(u chat.UserID, c *modelConversation) (seq chat.Seq) {
	for _, d := range m.devices {
		if d.user == u && !d.revoked {
			seq = max(seq, d.delivered[c.id])
		}
	}
	return seq
}

// receipt is who of the audience has read and who received the message at seq.
func (m *model) receipt(c *modelConversation, seq chat.Seq) (readers, pending []chat.UserID, delivered int32) {
	for _, u := range slices.Sorted(maps.Keys(c.periods)) {
		if m.persons[u].erased || u == c.log[seq-1].Sender || !m.persons[u].shares && c.policy != chat.ReceiptsRequired || !chat.InAudience(c.periods[u], seq) {
			continue
		}
		if chat.HasRead(c.periods[u], c.positions[u].Seen, seq) {
			readers = append(readers, u)
		} else {
			pending = append(pending, u)
		}
		got := m.delivered(u, c)
		for _, p := range c.periods[u] {
			if p.Hidden && seq >= p.From && seq <= p.To {
				got = c.caps[u][p.From]
			}
		}
		if got >= seq {
			delivered++
		}
	}
	return readers, pending, delivered
}

// sumBadge adds up what counts for u.
func (m *model) sumBadge(u chat.UserID) chat.Badge {
	var rows []chat.Counts
	for _, c := range m.convs {
		if c.member(u) && !c.archived(u) {
			rows = append(rows, c.counts(u))
		}
	}
	return chat.SumBadge(rows)
}

func (c *modelConversation) counts(u chat.UserID) chat.Counts {
	mentions, _ := c.mentions(u)
	return chat.Counts{Unread: c.unread(u), Mentions: mentions, Muted: c.settings[u].muted, MarkedUnread: c.positions[u].MarkedUnread}
}

// hide hides the former periods of u, with how far they were seen and received.
func (m *model) hide(c *modelConversation, u chat.UserID) {
	for i := range c.periods[u] {
		if p := &c.periods[u][i]; !p.Hidden {
			p.Hidden, p.SeenCap = true, min(c.positions[u].Seen, p.To)
			if c.caps[u] == nil {
				c.caps[u] = map[chat.Seq]chat.Seq{}
			}
			c.caps[u][p.From] = min(m.delivered(u, c), p.To)
		}
	}
}

// erase forgets a user.
func (m *model) erase(u chat.UserID) {
	m.persons[u].erased, m.persons[u].shares = true, true
	for _, c := range m.convs {
		if !c.ever(u) {
			continue
		}
		if c.member(u) {
			c.leave(u)
		}
		for i := range c.log {
			e := &c.log[i]
			if e.Message && e.Sender == u {
				c.withdraw(chat.Seq(i + 1))
			}
			e.Mentions = without(e.Mentions, u)
			for n := range c.edits[chat.Seq(i+1)] {
				edit := &c.edits[chat.Seq(i+1)][n]
				edit.mentions = without(edit.mentions, u)
			}
		}
		delete(c.positions, u)
		delete(c.settings, u)
		for id, d := range c.sent {
			if d.Sender == u {
				delete(c.sent, id)
			}
		}
	}
	m.devices = slices.DeleteFunc(m.devices, func(d *modelDevice) bool { return d.user == u })
}

func without(list []chat.UserID, u chat.UserID) []chat.UserID {
	return slices.DeleteFunc(slices.Clone(list), func(x chat.UserID) bool { return x == u })
}
