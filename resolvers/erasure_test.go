package resolvers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

func TestR87AfterAnErasure(t *testing.T) {
	g := newTrio(t)
	conv := g.conversation("DIRECT", "d", "A", "B")
	g.a.send(conv, 1)
	g.c.send(g.conv, 2)
	g.a.send(g.conv, 1)
	equal(t, "before", g.b1.badge().Unread, 4)
	g.erase("A")
	rows, b := g.b1.inbox("")
	var sum int64
	for _, r := range rows {
		sum += r.Unread
	}
	equal(t, "totals agree", b.Unread, sum)
	equal(t, "what others sent counts as before", g.b1.see(g.conv).Unread, 2)
	equal(t, "the conversation is listed", strings.Contains(ids(rows), conv), true)
	for _, r := range rows {
		g.b1.read(r.ID, r.Head)
	}
	equal(t, "brought to 0", g.b1.badge().counts(), badge{})
}

// TestErasure: name, bodies, mentions, positions, cursors, devices and settings
// are gone; others' counts are as before; open sessions end; twice is once.
func TestErasure(t *testing.T) {
	g := newTrio(t)
	conv := g.groupWith("MEMBERS", "g", "A", "B", "C")
	g.conversation("DIRECT", "d", "A", "B")
	g.service().must(`mutation { putUser(input: {id: "A", name: "Ana"}) { user { id } } }`, nil)
	m := g.a.send(conv, 3)
	g.b1.send(conv, 2)
	named := g.c.mention(conv, "A", "B")
	g.a.mention(conv, "B")
	g.a.recall(conv, m[1])
	g.a.read(conv, m[2])
	g.a.ack(0, cursorOf(conv, m[2]))
	g.a.set(conv, "muted: true, pinned: true, archived: true")
	g.c.read(conv, m[2])
	others := g.c.see(conv).Unread // 2 of B's and one of A's
	ofB := g.b1.see(conv)
	watch, session := g.b1.socket().subscribe(inboxDoc), g.a.socket()
	watch.resync()
	g.erase("A")
	<-session.closed
	equal(t, "the session's end", int(websocket.CloseStatus(session.err)), 4403)
	refused(t, "the credential", g.a.do(`{ badge { unread } }`, nil), "UNAUTHENTICATED", "")
	told := map[string]bool{}
	for !(told[conv+" MEMBERSHIP"] && told[conv+" TAKE_DOWN"] && told["d MEMBERSHIP"]) {
		e := watch.next()
		for _, r := range e.Reasons {
			told[*e.ConversationID+" "+r] = true
		}
	}
	equal(t, "C's unread lost A's message", g.c.see(conv).Unread, others-1)
	r := g.b1.see(conv)
	equal(t, "B's unread lost A's", r.Unread, ofB.Unread-3)
	equal(t, "B is mentioned by C only", r.UnreadMentions, 1)
	equal(t, "members", r.Members.TotalCount, 2)
	equal(t, "head: one MemberLeft", r.Head, ofB.Head+1)
	events := g.b1.events(conv, 0)
	for _, e := range events {
		if e.Typename == "Message" && e.Actor == nil && (e.Body != nil || e.Recalled == e.TakenDown) {
			t.Errorf("%+v", e)
		}
	}
	last := events[len(events)-1]
	if last.Typename != "MemberLeft" || last.Member.ID != "A" || last.Actor != nil {
		t.Errorf("%+v", last)
	}
	equal(t, "the recalled one stays recalled", events[m[1]-events[0].Seq].Recalled, true)
	var out struct {
		Conversation struct {
			Events struct {
				Nodes []struct{ Mentions []struct{ ID string } }
			}
		}
	}
	g.b1.must(`query($a: Seq!) { conversation(id: "g") { events(after: $a, first: 1) { nodes { ... on Message { mentions { id } } } } } }`, vars{"a": named - 1}).into(&out)
	equal(t, "mentions in others' messages", fmt.Sprint(out.Conversation.Events.Nodes[0].Mentions), "[{B}]")
	equal(t, "in a DIRECT conversation too", g.b1.see("d").Members.TotalCount, 1)

	head := g.b1.see(conv).Head
	g.erase("A")
	equal(t, "erasing again", g.b1.see(conv).Head, head)
	service := g.service()
	for what, doc := range map[string]string{
		"putUser":      `mutation { putUser(input: {id: "A", name: "again"}) { user { id } } }`,
		"createDevice": `mutation { createDevice(input: {userId: "A"}) { token } }`,
		"addMembers":   `mutation { addMembers(input: {conversationId: "g", userIds: ["A"]}) { conversation { id } } }`,
		"create":       `mutation { createConversation(input: {kind: GROUP, memberIds: ["A", "B"]}) { conversation { id } } }`,
		"userBadge":    `{ userBadge(userId: "A") { unread } }`,
		"userDevices":  `{ userDevices(userId: "A") { id } }`,
		"nobody":       `mutation { eraseUser(input: {userId: "nobody"}) { userId } }`,
	} {
		equal(t, what, service.do(doc, nil).code(), "NOT_FOUND")
	}
	equal(t, "the direct conversation is not made anew", service.do(`mutation { createConversation(input: {kind: DIRECT, memberIds: ["A", "B"]}) { conversation { id } } }`, nil).code(), "NOT_FOUND")
	equal(t, "a mention of an erased user", g.b1.say(conv, vars{"m": []string{"A"}}).mentions(), "")
	// Nothing about A is left in any table but that they were there.
	for table, where := range map[string]string{
		"devices": `user_id = 'A'`, "read_positions": `user_id = 'A'`, "mentions": `user_id = 'A' OR sender = 'A'`,
		"device_cursors": `device_id IN ('a1')`, "users": `user_id = 'A' AND (name IS NOT NULL OR erased_at IS NULL)`,
		"members": `user_id = 'A' AND (left_at IS NULL OR muted OR pinned_at IS NOT NULL OR archived_at_seq IS NOT NULL)`,
		"events":  `sender = 'A' AND kind = 1 AND (body IS NOT NULL OR client_message_id IS NOT NULL OR mention_ids IS NOT NULL) OR 'A' = ANY(mention_ids)`,
	} {
		var n int
		if err := g.conn().QueryRow(t.Context(), `SELECT count(*) FROM `+table+` WHERE `+where).Scan(&n); err != nil {
			t.Fatal(err)
		}
		equal(t, "left in "+table, n, 0)
	}
}

// TestErasureOfALoner: whoever is in no conversation loses their sessions, too.
func TestErasureOfALoner(t *testing.T) {
	w := newWorld(t)
	session := w.device("loner", "l1").socket()
	w.erase("loner")
	<-session.closed
	equal(t, "close code", int(websocket.CloseStatus(session.err)), 4403)
}
