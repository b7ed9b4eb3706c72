package resolvers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"tidemark/chat"
	"tidemark/store"
)

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

func TestR65TenThousandMembers(t *testing.T) {
	w := newWorld(t)
	a := w.device("A", "a1")
	others := w.bigGroup("huge", 10_000)
	b1, b2 := w.device(string(others[0]), "b1"), w.device(string(others[0]), "b2")
	m := a.send("huge", 1)[0]
	reads := b2.socket().subscribe(`subscription { readChanged { reason conversationId read } }`)
	reads.resync()
	bystander := w.device(string(others[1]), "o1")
	head := a.see("huge").Head
	b1.read("huge", m)
	equal(t, "the hint", reads.next().Read, m)
	equal(t, "log rows", a.see("huge").Head, head)
	equal(t, "somebody else's unread", bystander.see("huge").Unread, 1)
	w.group("sentinel", "A", string(others[0]))
	b1.read("sentinel", 1)
	reads.silentUntil("sentinel")
}
