package resolvers_test

import (
	"fmt"
	"sync"
	"testing"
)

func TestA19MarkAllRead(t *testing.T) {
	w := newWorld(t)
	a, b := w.device("A", "a1"), w.device("B", "b1")
	phone := w.device("B", "b2").socket()
	reads := phone.subscribe(`subscription { readChanged { reason conversationId read originDeviceId badge {` + badgeFields + `} conversation { id } } }`)
	reads.resync()
	for n := range 200 {
		conv := w.group(fmt.Sprint("c", n), "A", "B")
		a.mention(conv, "B")
		a.send(conv, 1)
	}
	equal(t, "before", b.badge().counts(), badge{Unread: 400, Mentions: 200, Conversations: 200})
	p := b.readAll(false).MarkAllRead
	equal(t, "changed", p.Changed, 200)
	equal(t, "mentions stay", p.Badge.counts(), badge{Mentions: 200, Conversations: 200})
	e := reads.next()
	equal(t, "reason", e.Reason, "ALL_READ")
	equal(t, "origin", *e.OriginDeviceID, "b1")
	equal(t, "badge of the hint", e.Badge.Mentions, 200)
	if e.ConversationID != nil || e.Conversation != nil {
		t.Errorf("ALL_READ names a conversation: %+v", e)
	}
	equal(t, "nothing more to read", b.readAll(false).MarkAllRead.Changed, 0)
	p = b.readAll(true).MarkAllRead
	equal(t, "changed with mentions", p.Changed, 200)
	equal(t, "with mentions", p.Badge.counts(), badge{})
	equal(t, "reason", reads.next().Reason, "ALL_READ")
	b.read("c0", 4)
	w.group("sentinel", "A", "B")
	b.read("sentinel", 2)
	reads.silentUntil("sentinel")
}

// TestMarkAllReadUpTo: what the client had on screen, so that nothing newer is
// swallowed; what is refused does not spoil the rest.
func TestMarkAllReadUpTo(t *testing.T) {
	g := newTrio(t)
	c2 := g.group("c2", "A", "B")
	m1, m2 := g.a.send(g.conv, 3), g.a.send(c2, 3)
	g.a.mention(c2, "B")
	stale := g.b1.read(c2, m2[1]).MarkRead.Conversation.ReadRevision
	g.b1.unreadFrom(c2, m2[0], m2[1])
	entry := func(conv string, seq int64) vars { return vars{"conversationId": conv, "seq": seq} }
	old := entry(c2, m2[2])
	old["revision"] = stale
	p := g.b1.readAll(false, entry(g.conv, m1[1]), entry(g.conv, m1[0]), entry("nowhere", 1), entry(c2, 1000), entry(c2, -1), old).MarkAllRead
	equal(t, "changed", p.Changed, 1)
	var codes []string
	for _, r := range p.Rejected {
		codes = append(codes, fmt.Sprint(r.ConversationID, " ", r.Seq, " ", r.Code))
	}
	equal(t, "rejected", fmt.Sprint(codes), "[nowhere 1 NOT_MEMBER c2 1000 CURSOR_AHEAD c2 -1 CURSOR_AHEAD]")
	equal(t, "u of the first", g.b1.see(g.conv).Unread, 1)
	equal(t, "u of the second: the stale report is ignored", g.b1.see(c2).Unread, 4)
	g.b1.readAll(false, entry(c2, m2[2]+1))
	equal(t, "mentions stay", g.b1.see(c2).UnreadMentions, 1)
	g.b1.readAll(true, entry(c2, m2[2]+1))
	equal(t, "mentions go when asked", g.b1.see(c2).UnreadMentions, 0)
	equal(t, "an empty list", g.b1.readAll(false, []vars{}...).MarkAllRead.Changed, 0)
	refused(t, "501 entries", g.b1.do(readAllDoc, vars{"u": make501(g.conv)}), "BAD_USER_INPUT", "upTo")
}

func make501(conv string) (list []vars) {
	for range 501 {
		list = append(list, vars{"conversationId": conv, "seq": 1})
	}
	return list
}

// TestMarkAllReadCoversEverything: left, muted and archived conversations too;
// the flags go, also where nothing was unread.
func TestMarkAllReadCoversEverything(t *testing.T) {
	g := newTrio(t)
	left, muted, archived, flagged := g.group("left", "A", "B"), g.group("muted", "A", "B"), g.group("archived", "A", "B"), g.group("flagged", "A", "B")
	for _, c := range []string{left, muted, archived} {
		g.a.send(c, 2)
	}
	g.b1.set(muted, "muted: true")
	g.b1.set(archived, "archived: true")
	end := g.b1.leave(left).Head
	g.a.send(left, 3)
	g.b1.read(flagged, 2)
	g.b1.remind(flagged)
	equal(t, "changed", g.b1.readAll(false).MarkAllRead.Changed, 5) // and g.conv, whose joins were not read
	for _, c := range []string{left, muted, archived, flagged} {
		r := g.b1.see(c)
		equal(t, "u of "+c, r.Unread, 0)
		equal(t, "flag of "+c, r.MarkedUnread, false)
		equal(t, "read of "+c, r.Read, r.Head)
	}
	equal(t, "read of the left one", g.b1.see(left).Read, end)
}

// TestMarkAllReadWhileMessagesPourIn: what came after is unread, exactly.
func TestMarkAllReadWhileMessagesPourIn(t *testing.T) {
	g := newTrio(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range 60 {
			if a, err := g.a.try(sendDoc, vars{"c": g.conv, "m": fmt.Sprint("pour", n), "b": "x"}); err != nil || len(a.Errors) > 0 {
				t.Errorf("%v %+v", err, a)
			}
		}
	})
	for range 20 {
		g.b1.readAll(true)
		if r := g.b1.see(g.conv); r.Unread != r.Head-r.Read {
			t.Errorf("head %d, read %d, unread %d", r.Head, r.Read, r.Unread)
		}
	}
	wg.Wait()
	g.b1.readAll(true)
	equal(t, "u", g.b1.see(g.conv).Unread, 0)
}

func TestA20MarkUnread(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 6)
	before := g.b1.read(g.conv, m[4]).MarkRead.Conversation
	p := g.b1.unreadFrom(g.conv, m[2], m[4])
	equal(t, "read", p.Conversation.Read, m[2]-1)
	equal(t, "unread", p.Conversation.Unread, 4)
	equal(t, "badge", p.Badge.Unread, 4)
	equal(t, "revision", p.Conversation.ReadRevision, before.ReadRevision+1)
	equal(t, "the receipt does not go back", g.a.readOf(g.conv, m[4]), "1/2")
	// A real read from another device wins.
	g.b2.read(g.conv, m[5])
	a := g.b1.do(markUnreadDoc, vars{"c": g.conv, "s": m[0], "e": m[2] - 1})
	refused(t, "against a position that changed", a, "READ_CHANGED", "")
	equal(t, "extensions.read", a.Errors[0].Extensions["read"], any(float64(m[5])))
	equal(t, "extensions.revision", a.Errors[0].Extensions["revision"], any(float64(1)))
	equal(t, "nothing changed", g.b1.see(g.conv).Read, m[5])
	equal(t, "nothing changed", g.b1.see(g.conv).ReadRevision, 1)
}

// TestA20ConcurrentReadAndUnread: whichever comes first, no other outcome is possible.
func TestA20ConcurrentReadAndUnread(t *testing.T) {
	g := newTrio(t)
	for round := range 30 {
		conv := g.group(fmt.Sprint("race", round), "A", "B")
		m := g.a.send(conv, 5)
		g.b1.read(conv, m[2])
		var wg sync.WaitGroup
		var unread *answer
		wg.Go(func() {
			if a, err := g.b1.try(markReadDoc, vars{"c": conv, "s": m[4]}); err != nil || len(a.Errors) > 0 {
				t.Errorf("%v %+v", err, a)
			}
		})
		wg.Go(func() {
			var err error
			if unread, err = g.b2.try(markUnreadDoc, vars{"c": conv, "s": m[1], "e": m[2]}); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		r := g.b1.see(conv)
		equal(t, "read: both were plain, the report is ahead", r.Read, m[4])
		switch unread.code() {
		case "":
			equal(t, "revision", r.ReadRevision, 1)
		case "READ_CHANGED":
			equal(t, "revision", r.ReadRevision, 0)
		default:
			t.Errorf("%+v", unread.Errors)
		}
	}
}

// TestMarkUnreadEdges: own and withdrawn messages, before one's join, an earlier
// period, beyond the position, beyond head, and what is malformed.
func TestMarkUnreadEdges(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 3)
	own := g.b1.send(g.conv, 1)[0]
	g.a.recall(g.conv, m[2])
	head := g.b1.see(g.conv).Head
	g.b1.read(g.conv, head)
	equal(t, "from one's own message", g.b1.unreadFrom(g.conv, own, head).Conversation.Unread, 0)
	equal(t, "its read", g.b1.see(g.conv).Read, own-1)
	g.b1.read(g.conv, head)
	equal(t, "from a withdrawn one", g.b1.unreadFrom(g.conv, m[2], head).Conversation.Unread, 0)
	equal(t, "no first unread", g.b1.see(g.conv).FirstUnread == nil, true)
	p := g.b1.unreadFrom(g.conv, head, m[2]-1)
	equal(t, "beyond the position nothing moves", p.Conversation.Read, m[2]-1)
	equal(t, "but the revision does", p.Conversation.ReadRevision, 3)
	g.b1.read(g.conv, head)
	p = g.b1.unreadFrom(g.conv, 1, head)
	equal(t, "before the join: everything that is visible", p.Conversation.Unread, 2)
	equal(t, "before the join: read", p.Conversation.Read, 0)

	g.removeMembers(g.conv, "B")
	g.a.send(g.conv, 2)
	g.addMembers(g.conv, "MEMBERSHIP", "B")
	last := g.a.send(g.conv, 1)[0]
	g.b1.read(g.conv, last)
	equal(t, "into an earlier period", g.b1.unreadFrom(g.conv, m[1], last).Conversation.Unread, 2)

	refused(t, "beyond head", g.b1.do(markUnreadDoc, vars{"c": g.conv, "s": last + 1, "e": m[1] - 1}), "CURSOR_AHEAD", "")
	refused(t, "negative", g.b1.do(markUnreadDoc, vars{"c": g.conv, "s": -1, "e": 0}), "CURSOR_AHEAD", "")
	refused(t, "zero", g.b1.do(markUnreadDoc, vars{"c": g.conv, "s": 0, "e": 0}), "BAD_USER_INPUT", "seq")
	refused(t, "without expectedRead", g.b1.do(markUnreadDoc, vars{"c": g.conv, "s": 3}), "BAD_USER_INPUT", "expectedRead")
	refused(t, "a stranger", g.device("E", "e1").do(markUnreadDoc, vars{"c": g.conv}), "NOT_MEMBER", "")
	equal(t, "expectedRead alone is ignored", g.b1.must(markUnreadDoc, vars{"c": g.conv, "e": 77}).code(), "")

	// One who has left has an end.
	g.removeMembers(g.conv, "C")
	end := g.c.see(g.conv).Head
	g.a.send(g.conv, 5)
	g.c.read(g.conv, end)
	equal(t, "beyond a leaver's end nothing moves", g.c.unreadFrom(g.conv, end+3, end).Conversation.Read, end)
	equal(t, "a leaver", g.c.unreadFrom(g.conv, last, end).Conversation.Read, last-1)
}

// TestTheReminderFlag: set by markUnread without a seq, cleared by any accepted
// report, also one that moves nothing, not by one from before it.
func TestTheReminderFlag(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 2)
	revision := g.b1.read(g.conv, m[1]).MarkRead.Conversation.ReadRevision
	p := g.b1.remind(g.conv)
	equal(t, "flag", p.Conversation.MarkedUnread, true)
	equal(t, "unread", p.Conversation.Unread, 0)
	equal(t, "badge", p.Badge.counts(), badge{Conversations: 1})
	equal(t, "read", p.Conversation.Read, m[1])
	withRevision := `mutation($c: ID!, $s: Seq!, $r: Int) { markRead(input: {conversationId: $c, seq: $s, revision: $r}) { conversation {` + rowFields + `} badge {` + badgeFields + `} } }`
	report := func(r any) row {
		var p readPayload
		g.b2.must(withRevision, vars{"c": g.conv, "s": m[0], "r": r}).into(&p)
		return p.MarkRead.Conversation
	}
	equal(t, "a report from before it changes nothing", report(revision).MarkedUnread, true)
	equal(t, "a report that moves nothing clears it", report(revision+1).MarkedUnread, false)
	equal(t, "badge", g.b1.badge().counts(), badge{})
	g.b1.remind(g.conv)
	equal(t, "a plain report clears it", report(nil).MarkedUnread, false)
	g.b1.remind(g.conv)
	equal(t, "it survives a new message", func() bool { g.a.send(g.conv, 1); return g.b1.see(g.conv).MarkedUnread }(), true)
	equal(t, "as a filter", len(first(g.b1.inbox("unread: true"))), 1)
	g.b1.readAll(false)
	equal(t, "markAllRead clears it", g.b1.see(g.conv).MarkedUnread, false)
}

func first[A, B any](a A, _ B) A { return a }

func TestR23R135MarkUnreadAmongOwnMessages(t *testing.T) {
	g := newTrio(t)
	m1, m2, m3, m4 := g.b1.send(g.conv, 1)[0], g.a.send(g.conv, 1)[0], g.b1.send(g.conv, 1)[0], g.a.send(g.conv, 1)[0]
	g.b1.read(g.conv, m4)
	p := g.b1.unreadFrom(g.conv, m3, m4).Conversation
	equal(t, "u from m3", p.Unread, 1)
	equal(t, "first unread from m3", p.FirstUnread.Seq, m4)
	p = g.b1.unreadFrom(g.conv, m1, m3-1).Conversation
	equal(t, "u from m1", p.Unread, 2)
	equal(t, "first unread from m1", p.FirstUnread.Seq, m2)
}

func TestR37ReadAllThenReinstall(t *testing.T) {
	g := newTrio(t)
	g.a.send(g.conv, 4)
	g.b1.install("one")
	g.b1.readAll(false)
	g.b1.install("two")
	equal(t, "u", g.b1.see(g.conv).Unread, 0)
}

func TestR41ALateReportIsFenced(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 1)
	revision := g.b1.read(g.conv, m[0]).MarkRead.Conversation.ReadRevision
	g.b2.unreadFrom(g.conv, m[0], m[0])
	var late readPayload
	g.b1.must(`mutation($c: ID!, $s: Seq!, $r: Int) { markRead(input: {conversationId: $c, seq: $s, revision: $r}) { conversation { read readRevision unread } } }`,
		vars{"c": g.conv, "s": m[0], "r": revision}).into(&late)
	equal(t, "the late report is told the truth", late.MarkRead.Conversation.Unread, 1)
	equal(t, "its revision", late.MarkRead.Conversation.ReadRevision, revision+1)
	equal(t, "u stays", g.b1.see(g.conv).Unread, 1)
}

func TestR43MarkUnreadIsHinted(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 3)
	g.b1.read(g.conv, m[2])
	reads := g.b2.socket().subscribe(`subscription { readChanged { reason conversationId read revision originDeviceId conversation { unread markedUnread } } }`)
	inbox := g.b2.socket().subscribe(inboxDoc)
	reads.resync()
	inbox.resync()
	g.b1.unreadFrom(g.conv, m[1], m[2])
	e := reads.next()
	equal(t, "reason", e.Reason, "MARKED_UNREAD")
	equal(t, "read", e.Read, m[1]-1)
	equal(t, "revision", e.Revision, 1)
	equal(t, "origin", *e.OriginDeviceID, "b1")
	equal(t, "inbox reason", inbox.next().Reasons[0], "READ")
	equal(t, "the list agrees", first(g.b2.inbox("unread: true"))[0].Unread, 2)
	g.b1.remind(g.conv)
	e = reads.next()
	equal(t, "reason of the flag", e.Reason, "MARKED_UNREAD")
	equal(t, "flag", e.Conversation.MarkedUnread, true)
	g.b1.read(g.conv, m[0])
	equal(t, "a report that only clears the flag is hinted", reads.next().Reason, "READ")
}

func TestR133MarkUnreadOfTen(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 15)
	g.b1.read(g.conv, m[14])
	equal(t, "u", g.b1.unreadFrom(g.conv, m[5], m[14]).Conversation.Unread, 10)
}

func TestR137OneMessageAllRead(t *testing.T) {
	g := newTrio(t)
	g.a.send(g.conv, 1)
	equal(t, "badge", g.b1.readAll(false).MarkAllRead.Badge.counts(), badge{})
	equal(t, "u", g.b1.see(g.conv).Unread, 0)
}

func TestR33ReadUpToWhileSending(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 2)
	equal(t, "an answer reads nothing", g.b1.say(g.conv, nil).Conversation.Unread, 2)
	phone := g.b2.socket().subscribe(`subscription { readChanged { reason conversationId read } }`)
	phone.resync()
	got := g.b1.say(g.conv, vars{"i": "once", "up": m[1]})
	equal(t, "with readUpTo", got.Conversation.Unread, 0)
	equal(t, "read", got.Conversation.Read, m[1])
	equal(t, "the other session is told", phone.next().Read, m[1])
	m = g.a.send(g.conv, 1)
	g.b1.unreadFrom(g.conv, 4, g.b1.see(g.conv).Read)
	again := g.b1.say(g.conv, vars{"i": "once", "up": m[0]})
	equal(t, "a repeated send does not read again", again.Conversation.Read, int64(3))
	equal(t, "it is a duplicate", again.Duplicate, true)
	head := g.b1.see(g.conv).Head
	for what, seq := range map[string]int64{"beyond head": head + 1, "negative": -1} {
		a := g.b1.do(saying, vars{"c": g.conv, "i": "x" + what, "b": "x", "up": seq})
		refused(t, what, a, "CURSOR_AHEAD", "")
		equal(t, what+": nothing was sent", g.b1.see(g.conv).Head, head)
	}
	stale := g.b1.say(g.conv, vars{"up": head, "rev": 0})
	equal(t, "a stale revision: sent", stale.Message.Seq, head+1)
	equal(t, "but not read", stale.Conversation.Read, int64(3))
	equal(t, "the present one", g.b1.say(g.conv, vars{"up": head, "rev": 1}).Conversation.Read, head)
	refused(t, "a stranger", g.device("E", "e1").do(saying, vars{"c": g.conv, "i": "x", "b": "x", "up": 1}), "NOT_MEMBER", "")
}
