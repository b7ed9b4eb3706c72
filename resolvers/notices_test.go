package resolvers_test

import (
	"testing"
)

func TestA16TakeDown(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 2)
	watch := g.b1.socket().subscribe(inboxDoc)
	watch.resync()
	head := g.b1.see(g.conv).Head
	g.takeDown(g.conv, m[0])
	e := watch.next()
	equal(t, "hint", e.Reasons[0], "TAKE_DOWN")
	equal(t, "u", e.Conversation.Unread, 1)
	r := g.b1.see(g.conv)
	equal(t, "no seq", r.Head, head)
	equal(t, "first unread", r.FirstUnread.Seq, m[1])
	for _, ev := range g.b1.events(g.conv, m[0]-1) {
		if ev.Seq == m[0] && (ev.Body != nil || !ev.TakenDown || ev.Recalled) {
			t.Errorf("%+v", ev)
		}
	}
	g.takeDown(g.conv, m[0])
	g.a.recall(g.conv, m[0])
	equal(t, "it is withdrawn once", g.b1.see(g.conv).Head, head)
	g.a.recall(g.conv, m[1])
	g.takeDown(g.conv, m[1])
	equal(t, "a recalled one stays so", g.b1.events(g.conv, m[1]-1)[0].Recalled, true)
	doc := `mutation($c: ID!, $s: Seq!) { takeDownMessage(input: {conversationId: $c, seq: $s}) { conversation { id } } }`
	refused(t, "no conversation", g.service().do(doc, vars{"c": "none", "s": 1}), "NOT_FOUND", "")
	for _, seq := range []int64{1, 0, 9999} {
		equal(t, "no message", g.service().do(doc, vars{"c": g.conv, "s": seq}).code(), "NOT_FOUND")
	}
	refused(t, "a device", g.a.do(doc, vars{"c": g.conv, "s": 1}), "FORBIDDEN", "")
}

func TestR9AllTakenDown(t *testing.T) {
	g := newTrio(t)
	for _, seq := range g.a.send(g.conv, 11) {
		g.takeDown(g.conv, seq)
	}
	r := g.b1.see(g.conv)
	equal(t, "u", r.Unread, 0)
	equal(t, "first unread is null", r.FirstUnread == nil, true)
	equal(t, "markRead(head)", g.b1.read(g.conv, r.Head).MarkRead.Conversation.Read, r.Head)
}

func TestR61ANoticeAtHead(t *testing.T) {
	g := newTrio(t)
	head := g.notice(g.conv, "the call has ended", "")
	reads := g.b2.socket().subscribe(`subscription { readChanged { reason conversationId read } }`)
	reads.resync()
	equal(t, "u", g.b1.see(g.conv).Unread, 0)
	equal(t, "read", g.b1.read(g.conv, head).MarkRead.Conversation.Read, head)
	equal(t, "b2 is told", reads.next().Read, head)
}

// TestA17Kinds: joins, leaves, notices, edits and recalls never count.
func TestA17Kinds(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 2)
	g.b1.read(g.conv, m[1])
	g.users("D")
	g.addMembers(g.conv, "MEMBERSHIP", "D")
	g.removeMembers(g.conv, "D")
	g.notice(g.conv, "line", "")
	g.update(g.conv, `title: "new"`)
	g.a.edit(g.conv, m[0], "edited", nil)
	g.a.recall(g.conv, m[1])
	equal(t, "u", g.b1.see(g.conv).Unread, 0)
	equal(t, "badge", g.b1.badge().counts(), badge{})
}

// TestNotices: they order the list, are not repeated under an id, and count for nobody.
func TestNotices(t *testing.T) {
	g := newTrio(t)
	c2 := g.group("c2", "A", "B")
	g.a.send(g.conv, 1)
	g.a.send(c2, 1)
	watch := g.b1.socket().subscribe(inboxDoc)
	watch.resync()
	head := g.notice(g.conv, "one\n\ttwo", "n1")
	equal(t, "hint", watch.next().Reasons[0], "NOTICE")
	equal(t, "first in the list", ids(first(g.b1.inbox(""))), g.conv+" c2")
	equal(t, "repeated, with another text", g.notice(g.conv, "other", "n1"), head)
	equal(t, "another id", g.notice(g.conv, "three", "n2"), head+1)
	equal(t, "without one", g.notice(g.conv, "three", ""), head+2)
	equal(t, "the same id elsewhere", g.notice(c2, "x", "n1"), int64(4))
	events := g.b1.events(g.conv, head-1)
	if len(events) != 3 || events[0].Typename != "Notice" || events[0].Text != "one\n\ttwo" || events[0].Actor != nil {
		t.Errorf("%+v", events)
	}
	equal(t, "lastMessage is a message", g.b1.see(g.conv).LastMessage.Seq, int64(4))
	doc := `mutation($c: ID!, $t: String!, $i: ID) { postNotice(input: {conversationId: $c, text: $t, noticeId: $i}) { conversation { head } } }`
	refused(t, "empty", g.service().do(doc, vars{"c": g.conv, "t": ""}), "BAD_USER_INPUT", "text")
	refused(t, "an empty id", g.service().do(doc, vars{"c": g.conv, "t": "x", "i": ""}), "BAD_USER_INPUT", "noticeId")
	refused(t, "nowhere", g.service().do(doc, vars{"c": "none", "t": "x"}), "NOT_FOUND", "")
	refused(t, "a device", g.a.do(doc, vars{"c": g.conv, "t": "x"}), "FORBIDDEN", "")
}

// TestUpdateConversation: a new title is a Notice, the same one nothing; a new
// policy appends nothing.
func TestUpdateConversation(t *testing.T) {
	g := newTrio(t)
	watch := g.b1.socket().subscribe(inboxDoc)
	watch.resync()
	head := g.b1.see(g.conv).Head
	g.update(g.conv, `title: "one"`)
	equal(t, "hint", watch.next().Reasons[0], "NOTICE")
	events := g.b1.events(g.conv, head)
	equal(t, "text", events[0].Text, "one")
	equal(t, "title", *g.b1.see(g.conv).Title, "one")
	g.update(g.conv, `title: "one"`)
	g.update(g.conv, `receiptPolicy: null`)
	equal(t, "the same again", g.b1.see(g.conv).Head, head+1)
	g.update(g.conv, `receiptPolicy: MEMBERS`)
	equal(t, "hint", watch.next().Reasons[0], "SETTINGS")
	equal(t, "policy", g.b1.see(g.conv).ReceiptPolicy, "MEMBERS")
	equal(t, "which appends nothing", g.b1.see(g.conv).Head, head+1)
	g.update(g.conv, `title: null`)
	equal(t, "cleared", g.b1.see(g.conv).Title == nil, true)
	equal(t, "which is a notice too", g.b1.see(g.conv).Head, head+2)
	doc := `mutation($c: ID!, $t: String) { updateConversation(input: {conversationId: $c, title: $t}) { conversation { id } } }`
	refused(t, "nowhere", g.service().do(doc, vars{"c": "none", "t": "x"}), "NOT_FOUND", "")
	refused(t, "control characters", g.service().do(doc, vars{"c": g.conv, "t": "a\nb"}), "BAD_USER_INPUT", "title")
}

// TestA46TitleAndPolicyEndToo: what the back end changes later is not for one who has left.
func TestA46TitleAndPolicyEndToo(t *testing.T) {
	g := newTrio(t)
	g.update(g.conv, `title: "before", receiptPolicy: MEMBERS`)
	m := g.a.send(g.conv, 2)
	g.b1.leave(g.conv)
	before := g.b1.see(g.conv)
	g.update(g.conv, `title: "after", receiptPolicy: OFF`)
	g.a.send(g.conv, 3)
	g.notice(g.conv, "later", "")
	g.users("D")
	g.addMembers(g.conv, "MEMBERSHIP", "D")
	after := g.b1.see(g.conv)
	after.Version = before.Version
	equal(t, "title", *after.Title, "before")
	equal(t, "policy", after.ReceiptPolicy, "MEMBERS")
	equal(t, "head", after.Head, before.Head)
	equal(t, "last message", after.LastMessage.Seq, m[1])
	equal(t, "activity", after.LastActivityAt, before.LastActivityAt)
	equal(t, "members", after.Members.TotalCount, 0)
	equal(t, "receipt", g.b1.readOf(g.conv, m[0]), "-")
	equal(t, "events", len(g.b1.events(g.conv, before.Head)), 0)
	for what, doc := range map[string]string{
		"send":   `sendMessage(input: {conversationId: $c, clientMessageId: "x", body: "x"}) { message { seq } }`,
		"edit":   `editMessage(input: {conversationId: $c, seq: 4, body: "x"}) { message { seq } }`,
		"recall": `recallMessage(input: {conversationId: $c, seq: 4}) { message { seq } }`,
	} {
		a := g.b1.do(`mutation($c: ID!) { `+doc+` }`, vars{"c": g.conv})
		refused(t, what, a, "NOT_MEMBER", "")
		equal(t, what+" tells no head", a.Errors[0].Extensions["head"], nil)
	}
}
