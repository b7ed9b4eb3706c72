package resolvers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const inboxDoc = `subscription { inboxChanged { reasons conversationId conversation { id version head unread read } badge { version unread } } }`

// TestA42VersionsOrderAnswers: of a payload and a hint that overtake each other
// the larger version is the newer, and a client that keeps the larger ends right.
func TestA42VersionsOrderAnswers(t *testing.T) {
	g := newTrio(t)
	watch := g.b2.socket().subscribe(inboxDoc)
	watch.resync()
	var mu sync.Mutex
	var kept, keptBadge struct{ version, unread int64 }
	keep := func(c *row, b *badge) {
		mu.Lock()
		defer mu.Unlock()
		if c != nil && c.Version > kept.version {
			kept.version, kept.unread = c.Version, c.Unread
		}
		if b != nil && b.Version > keptBadge.version {
			keptBadge.version, keptBadge.unread = b.Version, b.Unread
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 20 {
			g.a.send(g.conv, 1)
		}
	})
	wg.Go(func() {
		for seq := int64(1); seq <= 20; seq++ {
			p := g.b1.read(g.conv, min(seq, g.b1.see(g.conv).Head)).MarkRead
			keep(&p.Conversation, &p.Badge)
		}
	})
	wg.Wait()
	g.a.send(g.conv, 1)
	last := g.b1.see(g.conv)
	for {
		h := watch.next()
		keep(h.Conversation, h.Badge)
		if h.Conversation != nil && h.Conversation.Head == last.Head {
			break
		}
	}
	equal(t, "kept unread", kept.unread, last.Unread)
	equal(t, "kept badge", keptBadge.unread, g.b1.badge().Unread)
}

// TestVersionGrowsWithEveryCommit: also when the commit did not touch the thing.
func TestVersionGrowsWithEveryCommit(t *testing.T) {
	g := newTrio(t)
	other := g.group("other", "A", "C")
	before, badgeBefore := g.b1.see(g.conv).Version, g.b1.badge().Version
	g.a.send(other, 1)
	if after := g.b1.see(g.conv).Version; after <= before {
		t.Errorf("conversation: %d after %d", after, before)
	}
	if after := g.b1.badge().Version; after <= badgeBefore {
		t.Errorf("badge: %d after %d", after, badgeBefore)
	}
}

// TestA43TwoTabsOfOneDevice: only the socket that carried the call, or that an
// HTTP call named, is left out.
func TestA43TwoTabsOfOneDevice(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 4)
	doc := `subscription { readChanged { reason conversationId read } }`
	one, two := g.b1.socket(), g.b1.socket()
	w1, w2 := one.subscribe(doc), two.subscribe(doc)
	w1.resync()
	w2.resync()
	one.call(markReadDoc, vars{"c": g.conv, "s": m[0]})
	equal(t, "the other tab is told", w2.next().Read, m[0])
	g.b1.naming(one.session).read(g.conv, m[1])
	equal(t, "the other tab is told of the HTTP call", w2.next().Read, m[1])
	g.b1.read(g.conv, m[2])
	equal(t, "the first event of tab one", w1.next().Read, m[2])
	equal(t, "tab two", w2.next().Read, m[2])
	// Naming somebody else's session silences nobody.
	g.a.naming(two.session).send(g.conv, 1)
	inbox := two.subscribe(`subscription { inboxChanged { reasons conversationId } }`)
	inbox.resync()
	g.a.naming(two.session).send(g.conv, 1)
	equal(t, "reason", inbox.next().Reasons[0], "MESSAGE")
}

// TestHintsOfEveryKind: who is told what.
func TestHintsOfEveryKind(t *testing.T) {
	g := newTrio(t)
	d := g.device("D", "d1")
	b, c, dd := g.b1.socket().subscribe(inboxDoc), g.c.socket().subscribe(inboxDoc), d.socket().subscribe(inboxDoc)
	for _, w := range []*stream{b, c, dd} {
		w.resync()
	}
	expect := func(who string, w *stream, reason string) {
		t.Helper()
		h := w.about(g.conv, func(hinted) bool { return true })
		if !slices.Contains(h.Reasons, reason) {
			t.Errorf("%s: %v, want %s", who, h.Reasons, reason)
		}
	}
	m := g.a.send(g.conv, 1)
	expect("B", b, "MESSAGE")
	expect("C", c, "MESSAGE")
	g.a.recall(g.conv, m[0])
	expect("B", b, "RECALL")
	expect("C", c, "RECALL")
	g.addMembers(g.conv, "MEMBERSHIP", "D")
	for who, w := range map[string]*stream{"B": b, "C": c, "D": dd} {
		expect(who, w, "MEMBERSHIP")
	}
	m = g.a.send(g.conv, 1)
	for who, w := range map[string]*stream{"B": b, "C": c, "D": dd} {
		expect(who, w, "MESSAGE")
	}
	d.leave(g.conv)
	expect("D, who left,", dd, "MEMBERSHIP")
	expect("B", b, "MEMBERSHIP")
	expect("C", c, "MEMBERSHIP")
	g.a.send(g.conv, 1)
	expect("B", b, "MESSAGE")
	expect("C", c, "MESSAGE")
	g.b2.read(g.conv, m[0])
	expect("B's other device", b, "READ")
	// D has left and C's position is C's own: neither hears of it.
	sentinel := g.group("sentinel", "C", "D")
	c.silentUntil(sentinel)
	dd.silentUntil(sentinel)
}

// TestPullMergesMessages: above 500 members hints about messages are merged over
// a second; the last one comes, and everything else at once.
func TestPullMergesMessages(t *testing.T) {
	w := newWorld(t)
	a := w.device("A", "a1")
	others := w.bigGroup("pull", 501)
	w.bigGroup("push", 500)
	equal(t, "mode of 500", a.see("push").Mode, "PUSH")
	equal(t, "mode of 501", a.see("pull").Mode, "PULL")
	b := w.device(string(others[0]), "b1")
	watch := b.socket().subscribe(`subscription { inboxChanged { reasons conversationId conversation { head } } }`)
	watch.resync()
	first := a.send("pull", 1)[0]
	equal(t, "the first one comes at once", watch.next().Conversation.Head, first)
	m := a.send("pull", 20)
	w.notice("pull", "line", "")
	e := watch.next()
	equal(t, "a notice is not held back", e.Reasons[0], "NOTICE")
	for events := 0; ; events++ {
		if e := watch.next(); slices.Contains(e.Reasons, "MESSAGE") {
			equal(t, "the last state", e.Conversation.Head, m[19]+1)
			break
		} else if events > 3 {
			t.Fatal("too many events")
		}
	}
}

// TestTwoProcessesPassHints: what one process writes, sessions on the other hear.
func TestTwoProcessesPassHints(t *testing.T) {
	g := newTrio(t)
	second := g.process(nil)
	watch := g.b1.at(second).socket().subscribe(inboxDoc)
	watch.resync()
	m := g.a.send(g.conv, 1)
	equal(t, "unread", watch.next().Conversation.Unread, 1)
	g.b2.read(g.conv, m[0])
	equal(t, "read", watch.next().Conversation.Read, m[0])
	fresh := g.group("fresh", "A", "B")
	watch.about(fresh, func(hinted) bool { return true })
	g.a.send(fresh, 1)
	watch.about(fresh, func(h hinted) bool { return h.Conversation.Unread == 1 })
}

// TestP8AQueryAfterAHintShowsIt: on another process too.
func TestP8AQueryAfterAHintShowsIt(t *testing.T) {
	g := newTrio(t)
	second := g.process(nil)
	watch := g.b1.at(second).socket().subscribe(`subscription { readChanged { reason conversationId read } }`)
	watch.resync()
	m := g.a.send(g.conv, 40)
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, seq := range m {
			if a, err := g.b2.try(markReadDoc, vars{"c": g.conv, "s": seq}); err != nil || len(a.Errors) > 0 {
				t.Errorf("%v %+v", err, a)
			}
		}
	})
	for last := int64(0); last < m[39]; {
		last = watch.next().Read
		if got := g.b1.at(second).see(g.conv).Read; got < last {
			t.Errorf("the hint said %d, a query after it %d", last, got)
		}
	}
	wg.Wait()
}

// TestHintsFollowCommitsWhoseCallerHungUp: the caller is gone at a random moment
// and tries again; whichever attempt was committed, the others are told.
func TestHintsFollowCommitsWhoseCallerHungUp(t *testing.T) {
	g := newTrio(t)
	watch := g.b1.socket().subscribe(`subscription { inboxChanged { reasons conversationId conversation { head } } }`)
	watch.resync()
	for n := range 40 {
		id := fmt.Sprint("hangup", n)
		body, err := json.Marshal(map[string]any{"query": sendDoc, "variables": vars{"c": g.conv, "m": id, "b": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(200+n*100)*time.Microsecond)
		request, err := http.NewRequestWithContext(ctx, "POST", g.main.http.URL+"/graphql", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+g.a.token)
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
		}
		cancel()
		var out struct{ SendMessage messagePayload }
		g.a.must(sendDoc, vars{"c": g.conv, "m": id, "b": "x"}).into(&out)
		watch.about(g.conv, func(h hinted) bool { return h.Conversation.Head >= out.SendMessage.Message.Seq })
	}
}

// TestRevokedCredentialEndsItsConnections: within a second, on every process.
func TestRevokedCredentialEndsItsConnections(t *testing.T) {
	g := newTrio(t)
	second := g.process(nil)
	for name, end := range map[string]string{
		"revoke": `mutation { revokeDevice(input: {deviceId: "b1"}) { deviceId } }`,
		"rotate": `mutation { rotateDeviceToken(input: {deviceId: "c1"}) { token } }`,
	} {
		victim := map[string]*client{"revoke": g.b1, "rotate": g.c}[name]
		here, there := victim.socket(), victim.at(second).socket()
		bystander := g.b2.socket()
		g.service().must(end, nil)
		for where, s := range map[string]*testSocket{"here": here, "there": there} {
			select {
			case <-s.closed:
				equal(t, name+" close code "+where, int(websocket.CloseStatus(s.err)), 4403)
			case <-time.After(10 * time.Second):
				t.Errorf("%s: the socket %s stayed open", name, where)
			}
		}
		refused(t, name, victim.do(`{ badge { unread } }`, nil), "UNAUTHENTICATED", "")
		bystander.call(`{ badge { unread } }`, nil)
	}
}

// TestResyncAfterTheBusWasLost: sessions look at everything once hints may have
// been missed.
func TestResyncAfterTheBusWasLost(t *testing.T) {
	g := newTrio(t)
	second := g.process(nil)
	watch := g.b1.at(second).socket().subscribe(inboxDoc)
	watch.resync()
	conn := g.conn()
	// Both connections of the second process's bus end; what is sent meanwhile is lost to it.
	if _, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidemark hints' AND datname = current_database()`); err != nil {
		t.Fatal(err)
	}
	g.a.send(g.conv, 1)
	for {
		if h := watch.next(); slices.Equal(h.Reasons, []string{"RESYNC"}) {
			equal(t, "badge", h.Badge.Unread, 1)
			break
		}
	}
	g.eventually("hints travel again", second.relay.Healthy)
}

// TestSlowSubscriberIsBounded: a client that stops reading is closed, and delays
// nobody.
func TestSlowSubscriberIsBounded(t *testing.T) {
	g := newTrio(t)
	slow := g.p(g.b1).dial(t, "graphql-transport-ws")
	write := func(s string) {
		if err := slow.Write(t.Context(), websocket.MessageText, []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf(`{"type":"connection_init","payload":{"authorization":"Bearer %s"}}`, g.b1.token))
	// Fat events: many aliases of a page of events.
	g.fill(g.conv, "A", 200)
	fields := ""
	for n := range 20 {
		fields += fmt.Sprintf(" e%d: events(last: 200) { nodes { seq at ... on Message { body clientMessageId } } }", n)
	}
	for n := range 10 {
		write(fmt.Sprintf(`{"id":"%d","type":"subscribe","payload":{"query":"subscription { inboxChanged { conversation { %s } } }"}}`, n, fields))
	}
	quick := g.b2.socket().subscribe(inboxDoc)
	quick.resync()
	for range 30 {
		m := g.a.send(g.conv, 1)
		quick.about(g.conv, func(h hinted) bool { return h.Conversation.Head >= m[0] })
	}
}

func (w *world) p(c *client) *process { return c.p }

// TestServerSentEvents: distinct connections mode, and short streams in numbers.
func TestServerSentEvents(t *testing.T) {
	g := newTrio(t)
	open := func() *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), "POST", g.main.http.URL+"/graphql", strings.NewReader(`{"query":"subscription { inboxChanged { reasons conversationId } }"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Authorization", "Bearer "+g.b1.token)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	stream := open()
	defer stream.Body.Close()
	read := func(until string) {
		t.Helper()
		var got strings.Builder
		buffer := make([]byte, 1024)
		for !strings.Contains(got.String(), until) {
			n, err := stream.Body.Read(buffer)
			got.Write(buffer[:n])
			if err != nil && !strings.Contains(got.String(), until) {
				t.Fatalf("%v after %q", err, got.String())
			}
		}
	}
	read("RESYNC")
	g.a.send(g.conv, 1)
	read(`"MESSAGE"`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				r := open()
				buffer := make([]byte, 1)
				_, _ = r.Body.Read(buffer)
				r.Body.Close()
			}
		})
	}
	wg.Wait()
	g.service().must(`mutation { revokeDevice(input: {deviceId: "b1"}) { deviceId } }`, nil)
	read("event: complete")
}
