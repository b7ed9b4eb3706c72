package resolvers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// copyOf is a client's copy of its list: what it knows of each conversation.
type copyOf map[string]row

// sync brings a copy up to date, page by page, and returns the token for the next time.
func (c *client) sync(copy copyOf, token string, first int) string {
	c.p.w.t.Helper()
	for {
		page := c.changes(token, first)
		if page.Resync {
			c.p.w.t.Fatal("resync")
		}
		for _, r := range page.Changed {
			copy[r.ID] = r
		}
		token = page.SyncToken
		if !page.HasMore {
			return token
		}
	}
}

// whole is a fresh copy by queries, left and archived ones included.
func (c *client) whole() copyOf {
	c.p.w.t.Helper()
	copy := copyOf{}
	for _, filter := range []string{"", "archived: true", "active: false", "active: false, archived: true"} {
		rows, _ := c.inbox(filter)
		for _, r := range rows {
			copy[r.ID] = r
		}
	}
	return copy
}

// same fails unless a copy is what a fresh one would be, versions apart.
func (copy copyOf) same(t *testing.T, what string, fresh copyOf) {
	t.Helper()
	equal(t, what+": conversations", len(copy), len(fresh))
	for id, want := range fresh {
		got := copy[id]
		got.Version = want.Version
		if a, b := fmt.Sprintf("%+v", flat(got)), fmt.Sprintf("%+v", flat(want)); a != b {
			t.Errorf("%s: the copy of %s is\n%s\nbut it is\n%s", what, id, a, b)
		}
	}
}

// flat makes a row printable: pointers would print as addresses.
func flat(r row) string {
	title, first, mention, last, body := "", int64(0), int64(0), int64(0), ""
	if r.Title != nil {
		title = *r.Title
	}
	if r.FirstUnread != nil {
		first = r.FirstUnread.Seq
	}
	if r.FirstMention != nil {
		mention = r.FirstMention.Seq
	}
	if r.LastMessage != nil {
		if last = r.LastMessage.Seq; r.LastMessage.Body != nil {
			body = *r.LastMessage.Body
		}
	}
	r.Title, r.FirstUnread, r.FirstMention, r.LastMessage, r.Members.Nodes = nil, nil, nil, nil, nil
	return fmt.Sprintf("%+v title %q first %d mention %d last %d %q", r, title, first, mention, last, body)
}

func TestA39ThreeHundredChangesInPages(t *testing.T) {
	w := newWorld(t)
	a, b := w.device("A", "a1"), w.device("B", "b1")
	var others []vars
	for n := range 300 {
		conv := w.group(fmt.Sprintf("c%03d", n), "A", "B")
		w.fill(conv, "A", 1)
		others = append(others, cursorOf(conv, 3))
	}
	token := b.syncToken()
	equal(t, "nothing changed", len(b.changes(token, 100).Changed), 0)
	b.readAll(false)
	seen := map[string]int{}
	page := b.changes(token, 100)
	for pages := 1; ; pages++ {
		for _, r := range page.Changed {
			seen[r.ID]++
			equal(t, "u of "+r.ID, r.Unread, 0)
		}
		equal(t, "each page has the badge of its moment", page.Badge.Unread, int64(min(pages-1, 1)))
		if pages == 1 {
			a.send("c000", 1) // while the round goes on
		}
		if !page.HasMore {
			equal(t, "pages", pages, 3)
			break
		}
		page = b.changes(page.SyncToken, 100)
	}
	equal(t, "conversations", len(seen), 300)
	for id, n := range seen {
		equal(t, id, n, 1)
	}
	page = b.changes(page.SyncToken, 100)
	equal(t, "what changed meanwhile comes next", ids(page.Changed), "c000")
	equal(t, "with its count", page.Changed[0].Unread, 1)
	b.ack(0, others[0])
	equal(t, "an ack is a change for this device", ids(b.changes(page.SyncToken, 100).Changed), "c000")
	equal(t, "and only for it", len(w.device("B", "b2").changes(w.device("B", "b3").syncToken(), 1).Changed), 0)
}

func TestA40WithdrawnWhileOffline(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 4)
	c2 := g.group("c2", "A", "B")
	quiet := g.c.send(g.conv, 1)[0]
	token := g.b1.syncToken()
	g.takeDown(g.conv, m[1])
	g.a.recall(g.conv, m[2]) // an event says so
	page := g.b1.changes(token, 10)
	equal(t, "changed", ids(page.Changed), g.conv)
	equal(t, "withdrawn", fmt.Sprint(page.Withdrawn), fmt.Sprintf("[{%s %d}]", g.conv, m[1]))
	equal(t, "u", page.Changed[0].Unread, 3)
	g.erase("C")
	page = g.b1.changes(page.SyncToken, 10)
	equal(t, "erased", fmt.Sprint(page.Withdrawn), fmt.Sprintf("[{%s %d}]", g.conv, quiet))
	equal(t, "nothing is told twice", len(g.b1.changes(page.SyncToken, 10).Withdrawn), 0)
	// One who has left learns of what is taken from what they may see, and of nothing else.
	g.b1.leave(g.conv)
	token = g.b1.sync(copyOf{}, page.SyncToken, 10)
	later := g.a.send(g.conv, 3)
	g.takeDown(g.conv, later[0])
	g.a.edit(g.conv, later[1], "later", nil)
	g.a.send(c2, 1)
	page = g.b1.changes(token, 10)
	equal(t, "a leaver hears of no later event", ids(page.Changed), c2)
	equal(t, "nor of later withdrawals", len(page.Withdrawn), 0)
	g.b1.set(g.conv, "muted: true")
	page = g.b1.changes(token, 10)
	equal(t, "also where something else has changed", ids(page.Changed), g.conv+" "+c2)
	equal(t, "no later withdrawal is named", len(page.Withdrawn), 0)
	g.takeDown(g.conv, m[0])
	page = g.b1.changes(page.SyncToken, 10)
	equal(t, "a leaver's copy", ids(page.Changed), g.conv)
	equal(t, "drops the body", fmt.Sprint(page.Withdrawn), fmt.Sprintf("[{%s %d}]", g.conv, m[0]))
	g.a.edit(g.conv, m[3], "edited", nil)
	page = g.b1.changes(page.SyncToken, 10)
	equal(t, "an edit of what they may see", ids(page.Changed), g.conv)
}

// TestA40RecallsInAnAbsence: their events lie where one may not look, so that
// withdrawn names them; after a return as well.
func TestA40RecallsInAnAbsence(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 3)
	token := g.b1.syncToken()
	g.removeMembers(g.conv, "B")
	g.a.recall(g.conv, m[0])
	page := g.b1.changes(token, 10)
	equal(t, "while away", fmt.Sprint(page.Withdrawn), fmt.Sprintf("[{%s %d}]", g.conv, m[0]))
	g.a.recall(g.conv, m[1])
	g.addMembers(g.conv, "MEMBERSHIP", "B")
	page = g.b1.changes(page.SyncToken, 10)
	equal(t, "after the return", fmt.Sprint(page.Withdrawn), fmt.Sprintf("[{%s %d}]", g.conv, m[1]))
}

// TestA46EditsAfterALeave: one who has left goes on seeing what was there then.
func TestA46EditsAfterALeave(t *testing.T) {
	g := newTrio(t)
	m := g.a.say(g.conv, vars{"m": []string{"B"}}).Message.Seq
	last := g.a.send(g.conv, 1)[0]
	g.a.edit(g.conv, last, "before", nil)
	g.removeMembers(g.conv, "B")
	g.a.edit(g.conv, last, "after", vars{"all": true, "m": []string{"C"}})
	g.a.edit(g.conv, last, "long after", nil)
	r := g.b1.see(g.conv)
	equal(t, "body", *r.LastMessage.Body, "before")
	equal(t, "mentions", r.UnreadMentions, 1)
	equal(t, "the first", r.FirstMention.Seq, m)
	equal(t, "of others", *g.c.see(g.conv).LastMessage.Body, "long after")
	g.addMembers(g.conv, "MEMBERSHIP", "B")
	r = g.b1.see(g.conv)
	equal(t, "back again: the body", *r.LastMessage.Body, "long after")
	equal(t, "back again: the mentions", r.UnreadMentions, 2)
	g.removeMembers(g.conv, "B")
	g.a.edit(g.conv, last, "later", nil)
	equal(t, "gone again", *g.b1.see(g.conv).LastMessage.Body, "long after")
	g.a.recall(g.conv, last)
	equal(t, "recalled", g.b1.see(g.conv).LastMessage.Body == nil, true)
	var kept int
	if err := g.conn().QueryRow(t.Context(), `SELECT count(*) FROM events WHERE kind = 5 AND (body IS NOT NULL OR mention_ids IS NOT NULL OR mentions_all)`).Scan(&kept); err != nil {
		t.Fatal(err)
	}
	equal(t, "what edits replaced is gone with it", kept, 0)
}

// TestTooMuchWithdrawnIsAResync: a page names at most a thousand.
func TestTooMuchWithdrawnIsAResync(t *testing.T) {
	g := newTrio(t)
	g.fill(g.conv, "C", 1001)
	token := g.b1.syncToken()
	g.erase("C")
	page := g.b1.changes(token, 10)
	equal(t, "resync", page.Resync, true)
	equal(t, "changed", len(page.Changed)+len(page.Withdrawn), 0)
	equal(t, "and then nothing new", len(g.b1.changes(page.SyncToken, 10).Changed), 0)
}

func TestR53ReconnectAfterTwoMessages(t *testing.T) {
	g := newTrio(t)
	conv := g.conversation("DIRECT", "d", "A", "B")
	socket := g.b1.socket()
	socket.subscribe(inboxDoc).resync()
	token := g.b1.syncToken()
	socket.close()
	g.a.send(conv, 2)
	again := g.b1.socket().subscribe(`subscription { inboxChanged { reasons conversationId conversation { id } badge {` + badgeFields + `} } }`)
	e := again.next()
	equal(t, "the first event", e.Reasons[0], "RESYNC")
	equal(t, "its badge", e.Badge.Unread, 2)
	page := g.b1.changes(token, 10)
	equal(t, "what changed", ids(page.Changed), conv)
	equal(t, "u", page.Changed[0].Unread, 2)
}

// TestR55AFrozenSocketComesBack: the server gives up a client that reads nothing
// any more; with its token it gets what it missed.
func TestR55AFrozenSocketComesBack(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 3)
	token := g.b1.syncToken()
	fields := ""
	for n := range 2 { // more than the buffers of a connection hold
		fields += fmt.Sprintf(" e%d: events(last: 200) { nodes { ... on Message { body } } }", n)
	}
	frozen := g.main.dialNarrow(t, "graphql-transport-ws")
	for _, frame := range []string{
		fmt.Sprintf(`{"type":"connection_init","payload":{"authorization":"Bearer %s"}}`, g.b1.token),
		fmt.Sprintf(`{"id":"1","type":"subscribe","payload":{"query":"subscription { inboxChanged { conversation { %s } } }"}}`, fields),
	} {
		if err := frozen.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	g.fillWith(g.conv, "A", 200, strings.Repeat("long ", 3000))
	g.b2.read(g.conv, m[0])
	g.eventually("the server closes the frozen socket", func() bool {
		time.Sleep(50 * time.Millisecond)
		return frozen.Write(t.Context(), websocket.MessageText, []byte(`{"type":"pong"}`)) != nil
	})
	page := g.b1.changes(token, 10)
	equal(t, "what changed", ids(page.Changed), g.conv)
	equal(t, "read", page.Changed[0].Read, m[0])
}

// TestTokens: garbage is refused; what is of another device, install, user or
// database, or forged, is a resync.
func TestTokens(t *testing.T) {
	g := newTrio(t)
	other := newTrio(t)
	token := g.b1.syncToken()
	for what, since := range map[string]string{"empty": "", "words": "hello", "base64": "t1.aGVsbG8", "cut": token[:20], "long": strings.Repeat("x", 70_000), "a control character": "t1.\u0000"} {
		refused(t, what, g.b1.do(changesDoc, vars{"t": since}), "BAD_USER_INPUT", "since")
	}
	forged := []byte(token)
	if n := len(forged) - 5; forged[n] == 'A' {
		forged[n] = 'B'
	} else {
		forged[n] = 'A'
	}
	for what, since := range map[string]string{
		"another device": g.b2.syncToken(), "another user": g.c.syncToken(), "another database": other.b1.syncToken(), "forged": string(forged),
	} {
		page := g.b1.changes(since, 10)
		equal(t, what, page.Resync, true)
		equal(t, what+": its own token is good", g.b1.changes(page.SyncToken, 10).Resync, false)
	}
	g.b1.install("one")
	equal(t, "the first install", g.b1.changes(token, 10).Resync, false)
	g.b1.install("two")
	equal(t, "another install", g.b1.changes(token, 10).Resync, true)
	fresh := g.b1.syncToken()
	equal(t, "a good one", g.b1.changes(fresh, 10).Resync, false)
	refused(t, "a page of 201", g.b1.do(`query($t: String!) { changes(since: $t, first: 201) { hasMore } }`, vars{"t": fresh}), "BAD_USER_INPUT", "first")
	refused(t, "the service", g.service().do(changesDoc, vars{"t": fresh}), "FORBIDDEN", "")
}

// TestChangesMissNoLongTransaction: what a transaction wrote before a token was
// made, and committed after, is new.
func TestChangesMissNoLongTransaction(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 2)
	g.b2.read(g.conv, m[0])
	tx, err := g.conn().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE read_positions SET read_seq = $1, read_ord = 2, seen_seq = $1, mention_seq = $1, changed_xid = pg_current_xact_id() WHERE user_id = 'B'`, m[1]); err != nil {
		t.Fatal(err)
	}
	g.a.send(g.group("c2", "A", "B"), 1) // a later one that commits first
	token := g.b1.syncToken()
	equal(t, "nothing yet", len(g.b1.changes(token, 10).Changed), 0)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	page := g.b1.changes(token, 10)
	equal(t, "the long one", ids(page.Changed), g.conv)
	equal(t, "read", page.Changed[0].Read, m[1])
}

// TestCopiesFollow: after each of many kinds of change a copy that is synced by
// changes is what a fresh query gives.
func TestCopiesFollow(t *testing.T) {
	g := newTrio(t)
	c2 := g.group("c2", "A", "B")
	copy, token := g.b1.whole(), g.b1.syncToken()
	var m []int64
	for n, step := range []func(){
		func() { m = g.a.send(g.conv, 5) },
		func() { g.a.mention(c2, "B") },
		func() { g.b2.read(g.conv, m[2]) },
		func() { g.b1.ack(0, cursorOf(g.conv, m[3])) },
		func() { g.b2.unreadFrom(g.conv, m[1], m[2]) },
		func() { g.b2.remind(c2) },
		func() { g.b2.set(c2, "pinned: true, muted: true") },
		func() { g.b2.set(g.conv, "archived: true") },
		func() { g.a.edit(g.conv, m[4], "edited", vars{"m": []string{"B"}}) },
		func() { g.a.recall(g.conv, m[4]) },
		func() { g.takeDown(g.conv, m[3]) },
		func() { g.notice(g.conv, "line", "") },
		func() { g.update(g.conv, `title: "new", receiptPolicy: MEMBERS`) },
		func() { g.users("D"); g.addMembers(g.conv, "MEMBERSHIP", "D") },
		func() { g.b2.readAll(false) },
		func() { g.b2.readAll(true) },
		func() { g.removeMembers(g.conv, "B") },
		func() { g.a.send(g.conv, 2) },
		func() { g.takeDown(g.conv, m[2]) },
		func() { g.a.edit(g.conv, m[0], "edited after the leave", nil) },
		func() { g.b2.set(g.conv, "archived: false") },
		func() { g.addMembers(g.conv, "SINCE_JOIN", "B") },
		func() { g.b2.say(g.conv, vars{"up": g.b2.see(g.conv).Head}) },
		func() { g.group("c3", "A", "B", "C"); g.c.send("c3", 2) },
		func() { g.erase("C") },
		func() {},
	} {
		step()
		token = g.b1.sync(copy, token, 1+n%3)
		copy.same(t, fmt.Sprint("step ", n), g.b1.whole())
	}
}
