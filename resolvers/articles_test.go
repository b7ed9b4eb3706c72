package resolvers_test

import (
	"fmt"
	"testing"
)

// harbour is the set-up of the articles: ana and ben in one conversation, ana
// has sent ten messages (seqs 3 to 12), ben has a phone and a laptop.
type harbour struct {
	*world
	ana, d1, d2 *client
	conv        string
	head        int64
}

func newHarbour(t *testing.T) *harbour {
	t.Helper()
	w := newWorld(t)
	h := &harbour{world: w, ana: w.device("u-ana", "a1"), d1: w.device("u-ben", "d1"), d2: w.device("u-ben", "d2")}
	h.conv = w.group("c-ab", "u-ana", "u-ben")
	seqs := h.ana.send(h.conv, 10)
	h.head = seqs[9]
	equal(t, "head", h.head, 12)
	return h
}

func TestA01DeliveryPerDevice(t *testing.T) {
	h := newHarbour(t)
	equal(t, "messages on the phone", messagesIn(h.d1.events(h.conv, 0)), 10)
	h.d1.ack(0, cursorOf(h.conv, 12))
	phone, laptop := h.d1.see(h.conv), h.d2.see(h.conv)
	equal(t, "phone delivered", phone.Delivered, 12)
	equal(t, "laptop delivered", laptop.Delivered, 0)
	equal(t, "phone unread", phone.Unread, 10)
	equal(t, "laptop unread", laptop.Unread, 10)
}

func TestA02ReadMaxWins(t *testing.T) {
	h := newHarbour(t)
	for _, c := range []readPayload{h.d1.read(h.conv, 8), h.d2.read(h.conv, 5)} {
		equal(t, "answered read", c.MarkRead.Conversation.Read, 8)
		equal(t, "answered unread", c.MarkRead.Conversation.Unread, 4)
	}
	for _, d := range []*client{h.d1, h.d2} {
		equal(t, "read", d.see(h.conv).Read, 8)
		equal(t, "unread", d.see(h.conv).Unread, 4)
	}
}

func TestA03ReadDoesNotFakeDelivery(t *testing.T) {
	h := newHarbour(t)
	h.d1.read(h.conv, 8)
	h.d2.read(h.conv, 5)
	equal(t, "laptop delivered", h.d2.see(h.conv).Delivered, 0)
}

func TestA04OwnMessagesAreNotUnread(t *testing.T) {
	h := newHarbour(t)
	h.d1.read(h.conv, 8)
	equal(t, "seq of the own message", h.d1.send(h.conv, 1)[0], 13)
	equal(t, "unread", h.d1.see(h.conv).Unread, 4)
	equal(t, "read", h.d1.see(h.conv).Read, 8)
}

func TestA05ReadAheadIsRejected(t *testing.T) {
	h := newHarbour(t)
	h.d1.read(h.conv, 8)
	h.d1.send(h.conv, 1)
	for _, seq := range []int64{10000, -1, 1 << 53} {
		a := h.d1.do(markReadDoc, vars{"c": h.conv, "s": seq})
		refused(t, fmt.Sprint("markRead ", seq), a, "CURSOR_AHEAD", "")
		equal(t, "extensions.head", a.Errors[0].Extensions["head"], any(float64(13)))
	}
	got := h.d1.ack(0, cursorOf(h.conv, 10000), cursorOf(h.conv, -1), cursorOf(h.conv, 3))
	equal(t, "rejected", len(got.Ack.Rejected), 2)
	for _, r := range got.Ack.Rejected {
		equal(t, "rejected code", r.Code, "CURSOR_AHEAD")
	}
	equal(t, "the good cursor counts", got.Ack.Cursors[0].Delivered, 3)
	equal(t, "read", h.d1.see(h.conv).Read, 8)
}

func TestA06Reinstall(t *testing.T) {
	h := newHarbour(t)
	h.d1.read(h.conv, 8)
	h.d1.send(h.conv, 1)
	epoch, again := h.d2.install("first")
	equal(t, "epoch of the first install", epoch, 0)
	equal(t, "first install is a reinstall", again, false)
	h.d2.ack(0, cursorOf(h.conv, 5))
	epoch, again = h.d2.install("second")
	equal(t, "epoch of the second install", epoch, 1)
	equal(t, "second install is a reinstall", again, true)
	refused(t, "ack of the old install", h.d2.do(ackDoc, vars{"e": 0, "c": []vars{cursorOf(h.conv, 13)}}), "STALE_INSTALL", "")
	equal(t, "delivered after the reinstall", h.d2.see(h.conv).Delivered, 0)
	held := h.d2.events(h.conv, 0)
	equal(t, "messages held", messagesIn(held), 11)
	h.d2.ack(1, cursorOf(h.conv, held[len(held)-1].Seq))
	equal(t, "delivered", h.d2.see(h.conv).Delivered, 13)
	equal(t, "read", h.d2.see(h.conv).Read, 8)
	epoch, again = h.d2.install("second")
	equal(t, "epoch of the same install", epoch, 1)
	equal(t, "the same install is a reinstall", again, false)
}

func TestA07CursorRollback(t *testing.T) {
	h := newHarbour(t)
	h.d1.send(h.conv, 1)
	h.d2.ack(0, cursorOf(h.conv, 13))
	equal(t, "answer to an older ack", h.d2.ack(0, cursorOf(h.conv, 2)).Ack.Cursors[0].Delivered, 13)
	equal(t, "messages after 2", messagesIn(h.d2.events(h.conv, 2)), 11)
}

func TestA08ReadRequiresMembership(t *testing.T) {
	h := newHarbour(t)
	stranger := h.device("u-eve", "e1")
	for _, conv := range []string{h.conv, "c-none"} {
		refused(t, "markRead", stranger.do(markReadDoc, vars{"c": conv, "s": 1}), "NOT_MEMBER", "")
		refused(t, "send", stranger.do(sendDoc, vars{"c": conv, "m": "x", "b": "x"}), "NOT_MEMBER", "")
		equal(t, "ack", stranger.ack(0, cursorOf(conv, 1)).Ack.Rejected[0].Code, "NOT_MEMBER")
		if stranger.see(conv) != nil {
			t.Errorf("a stranger sees %s", conv)
		}
		equal(t, "events", len(stranger.events(conv, 0)), 0)
		for _, m := range []string{"recallMessage(input: {conversationId: $c, seq: 3}) { message { seq } }", "leaveConversation(input: {conversationId: $c}) { conversation { id } }"} {
			refused(t, m, stranger.do(`mutation($c: ID!) { `+m+` }`, vars{"c": conv}), "NOT_MEMBER", "")
		}
	}
}

func TestA13Leaver(t *testing.T) {
	h := newHarbour(t)
	h.d1.read(h.conv, 8)
	h.d1.ack(0, cursorOf(h.conv, 4))
	s := h.d1.leave(h.conv).Head
	equal(t, "seq of the leave", s, 13)
	h.ana.send(h.conv, 20)
	got := h.d1.see(h.conv)
	equal(t, "head", got.Head, s)
	equal(t, "unread", got.Unread, 4)
	equal(t, "delivered", got.Delivered, 4)
	equal(t, "last message", got.LastMessage.Seq, 12)
	events := h.d1.events(h.conv, 0)
	equal(t, "last event", events[len(events)-1].Seq, s)
	equal(t, "capped read", h.d1.read(h.conv, 33).MarkRead.Conversation.Read, s)
	equal(t, "capped read beyond head", h.d1.read(h.conv, 1000).MarkRead.Conversation.Read, s)
	equal(t, "capped ack", h.d1.ack(0, cursorOf(h.conv, 33)).Ack.Cursors[0].Delivered, s)
	equal(t, "laptop delivered", h.d2.see(h.conv).Delivered, 0)
	equal(t, "ana's read", h.ana.see(h.conv).Read, 0)
	equal(t, "badge", h.d1.badge().Unread, 0)
}

func TestA14AbsenceIsNotCounted(t *testing.T) {
	h := newHarbour(t)
	h.d1.read(h.conv, 8)
	h.d1.leave(h.conv)
	away := h.ana.send(h.conv, 5)
	h.addMembers(h.conv, "MEMBERSHIP", "u-ben")
	h.ana.send(h.conv, 2)
	got := h.d1.see(h.conv)
	equal(t, "unread of both periods", got.Unread, 4+2)
	equal(t, "first seq", got.MinSeq, 2)
	equal(t, "first unread", got.FirstUnread.Seq, 9)
	for _, e := range h.d1.events(h.conv, 0) {
		if e.Seq >= away[0] && e.Seq <= away[4] {
			t.Errorf("ben sees event %d of his absence", e.Seq)
		}
	}
	h.d1.leave(h.conv)
	h.addMembers(h.conv, "SINCE_JOIN", "u-ben")
	h.ana.send(h.conv, 3)
	got = h.d1.see(h.conv)
	equal(t, "unread since the last join", got.Unread, 3)
	equal(t, "visible periods", len(got.Membership.Periods), 1)
	equal(t, "visible messages", messagesIn(h.d1.events(h.conv, 0)), 3)
}

func TestA15RecallLowersTheBadge(t *testing.T) {
	h := newHarbour(t)
	h.d1.read(h.conv, 8)
	socket := h.d2.socket()
	watch := socket.subscribe(`subscription { inboxChanged { reasons conversation { unread } badge { unread } } }`)
	watch.resync()
	h.ana.recall(h.conv, 10)
	e := watch.next()
	equal(t, "reason", e.Reasons[0], "RECALL")
	equal(t, "hinted unread", e.Conversation.Unread, 3)
	equal(t, "hinted badge", e.Badge.Unread, 3)
	equal(t, "head", h.d1.see(h.conv).Head, 13)
	h.ana.recall(h.conv, 10) // once more: no event
	equal(t, "head after a second recall", h.d1.see(h.conv).Head, 13)
	h.ana.recall(h.conv, 5)
	equal(t, "a read one changes nothing", h.d1.see(h.conv).Unread, 3)
	for _, e := range h.d1.events(h.conv, 9) {
		if e.Seq == 10 && (e.Body != nil || !e.Recalled) {
			t.Errorf("the recalled message still has a body")
		}
	}
	equal(t, "the last message keeps its place", h.d1.see(h.conv).LastMessage.Seq, 12)
}

func TestA26BatchAck(t *testing.T) {
	w := newWorld(t)
	ana, tenth, each := w.device("u-ana", "a1"), w.device("u-ben", "tenth"), w.device("u-ben", "each")
	var all []vars
	for n := range 5 {
		conv := w.group(fmt.Sprint("c", n), "u-ana", "u-ben")
		for _, seq := range ana.send(conv, 20) {
			each.ack(0, cursorOf(conv, seq))
			if seq%10 == 0 {
				tenth.ack(0, cursorOf(conv, seq))
			}
		}
		all = append(all, cursorOf(conv, 22))
	}
	got := tenth.ack(0, all...)
	for i, c := range got.Ack.Cursors {
		equal(t, "order", c.ConversationID, fmt.Sprint("c", i))
		equal(t, "delivered", c.Delivered, 22)
	}
	for n := range 5 {
		conv := fmt.Sprint("c", n)
		equal(t, "same end", tenth.see(conv).Delivered, each.see(conv).Delivered)
	}
}

func TestA29DuplicatesChangeNothing(t *testing.T) {
	h := newHarbour(t)
	before := h.d1.read(h.conv, 8)
	for range 3 {
		again := h.d1.read(h.conv, 8)
		equal(t, "read", again.MarkRead.Conversation.Read, before.MarkRead.Conversation.Read)
		equal(t, "unread", again.MarkRead.Conversation.Unread, before.MarkRead.Conversation.Unread)
		equal(t, "delivered", h.d1.ack(0, cursorOf(h.conv, 9)).Ack.Cursors[0].Delivered, 9)
	}
}

func TestA31TheReportNamesWhatWasSeen(t *testing.T) {
	h := newHarbour(t)
	h.ana.send(h.conv, 1)
	equal(t, "unread", h.d1.read(h.conv, 12).MarkRead.Conversation.Unread, 1)
}

func TestA32LateReport(t *testing.T) {
	h := newHarbour(t)
	h.ana.send(h.conv, 8)
	h.d1.read(h.conv, 20)
	late := h.d2.read(h.conv, 12).MarkRead.Conversation
	equal(t, "read", late.Read, 20)
	equal(t, "unread", late.Unread, 0)
}

func TestA33OwnMessagesNeedNoReport(t *testing.T) {
	h := newHarbour(t)
	conv := h.group("c-own", "u-ben", "u-ana")
	h.d1.send(conv, 20)
	equal(t, "unread", h.d1.see(conv).Unread, 0)
	equal(t, "read", h.d1.see(conv).Read, 0)
}

func TestA35Capped(t *testing.T) {
	w := newWorld(t)
	w.device("u-ana", "a1")
	ben := w.device("u-ben", "b1")
	conv := w.group("c", "u-ana", "u-ben")
	w.fill(conv, "u-ana", 5000)
	var out struct {
		Conversation struct{ Exact, Capped, Large int64 }
	}
	ben.must(`{ conversation(id: "c") { exact: unread capped: unread(atMost: 100) large: unread(atMost: 1000000) } }`, nil).into(&out)
	equal(t, "exact", out.Conversation.Exact, 5000)
	equal(t, "capped", out.Conversation.Capped, 100)
	equal(t, "not capped", out.Conversation.Large, 5000)
}

func TestA46ALeaverSeesNothingNewer(t *testing.T) {
	h := newHarbour(t)
	left := h.d1.leave(h.conv)
	before := h.d1.see(h.conv)
	h.ana.send(h.conv, 3)
	h.ana.recall(h.conv, 12)
	after := h.d1.see(h.conv)
	equal(t, "head", after.Head, left.Head)
	equal(t, "activity", after.LastActivityAt, before.LastActivityAt)
	equal(t, "last message", after.LastMessage.Seq, 12)
	equal(t, "members", after.Members.TotalCount, 0)
	equal(t, "listed members", len(after.Members.Nodes), 0)
	events := h.d1.events(h.conv, 0)
	equal(t, "last event", events[len(events)-1].Seq, left.Head)
	a := h.d1.do(markReadDoc, vars{"c": h.conv, "s": -1})
	equal(t, "head in the error", a.Errors[0].Extensions["head"], any(float64(left.Head)))
	refused(t, "send", h.d1.do(sendDoc, vars{"c": h.conv, "m": "late", "b": "x"}), "NOT_MEMBER", "")
	present, _ := h.d1.inbox("")
	equal(t, "in the list", len(present), 0)
	gone, _ := h.d1.inbox("active: false")
	equal(t, "in the list of left ones", len(gone), 1)
}
