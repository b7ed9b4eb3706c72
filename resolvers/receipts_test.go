package resolvers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"tidemark/chat"
	"tidemark/store"
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

// bigGroup makes a group of A and n-1 others, past the API.
func (w *world) bigGroup(conv string, n int) (others []chat.UserID) {
	w.t.Helper()
	ctx := context.Background()
	members := []chat.UserID{"A"}
	w.users("A")
	conn := w.conn()
	if _, err := conn.Exec(ctx, `INSERT INTO users (user_id) SELECT $1 || '-' || i FROM generate_series(1, $2::int) i`, conv, n-1); err != nil {
		w.t.Fatal(err)
	}
	for i := 1; i < n; i++ {
		others = append(others, chat.UserID(fmt.Sprintf("%s-%d", conv, i)))
	}
	members = append(members, others...)
	if _, _, err := w.main.store.CreateConversation(ctx, store.NewConversation{ID: chat.ConversationID(conv), Kind: chat.Group, Members: members}); err != nil {
		w.t.Fatal(err)
	}
	return others
}

func TestA25FiveHundredReaders(t *testing.T) {
	w := newWorld(t)
	a := w.device("A", "a1")
	others := w.bigGroup("big", 500)
	m := a.send("big", 1)[0]
	row := func() (xmin string) {
		if err := w.conn().QueryRow(t.Context(), `SELECT xmin::text || ctid::text FROM events WHERE conv_id = 'big' AND seq = $1`, m).Scan(&xmin); err != nil {
			t.Fatal(err)
		}
		return xmin
	}
	before := row()
	for n, u := range others {
		r, err := w.main.store.MarkRead(t.Context(), []store.ReadReport{{User: u, Conversation: "big", Seq: chat.Seq(m)}})
		if err != nil || r[0].Err != nil {
			t.Fatal(err, r)
		}
		if n%50 == 0 || n == len(others)-1 {
			equal(t, "receipt", a.readOf("big", m), fmt.Sprintf("%d/499", n+1))
		}
	}
	equal(t, "the message's row", row(), before)
}

func TestA27PendingInPages(t *testing.T) {
	g := newTrio(t)
	others := g.bigGroup("many", 60)
	m := g.a.send("many", 1)[0]
	for _, u := range others[:7] {
		if r, err := g.main.store.MarkRead(t.Context(), []store.ReadReport{{User: u, Conversation: "many", Seq: chat.Seq(m)}}); err != nil || r[0].Err != nil {
			t.Fatal(err, r)
		}
	}
	walk := func(list string, size int) (got []string) {
		var after *string
		for {
			var out struct {
				Conversation struct {
					LastMessage struct {
						Receipt struct {
							Page struct {
								Nodes []struct {
									User       struct{ ID string }
									LastReadAt *string
									Member     bool
								}
								PageInfo struct {
									HasNextPage, HasPreviousPage bool
									EndCursor                    *string
								}
							}
						}
					}
				}
			}
			g.a.must(`query($n: Int!, $a: String) { conversation(id: "many") { lastMessage { receipt { page: `+list+`(first: $n, after: $a) {
				nodes { user { id } lastReadAt member } pageInfo { hasNextPage hasPreviousPage endCursor } } } } } }`, vars{"n": size, "a": after}).into(&out)
			page := out.Conversation.LastMessage.Receipt.Page
			equal(t, "hasPreviousPage", page.PageInfo.HasPreviousPage, after != nil)
			for _, r := range page.Nodes {
				got = append(got, r.User.ID)
				equal(t, "lastReadAt in "+list, r.LastReadAt != nil, list == "readers")
				equal(t, "member", r.Member, true)
			}
			if after = page.PageInfo.EndCursor; !page.PageInfo.HasNextPage {
				return got
			}
		}
	}
	for _, size := range []int{1, 7, 50, 200} {
		equal(t, "readers", len(walk("readers", size)), 7)
		pending := walk("pending", size)
		equal(t, "pending", len(pending), 52)
		seen := map[string]bool{}
		for _, id := range pending {
			seen[id] = true
		}
		equal(t, "different ones", len(seen), 52)
	}
	// A was offline all the while: no push was needed for any of this.
	equal(t, "receipt", g.a.readOf("many", m), "7/59")
	refused(t, "a page of 0", g.a.do(`{ conversation(id: "many") { lastMessage { receipt { readers(first: 0) { nodes { member } } } } } }`, nil), "BAD_USER_INPUT", "first")
	refused(t, "a cursor of another list", g.a.do(`{ conversation(id: "many") { lastMessage { receipt { readers(after: "eyJsIjoieCIsImkiOiJ5In0") { nodes { member } } } } } }`, nil), "BAD_USER_INPUT", "after")
}

func TestA28R117NamesOrCounts(t *testing.T) {
	w := newWorld(t)
	a := w.device("A", "a1")
	for size, want := range map[int]string{199: "NAMES", 200: "COUNTS", 201: "COUNTS"} {
		conv := fmt.Sprint("g", size)
		others := w.bigGroup(conv, size)
		m := a.send(conv, 1)[0]
		if r, err := w.main.store.MarkRead(t.Context(), []store.ReadReport{{User: others[0], Conversation: chat.ConversationID(conv), Seq: chat.Seq(m)}}); err != nil || r[0].Err != nil {
			t.Fatal(err, r)
		}
		r := a.receiptOf(conv, m)
		equal(t, conv, r.Detail, want)
		equal(t, conv+" has readers", r.Readers != nil, want == "NAMES")
		equal(t, conv+" has pending", r.Pending != nil, want == "NAMES")
		equal(t, conv+" is exact", fmt.Sprintf("%d/%d", r.ReadCount, r.Audience), fmt.Sprintf("1/%d", size-1))
	}
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

// TestReceiptsAreReadOncePerPage: by nodes, by edges, below lastMessage, across a join.
func TestReceiptsAreReadOncePerPage(t *testing.T) {
	g := newTrio(t)
	conv := g.groupWith("MEMBERS", "g", "A", "B", "C")
	for n := range 20 {
		g.a.send(g.groupWith("MEMBERS", fmt.Sprint("r", n), "A", "B"), 2)
		g.a.send(conv, 1)
		if n == 10 {
			g.users("D")
			g.addMembers(conv, "MEMBERSHIP", "D")
		}
	}
	receipt := `receipt { readCount audience deliveredCount readers(first: 3) { nodes { user { name } } } pending { nodes { user { id } } } }`
	for _, doc := range []string{
		`{ conversation(id: "g") { events(last: 50) { nodes { ... on Message { ` + receipt + ` } } } } }`,
		`{ conversation(id: "g") { events(last: 50) { edges { node { ... on Message { ` + receipt + ` } } } } } }`,
		`{ conversations(first: 20) { nodes { lastMessage { ` + receipt + ` } } } }`,
		`{ conversations(first: 20) { edges { node { lastMessage { ` + receipt + ` } } } } }`,
	} {
		reads := readsOf(g.main.sent(func() { g.b1.must(doc, nil) }))
		if len(reads) != 2+4 { // the conversations, their events; reads, deliveries, readers, pending
			t.Errorf("%d statements for %s:\n%s", len(reads), doc, strings.Join(reads, "\n---\n"))
		}
	}
	before, after := g.a.readOf(conv, g.b1.events(conv, 3)[0].Seq), g.a.readOf(conv, g.a.see(conv).LastMessage.Seq)
	equal(t, "before the join", before, "0/2")
	equal(t, "after it", after, "0/3")
}

// TestReceiptsOfThousands: above 10,000 members counts come from memory for at
// most a second; who may look is asked all the same.
func TestReceiptsOfThousands(t *testing.T) {
	w := newWorld(t)
	a := w.device("A", "a1")
	others := w.bigGroup("huge", 10_002)
	m := a.send("huge", 1)[0]
	equal(t, "receipt", a.readOf("huge", m), "0/10001")
	if r, err := w.main.store.MarkRead(t.Context(), []store.ReadReport{{User: others[0], Conversation: "huge", Seq: chat.Seq(m)}}); err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	w.eventually("the count is right a second later", func() bool { return a.readOf("huge", m) == "1/10001" })
	passes := 0
	for range 5 {
		for _, sql := range w.main.sent(func() { a.readOf("huge", m) }) {
			if strings.Contains(sql, "pieces") {
				passes++
			}
		}
	}
	if passes >= 20 {
		t.Errorf("%d statements for five looks of two kinds: nothing came from memory", passes)
	}
	w.update("huge", "receiptPolicy: OFF")
	equal(t, "withheld at once", a.readOf("huge", m), "-")
}
