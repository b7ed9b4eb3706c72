package resolvers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestListsReadOncePerPage: whatever a page of conversations is asked for, the
// number of statements does not depend on its rows, by nodes and by edges alike.
func TestListsReadOncePerPage(t *testing.T) {
	w := newWorld(t)
	a, b := w.device("A", "a1"), w.device("B", "b1")
	for n := range 20 {
		a.send(w.group(fmt.Sprint("c", n), "A", "B"), 2)
	}
	parts := map[string]struct {
		fields     string
		statements int
	}{
		"plain":        {`id head read unread delivered lastActivityAt membership { active periods { fromSeq } }`, 0},
		"unread twice": {`unread ninetynine: unread(atMost: 99)`, 0},
		"last message": {`lastMessage { seq body actor { id name } }`, 1},
		"first unread": {`firstUnread { seq body actor { id name } }`, 1},
		"events":       {`events(last: 5) { nodes { __typename seq actor { name } ... on MemberJoined { member { name } } } }`, 1},
		"events twice": {`events(last: 5) { nodes { seq } } early: events(first: 2) { nodes { seq } } again: events(last: 5) { edges { node { seq } } }`, 2},
		"mentions":     {`unreadMentions firstUnreadMention { seq body mentions { name } }`, 1},
		"members":      {`members(first: 3) { totalCount nodes { user { name } joinedAt } }`, 1},
		"all of it":    {`id unread lastMessage { seq } firstUnread { seq } events { nodes { seq } } members { totalCount }`, 4},
	}
	for name, part := range parts {
		for _, shape := range []string{"nodes { %s }", "edges { cursor node { %s } }"} {
			var statements []string
			doc := `{ conversations(first: 20) { badge { unread } ` + fmt.Sprintf(shape, part.fields) + ` } }`
			b.must(doc, nil)
			statements = w.main.sent(func() { b.must(doc, nil) })
			reads := readsOf(statements)
			if want := 2 + part.statements; len(reads) != want { // the page and the badge
				t.Errorf("%s by %s: %d statements, want %d:\n%s", name, shape, len(reads), want, strings.Join(reads, "\n---\n"))
			}
		}
	}
}

// TestAPayloadWithAReceiptHasItsOwnSnapshot: however deep in fragments the receipt
// is selected, message and receipt come from one snapshot, not from the shared one and another.
func TestAPayloadWithAReceiptHasItsOwnSnapshot(t *testing.T) {
	w := newWorld(t)
	a := w.device("A", "a1")
	w.group("g", "A")
	const shared = "WITH ORDINALITY AS k(u, c, s, i)"
	for fields, together := range map[string]bool{
		`seq body`:                       true,
		`seq body receipt { readCount }`: false,
		`seq body ... on Event { ... on Message { receipt { readCount } } }`: false,
	} {
		statements := w.main.sent(func() {
			a.must(`mutation ($id: ID!) { sendMessage(input: { conversationId: "g", clientMessageId: $id, body: "x" }) { message { `+fields+` } } }`, vars{"id": fields[:8] + fmt.Sprint(len(fields))})
		})
		if got := strings.Contains(strings.Join(statements, "\n"), shared); got != together {
			t.Errorf("%s: read together %v, want %v", fields, got, together)
		}
	}
}

// readsOf leaves out what every request sends: the credential and the snapshot.
func readsOf(statements []string) []string {
	return slices.DeleteFunc(slices.Clone(statements), func(sql string) bool {
		head := strings.ToLower(strings.TrimSpace(sql))
		return strings.HasPrefix(head, "begin") || strings.HasPrefix(head, "rollback") ||
			strings.Contains(sql, "token_sha256") || strings.HasPrefix(head, "select pg_snapshot_xmax")
	})
}

// TestListOrderAndPages: by newest activity, without gaps or repetition, and a
// filter keeps what it says.
func TestListOrderAndPages(t *testing.T) {
	w := newWorld(t)
	a, b := w.device("A", "a1"), w.device("B", "b1")
	var ids []string
	for n := range 7 {
		ids = append(ids, w.group(fmt.Sprint("c", n), "A", "B"))
	}
	for _, id := range ids {
		a.send(id, 1)
	}
	a.send("c2", 1) // moves to the front
	b.read("c4", 3)
	want := []string{"c2", "c6", "c5", "c4", "c3", "c1", "c0"}
	walk := func(filter string, size int) (got []string) {
		var after *string
		for {
			var out struct {
				Conversations struct {
					Nodes    []row
					PageInfo struct {
						HasNextPage, HasPreviousPage bool
						EndCursor                    *string
					}
				}
			}
			b.must(`query($n: Int!, $a: String) { conversations(first: $n, after: $a, filter: {`+filter+`}) { nodes { id unread } pageInfo { hasNextPage hasPreviousPage endCursor } } }`,
				vars{"n": size, "a": after}).into(&out)
			equal(t, "hasPreviousPage", out.Conversations.PageInfo.HasPreviousPage, after != nil)
			for _, n := range out.Conversations.Nodes {
				got = append(got, n.ID)
			}
			if !out.Conversations.PageInfo.HasNextPage {
				return got
			}
			after = out.Conversations.PageInfo.EndCursor
		}
	}
	for _, size := range []int{1, 2, 3, 7, 200} {
		equal(t, fmt.Sprint("pages of ", size), strings.Join(walk("", size), " "), strings.Join(want, " "))
	}
	equal(t, "read ones", strings.Join(walk("unread: false", 2), " "), "c4")
	equal(t, "unread ones", strings.Join(walk("unread: true", 2), " "), "c2 c6 c5 c3 c1 c0")
	b.leave("c5")
	equal(t, "left ones", strings.Join(walk("active: false", 2), " "), "c5")
	equal(t, "present ones", strings.Join(walk("", 3), " "), "c2 c6 c4 c3 c1 c0")
	_, badge := b.inbox("")
	equal(t, "badge", badge.Unread, 2+1+1+1+1)
}

// TestEventPages: both ways, with what lies around the page.
func TestEventPages(t *testing.T) {
	h := newHarbour(t)
	h.users("u-cho")
	h.addMembers(h.conv, "MEMBERSHIP", "u-cho") // 13
	type page struct {
		Nodes    []struct{ Seq int64 }
		PageInfo struct {
			HasNextPage, HasPreviousPage bool
			StartCursor, EndCursor       *int64
		}
	}
	for args, want := range map[string]string{
		"":                                "2..13 prev=false next=false",
		"last: 3":                         "11..13 prev=true next=false",
		"last: 3, before: 11":             "8..10 prev=true next=true",
		"last: 200, before: 5":            "2..4 prev=false next=true",
		"last: 1, before: 2":              "empty prev=false next=true",
		"first: 3":                        "2..4 prev=false next=true",
		"first: 3, after: 4":              "5..7 prev=true next=true",
		"first: 200, after: 10":           "11..13 prev=true next=false",
		"first: 5, after: 13":             "empty prev=true next=false",
		"first: 5, after: 999":            "empty prev=true next=false",
		"first: 2, after: 3, before: 8":   "4..5 prev=true next=true",
		"first: 9, after: 3, before: 6":   "4..5 prev=true next=false",
		"last: 2, after: 3, before: 8":    "6..7 prev=true next=true",
		"last: 9, after: 3, before: 6":    "4..5 prev=false next=true",
		"last: 9, before: 0":              "empty prev=false next=true",
		"first: 99, after: 0, before: 99": "2..13 prev=false next=false",
	} {
		var out struct{ Conversation struct{ Events page } }
		if args != "" {
			args = "(" + args + ")"
		}
		h.d1.must(`{ conversation(id: "c-ab") { events`+args+` { nodes { seq } edges { cursor } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } } }`, nil).into(&out)
		p := out.Conversation.Events
		got := "empty"
		if n := len(p.Nodes); n > 0 {
			got = fmt.Sprintf("%d..%d", p.Nodes[0].Seq, p.Nodes[n-1].Seq)
			if p.Nodes[n-1].Seq-p.Nodes[0].Seq != int64(n-1) || *p.PageInfo.StartCursor != p.Nodes[0].Seq || *p.PageInfo.EndCursor != p.Nodes[n-1].Seq {
				t.Errorf("%s: %+v", args, p)
			}
		}
		equal(t, "events"+args, fmt.Sprintf("%s prev=%v next=%v", got, p.PageInfo.HasPreviousPage, p.PageInfo.HasNextPage), want)
	}
}

// TestMemberPages: by id, with the number of all.
func TestMemberPages(t *testing.T) {
	g := newTrio(t)
	var got []string
	var after *string
	for {
		var out struct {
			Conversation struct {
				Members struct {
					TotalCount int
					Nodes      []struct {
						User     struct{ ID string }
						JoinedAt string
					}
					PageInfo struct {
						HasNextPage bool
						EndCursor   *string
					}
				}
			}
		}
		g.b1.must(`query($a: String) { conversation(id: "c1") { members(first: 2, after: $a) { totalCount nodes { user { id } joinedAt } pageInfo { hasNextPage endCursor } } } }`, vars{"a": after}).into(&out)
		m := out.Conversation.Members
		equal(t, "totalCount", m.TotalCount, 3)
		for _, n := range m.Nodes {
			got = append(got, n.User.ID)
		}
		if !m.PageInfo.HasNextPage {
			break
		}
		after = m.PageInfo.EndCursor
	}
	equal(t, "members", strings.Join(got, " "), "A B C")
}

// TestRecallOfAnInvisibleMessage: one who joined later learns that a message was
// recalled, and nothing of what it held.
func TestRecallOfAnInvisibleMessage(t *testing.T) {
	h := newHarbour(t)
	cho := h.device("u-cho", "c1")
	h.addMembers(h.conv, "MEMBERSHIP", "u-cho")
	h.ana.recall(h.conv, 5)
	var out struct {
		Conversation struct {
			Events struct {
				Nodes []struct {
					Typename   string `json:"__typename"`
					MessageSeq int64
					Message    struct{ Body, ClientMessageID *string }
				}
			}
		}
	}
	cho.must(`{ conversation(id: "c-ab") { events(last: 1) { nodes { __typename ... on MessageRecalled { messageSeq message { body clientMessageId recalled } } } } } }`, nil).into(&out)
	e := out.Conversation.Events.Nodes[0]
	if e.Typename != "MessageRecalled" || e.MessageSeq != 5 || e.Message.Body != nil || e.Message.ClientMessageID != nil {
		t.Errorf("%+v", e)
	}
}
