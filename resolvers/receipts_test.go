package resolvers_test

import (
	"testing"
)

func TestA22ReceiptsOfADirectConversation(t *testing.T) {
	g := newTrio(t)
	conv := g.conversation("DIRECT", "d", "A", "B")
	m := g.a.send(conv, 2)
	equal(t, "m1 before", g.a.readOf(conv, m[0]), "0/1")
	g.b1.read(conv, m[0])
	equal(t, "m1", g.a.readOf(conv, m[0]), "1/1")
	equal(t, "m2", g.a.readOf(conv, m[1]), "0/1")
	g.b1.send(conv, 1)
	equal(t, "B answers: A's read", g.a.see(conv).Read, 0)
	equal(t, "which says nothing of m2", g.a.readOf(conv, m[1]), "0/1")
	equal(t, "under SENDER the other does not see it", g.b1.readOf(conv, m[0]), "-")
}

func TestA23ReceiptsOfAGroup(t *testing.T) {
	g := newTrio(t)
	conv := g.groupWith("MEMBERS", "g", "A", "B", "C")
	seen := func(what string, seq int64, want string) {
		t.Helper()
		for _, who := range []*client{g.a, g.b1, g.b2, g.c} {
			equal(t, what+" as "+who.device+" sees it", who.readOf(conv, seq), want)
		}
	}
	m1 := g.a.send(conv, 1)[0]
	g.b1.read(conv, m1)
	seen("m1", m1, "1/2")
	m2 := g.a.send(conv, 1)[0]
	seen("m1", m1, "1/2")
	seen("m2", m2, "0/2")
	g.c.read(conv, m2)
	seen("m1", m1, "2/2")
	seen("m2", m2, "1/2")
	equal(t, "allRead", g.a.receiptOf(conv, m1).AllRead, true)
	equal(t, "not all", g.a.receiptOf(conv, m2).AllRead, false)
}

func TestA24ANewcomerIsInNoEarlierAudience(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 2)
	d := g.device("D", "d1")
	g.addMembers(g.conv, "MEMBERSHIP", "D")
	d.read(g.conv, d.see(g.conv).Head)
	for _, seq := range m {
		equal(t, "receipt", g.a.readOf(g.conv, seq), "0/2")
		r := g.a.receiptOf(g.conv, seq)
		for _, p := range r.Pending.Nodes {
			if p.User.ID == "D" {
				t.Error("D is in the audience")
			}
		}
	}
	equal(t, "of a later one", g.a.readOf(g.conv, g.a.send(g.conv, 1)[0]), "0/3")
}

// TestA44OfSeveralPeriods: each of the hidden periods keeps how far it was seen.
func TestA44OfSeveralPeriods(t *testing.T) {
	g := newTrio(t)
	var read, unread []int64
	for range 2 {
		m := g.a.send(g.conv, 2)
		g.c.read(g.conv, m[0])
		read, unread = append(read, m[0]), append(unread, m[1])
		g.c.leave(g.conv)
		g.addMembers(g.conv, "MEMBERSHIP", "C")
	}
	g.c.leave(g.conv)
	g.addMembers(g.conv, "SINCE_JOIN", "C")
	g.c.read(g.conv, g.c.see(g.conv).Head)
	equal(t, "read in the first period", g.a.readOf(g.conv, read[0]), "1/2")
	equal(t, "read past in the second", g.a.readOf(g.conv, unread[0]), "1/2")
	equal(t, "read in the second", g.a.readOf(g.conv, read[1]), "1/2")
	equal(t, "never read", g.a.readOf(g.conv, unread[1]), "0/2")
}

// TestLastReadAt: when the position last moved forward; neither reading again
// nor marking unread changes it, and it is nothing for one who is pending.
func TestLastReadAt(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 3)
	g.b1.read(g.conv, m[1])
	at := func() string {
		t.Helper()
		return *g.a.receiptOf(g.conv, m[0]).Readers.Nodes[0].LastReadAt
	}
	first := at()
	g.b1.unreadFrom(g.conv, m[0], m[1])
	g.b1.read(g.conv, m[0])
	equal(t, "after going back and reading again", at(), first)
	for _, p := range g.a.receiptOf(g.conv, m[2]).Pending.Nodes {
		equal(t, "of "+p.User.ID+", who is pending", p.LastReadAt == nil, true)
	}
	g.b1.read(g.conv, m[2])
	if at() <= first {
		t.Errorf("%s after %s", at(), first)
	}
}

func TestA44SinceJoinMakesNoReader(t *testing.T) {
	g := newTrio(t)
	seen, unseen := g.a.send(g.conv, 1)[0], int64(0)
	g.c.read(g.conv, seen)
	g.c.ack(0, cursorOf(g.conv, seen))
	unseen = g.a.send(g.conv, 1)[0]
	g.c.leave(g.conv)
	g.addMembers(g.conv, "SINCE_JOIN", "C")
	head := g.c.see(g.conv).Head
	g.c.read(g.conv, head)
	g.c.ack(0, cursorOf(g.conv, head))
	equal(t, "what C had read", g.a.readOf(g.conv, seen), "1/2")
	equal(t, "what C had not", g.a.readOf(g.conv, unseen), "0/2")
	equal(t, "delivered, what C had", g.a.receiptOf(g.conv, seen).DeliveredCount, 1)
	equal(t, "delivered, what C had not", g.a.receiptOf(g.conv, unseen).DeliveredCount, 0)
	equal(t, "of what comes now", g.a.readOf(g.conv, g.a.send(g.conv, 1)[0]), "0/2")
}

func TestR77TheAudienceIsOfTheMoment(t *testing.T) {
	g := newTrio(t)
	m1 := g.a.send(g.conv, 1)[0]
	g.b1.read(g.conv, m1)
	g.c.read(g.conv, m1)
	g.c.leave(g.conv)
	m2 := g.a.send(g.conv, 1)[0]
	g.b1.read(g.conv, m2)
	g.addMembers(g.conv, "MEMBERSHIP", "C")
	g.c.read(g.conv, g.c.see(g.conv).Head)
	equal(t, "m2", g.a.readOf(g.conv, m2), "1/1")
	equal(t, "m1", g.a.readOf(g.conv, m1), "2/2")
	g.c.leave(g.conv)
	for _, r := range g.a.receiptOf(g.conv, m1).Readers.Nodes {
		equal(t, r.User.ID+" is a member", r.Member, r.User.ID == "B")
	}
}

func TestR93R95OneWhoNeverOpens(t *testing.T) {
	g := newTrio(t)
	conv := g.group("late", "A", "B")
	m1 := g.a.send(conv, 1)[0]
	g.addMembers(conv, "MEMBERSHIP", "C")
	m := g.a.send(conv, 3)
	equal(t, "u(C)", g.c.see(conv).Unread, 3)
	g.b1.read(conv, m[2])
	r := g.a.receiptOf(conv, m[2])
	equal(t, "readers", len(r.Readers.Nodes), 1)
	equal(t, "reader", r.Readers.Nodes[0].User.ID, "B")
	equal(t, "pending", r.Pending.Nodes[0].User.ID, "C")
	equal(t, "allRead", r.AllRead, false)
	equal(t, "of before C came", g.a.receiptOf(conv, m1).AllRead, true)
}

func TestR123DeliveredCount(t *testing.T) {
	g := newTrio(t)
	conv := g.conversation("DIRECT", "d", "A", "B")
	m1 := g.a.send(conv, 1)[0]
	g.b1.ack(0, cursorOf(conv, m1))
	m2 := g.a.send(conv, 1)[0]
	equal(t, "m1", g.a.receiptOf(conv, m1).DeliveredCount, 1)
	equal(t, "m2", g.a.receiptOf(conv, m2).DeliveredCount, 0)
	equal(t, "which is no read", g.a.readOf(conv, m1), "0/1")
	g.b2.ack(0, cursorOf(conv, m2))
	equal(t, "on another device", g.a.receiptOf(conv, m2).DeliveredCount, 1)
	g.b2.install("one")
	g.b2.install("two")
	equal(t, "it can fall after a reinstall", g.a.receiptOf(conv, m2).DeliveredCount, 0)
	g.service().must(`mutation { revokeDevice(input: {deviceId: "b1"}) { deviceId } }`, nil)
	equal(t, "a revoked device does not count", g.a.receiptOf(conv, m1).DeliveredCount, 0)
}

// TestReceiptPolicies: who sees what under each policy, with and without sharing.
func TestReceiptPolicies(t *testing.T) {
	for policy, want := range map[string]struct{ sender, other, senderHides, readerHides, otherHides string }{
		"SENDER":   {"1/2", "-", "-", "0/1", "-"},
		"MEMBERS":  {"1/2", "1/2", "-", "0/1", "-"},
		"OFF":      {"-", "-", "-", "-", "-"},
		"REQUIRED": {"1/2", "1/2", "1/2", "1/2", "1/2"},
	} {
		t.Run(policy, func(t *testing.T) {
			g := newTrio(t)
			conv := g.groupWith(policy, "g", "A", "B", "C")
			m := g.a.send(conv, 1)[0]
			g.b1.read(conv, m)
			equal(t, "the sender", g.a.readOf(conv, m), want.sender)
			equal(t, "another member", g.c.readOf(conv, m), want.other)
			equal(t, "a stranger", g.device("E", "e1").see(conv) == nil, true)
			g.b1.share(false)
			equal(t, "the reader hides: the sender", g.a.readOf(conv, m), want.readerHides)
			equal(t, "B's own devices are as before", g.b2.see(conv).Read, m)
			g.b1.share(true)
			g.a.share(false)
			equal(t, "the sender hides", g.a.readOf(conv, m), want.senderHides)
			g.a.share(true)
			g.c.share(false)
			equal(t, "another one hides", g.c.readOf(conv, m), want.otherHides)
			g.update(conv, "receiptPolicy: OFF")
			equal(t, "OFF", g.a.readOf(conv, m), "-")
		})
	}
}

// TestReceiptsOfWithdrawnAndStrange: a withdrawn message keeps its receipt, the
// message of a recall that one cannot see has none, nor has what a leaver sees.
func TestReceiptsOfWithdrawnAndStrange(t *testing.T) {
	g := newTrio(t)
	conv := g.groupWith("MEMBERS", "g", "A", "B", "C")
	m := g.a.send(conv, 2)
	g.b1.read(conv, m[1])
	g.a.recall(conv, m[0])
	g.takeDown(conv, m[1])
	equal(t, "recalled", g.a.readOf(conv, m[0]), "1/2")
	equal(t, "taken down", g.a.readOf(conv, m[1]), "1/2")
	later := g.a.send(conv, 1)[0]
	d := g.device("D", "d1")
	g.addMembers(conv, "MEMBERSHIP", "D")
	g.a.recall(conv, later)
	var out struct {
		Conversation struct {
			Events struct {
				Nodes []struct {
					Message struct{ Receipt *receipt }
				}
			}
		}
	}
	ask := func(who *client) *receipt {
		who.must(`{ conversation(id: "g") { events(last: 1) { nodes { ... on MessageRecalled { message {`+receiptFields+`} } } } } }`, nil).into(&out)
		return out.Conversation.Events.Nodes[0].Message.Receipt
	}
	equal(t, "of a message that D cannot see", ask(d) == nil, true)
	equal(t, "of one that B can", ask(g.b1) != nil, true)
	g.erase("A")
	equal(t, "of an erased sender", g.b1.readOf(conv, m[0]), "1/2")
	g.erase("C")
	equal(t, "erased users leave the audience", g.b1.readOf(conv, m[0]), "1/1")
	g.b1.leave(conv)
	equal(t, "a leaver", g.b1.readOf(conv, m[0]), "-")
}
