package resolvers_test

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// trio is a group of A, B (two devices) and C.
type trio struct {
	*world
	a, b1, b2, c *client
	conv         string
}

func newTrio(t *testing.T) *trio {
	t.Helper()
	w := newWorld(t)
	g := &trio{world: w, a: w.device("A", "a1"), b1: w.device("B", "b1"), b2: w.device("B", "b2"), c: w.device("C", "c1")}
	g.conv = w.group("c1", "A", "B", "C")
	return g
}

func TestR1RecallAmongUnread(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 3)
	g.a.recall(g.conv, m[2])
	equal(t, "u(B)", g.b1.see(g.conv).Unread, 2)
	g.a.send(g.conv, 1)
	equal(t, "u(B)", g.b1.see(g.conv).Unread, 3)
}

func TestR3RecallsWhileOffline(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 5)
	g.a.recall(g.conv, m[1])
	g.a.recall(g.conv, m[3])
	equal(t, "u(B)", g.b1.see(g.conv).Unread, 3)
}

func TestR11RecallOfTheNewestRead(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 5)
	g.b1.read(g.conv, m[4])
	g.c.read(g.conv, m[4])
	g.a.recall(g.conv, m[4])
	for _, who := range []*client{g.b1, g.c} {
		equal(t, "u after the recall", who.see(g.conv).Unread, 0)
		if who.see(g.conv).Read < m[4] {
			t.Errorf("read went back to %d", who.see(g.conv).Read)
		}
	}
	g.a.send(g.conv, 1)
	equal(t, "u(B)", g.b1.see(g.conv).Unread, 1)
	equal(t, "u(C)", g.c.see(g.conv).Unread, 1)
}

func TestR19OwnSendsOnAllDevices(t *testing.T) {
	g := newTrio(t)
	g.b1.send(g.conv, 2)
	equal(t, "u on b1", g.b1.see(g.conv).Unread, 0)
	equal(t, "u on b2", g.b2.see(g.conv).Unread, 0)
}

func TestR25JoinsAndLeavesDoNotCount(t *testing.T) {
	g := newTrio(t)
	d := g.device("D", "d1")
	g.users("E")
	g.addMembers(g.conv, "MEMBERSHIP", "D", "E")
	d.leave(g.conv)
	equal(t, "u(B)", g.b1.see(g.conv).Unread, 0)
	g.a.send(g.conv, 1)
	equal(t, "u(B)", g.b1.see(g.conv).Unread, 1)
}

func TestR27ANewDevice(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 3)
	g.b1.read(g.conv, m[2])
	g.b1.ack(0, cursorOf(g.conv, m[2]))
	b3 := g.device("B", "b3")
	equal(t, "u on the new device", b3.see(g.conv).Unread, 0)
	equal(t, "delivered on the new device", b3.see(g.conv).Delivered, 0)
	equal(t, "delivered on b1", g.b1.see(g.conv).Delivered, m[2])
}

func TestR35NoHintGoesBack(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 8)
	watch := g.b2.socket().subscribe(`subscription { readChanged { reason conversationId read conversation { read } } }`)
	watch.resync()
	g.b1.read(g.conv, m[7])
	equal(t, "answer to the late report", g.b1.read(g.conv, m[4]).MarkRead.Conversation.Read, m[7])
	equal(t, "hinted read", watch.next().Read, m[7])
	sentinel := g.group("sentinel", "A", "B")
	g.b1.read(sentinel, 1)
	watch.silentUntil(sentinel)
}

func TestR39TheHintNamesTheConversation(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 3)
	watch := g.b1.socket().subscribe(`subscription { readChanged { reason conversationId read revision originDeviceId conversation { unread } badge { unread } } }`)
	watch.resync()
	g.b2.read(g.conv, m[0])
	e := watch.next()
	equal(t, "reason", e.Reason, "READ")
	equal(t, "conversation", *e.ConversationID, g.conv)
	equal(t, "read", e.Read, m[0])
	equal(t, "revision", e.Revision, 0)
	equal(t, "origin", *e.OriginDeviceID, "b2")
	equal(t, "unread", e.Conversation.Unread, 2)
	equal(t, "badge", e.Badge.Unread, 2)
}

func TestR45ReadRacesSends(t *testing.T) {
	g := newTrio(t)
	for round := range 30 {
		conv := g.group(fmt.Sprint("race", round), "A", "B")
		m := g.a.send(conv, 5)
		var wg sync.WaitGroup
		wg.Go(func() {
			if a, err := g.b1.try(markReadDoc, vars{"c": conv, "s": m[4]}); err != nil || len(a.Errors) > 0 {
				t.Errorf("markRead: %v %+v", err, a)
			}
		})
		for n := range 2 {
			wg.Go(func() {
				if a, err := g.a.try(sendDoc, vars{"c": conv, "m": fmt.Sprint("race", n), "b": "x"}); err != nil || len(a.Errors) > 0 {
					t.Errorf("send: %v %+v", err, a)
				}
			})
		}
		wg.Wait()
		equal(t, "u(B)", g.b1.see(conv).Unread, 2)
	}
}

func TestR49OneConversationOfTwo(t *testing.T) {
	g := newTrio(t)
	c2 := g.group("c2", "A", "B")
	m1, m2 := g.a.send(g.conv, 2), g.a.send(c2, 3)
	watch := g.b2.socket().subscribe(`subscription { readChanged { reason conversationId } }`)
	watch.resync()
	p := g.b1.read(g.conv, m1[1])
	equal(t, "total", p.MarkRead.Badge.Unread, 3)
	equal(t, "u(c2)", g.b1.see(c2).Unread, 3)
	equal(t, "the hint names", *watch.next().ConversationID, g.conv)
	g.b1.read(c2, m2[0])
	watch.silentUntil(c2)
}

func TestR51OnlyReadChanged(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 1)
	watch := g.b1.socket().subscribe(`subscription { readChanged { reason conversationId read } }`)
	watch.resync()
	g.b2.read(g.conv, m[0])
	equal(t, "read", watch.next().Read, m[0])
}

func TestR57TenReportsOneHint(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 5)
	watch := g.b2.socket().subscribe(`subscription { readChanged { reason conversationId read } }`)
	watch.resync()
	for range 10 {
		equal(t, "answer", g.b1.read(g.conv, m[4]).MarkRead.Conversation.Read, m[4])
	}
	equal(t, "hinted", watch.next().Read, m[4])
	sentinel := g.group("sentinel", "A", "B")
	g.b1.read(sentinel, 1)
	watch.silentUntil(sentinel)
}

func TestR67OneUnreadOfSix(t *testing.T) {
	g := newTrio(t)
	for n := range 6 {
		conv := g.group(fmt.Sprint("six", n), "A", "B")
		m := g.a.send(conv, 1)
		if n > 0 {
			g.b1.read(conv, m[0])
		}
	}
	b := g.b1.badge()
	equal(t, "badge.unread", b.Unread, 1)
	equal(t, "badge.conversations", b.Conversations, 1)
}

func TestR71TwoDirectConversations(t *testing.T) {
	g := newTrio(t)
	ab, cb := g.conversation("DIRECT", "d-ab", "A", "B"), g.conversation("DIRECT", "d-cb", "C", "B")
	g.a.send(ab, 10)
	m := g.c.send(cb, 10)
	g.b1.read(cb, m[9])
	equal(t, "u of A's", g.b1.see(ab).Unread, 10)
	equal(t, "u of C's", g.b1.see(cb).Unread, 0)
}

func TestR79JoinAfterAHistory(t *testing.T) {
	g := newTrio(t)
	g.fill(g.conv, "A", 200)
	d := g.device("D", "d1")
	g.addMembers(g.conv, "MEMBERSHIP", "D")
	equal(t, "before", d.see(g.conv).Unread, 0)
	g.a.send(g.conv, 2)
	equal(t, "later messages only", d.see(g.conv).Unread, 2)
	d.read(g.conv, d.see(g.conv).Head)
	equal(t, "after", d.see(g.conv).Unread, 0)
}

func TestR97ANewConversationIsAnnounced(t *testing.T) {
	g := newTrio(t)
	watch := g.b1.socket().subscribe(`subscription { inboxChanged { reasons conversationId conversation { unread } badge { unread } } }`)
	watch.resync()
	fresh := g.conversation("DIRECT", "fresh", "A", "B")
	g.a.send(fresh, 1)
	watch.about(fresh, func(h hinted) bool { return h.Conversation.Unread == 1 })
	equal(t, "badge", g.b1.badge().Unread, 1)
}

func TestR125ACrashDuringSync(t *testing.T) {
	g := newTrio(t)
	g.fill(g.conv, "A", 1000)
	b3 := g.device("B", "b3")
	held := b3.events(g.conv, 0)
	equal(t, "messages", messagesIn(held), 1000)
	b3.ack(0, cursorOf(g.conv, held[len(held)-1].Seq))
	equal(t, "read", b3.see(g.conv).Read, 0)
	equal(t, "unread", b3.see(g.conv).Unread, 1000)
}

func TestR131ParallelReads(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 20)
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			device := []*client{g.b1, g.b2}[n%2]
			a, err := device.try(markReadDoc, vars{"c": g.conv, "s": m[n]})
			if err != nil || len(a.Errors) > 0 {
				t.Errorf("%v %+v", err, a)
				return
			}
			var p readPayload
			a.into(&p)
			if p.MarkRead.Conversation.Read < m[n] {
				t.Errorf("read %d answered with %d", m[n], p.MarkRead.Conversation.Read)
			}
		})
	}
	wg.Wait()
	equal(t, "merged", g.b1.see(g.conv).Read, m[19])
}

func TestR145UnreadIsWhatEventsShow(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 6)
	g.b1.send(g.conv, 2)
	g.c.send(g.conv, 3)
	g.a.recall(g.conv, m[5])
	g.b1.read(g.conv, m[1])
	foreign := int64(0)
	for _, e := range g.b1.events(g.conv, m[1]) {
		if e.Typename == "Message" && !e.Recalled && e.Actor.ID != "B" {
			foreign++
		}
	}
	equal(t, "unread", g.b1.see(g.conv).Unread, foreign)
	equal(t, "unread", foreign, 6)
}

func TestR149ThePayloadHoldsTheTruth(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 4)
	p := g.b1.read(g.conv, m[2]).MarkRead
	equal(t, "read", p.Conversation.Read, m[2])
	equal(t, "unread", p.Conversation.Unread, 1)
	equal(t, "badge", p.Badge.Unread, 1)
	equal(t, "badge.conversations", p.Badge.Conversations, 1)
}

func TestR151QueriesMoveNothing(t *testing.T) {
	g := newTrio(t)
	g.a.send(g.conv, 5)
	for range 3 {
		g.b1.inbox("")
		g.b1.events(g.conv, 0)
		g.b1.see(g.conv)
		g.b1.must(`{ viewer { user { id name } device { id } devices { id } badge { unread } } }`, nil)
	}
	got := g.b1.see(g.conv)
	equal(t, "read", got.Read, 0)
	equal(t, "delivered", got.Delivered, 0)
}

func TestR153RepeatedSends(t *testing.T) {
	g := newTrio(t)
	second := g.process(nil)
	send := func(c *client, id, body string) (messagePayload, string) {
		a, err := c.try(sendDoc, vars{"c": g.conv, "m": id, "b": body})
		if err != nil {
			t.Error(err)
			return messagePayload{}, ""
		}
		var out struct{ SendMessage messagePayload }
		if a.code() == "" {
			a.into(&out)
		}
		return out.SendMessage, a.code()
	}
	first, _ := send(g.a, "same", "hello")
	again, _ := send(g.a, "same", "hello")
	equal(t, "first is a duplicate", first.Duplicate, false)
	equal(t, "second is a duplicate", again.Duplicate, true)
	equal(t, "seq", again.Message.Seq, first.Message.Seq)
	_, code := send(g.a, "same", "something else")
	equal(t, "other content", code, "IDEMPOTENCY_CONFLICT")
	other, _ := send(g.c, "same", "hello")
	equal(t, "another sender's id is another's", other.Duplicate, false)

	var mu sync.Mutex
	seqs, fresh := map[int64]bool{}, 0
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			c := g.a
			if n%2 == 1 {
				c = g.a.at(second)
			}
			p, code := send(c, "parallel", "hello")
			mu.Lock()
			defer mu.Unlock()
			equal(t, "code", code, "")
			seqs[p.Message.Seq] = true
			if !p.Duplicate {
				fresh++
			}
		})
	}
	wg.Wait()
	equal(t, "seqs of one message", len(seqs), 1)
	equal(t, "first answers", fresh, 1)

	g.a.recall(g.conv, first.Message.Seq)
	after, _ := send(g.a, "same", "hello")
	equal(t, "after the recall: the same message", after.Message.Seq, first.Message.Seq)
	equal(t, "recalled", after.Message.Recalled, true)
	g.a.leave(g.conv)
	after, code = send(g.a, "same", "hello")
	equal(t, "after the leave", code, "")
	equal(t, "after the leave: the same message", after.Message.Seq, first.Message.Seq)
}

// TestR75TheBadgeIsTheSumOfItsRows: after every operation of a short life, in
// one answer. The random histories of the store do the same at length.
func TestR75TheBadgeIsTheSumOfItsRows(t *testing.T) {
	g := newTrio(t)
	c2 := g.group("c2", "A", "B")
	var m []int64
	for n, step := range []func(){
		func() { m = g.a.send(g.conv, 4) },
		func() { g.a.send(c2, 3) },
		func() { g.b1.read(g.conv, m[1]) },
		func() { g.a.recall(g.conv, m[2]) },
		func() { g.b1.send(c2, 2) },
		func() { g.c.send(g.conv, 2) },
		func() { g.b2.leave(c2) },
		func() { g.a.send(c2, 2) },
		func() { g.addMembers(c2, "MEMBERSHIP", "B") },
		func() { g.a.send(c2, 1) },
		func() { g.b1.read(c2, 4) },
	} {
		step()
		rows, badge := g.b1.inbox("")
		var sum, conversations int64
		for _, r := range rows {
			sum += r.Unread
			if r.Unread > 0 {
				conversations++
			}
		}
		equal(t, fmt.Sprint("badge.unread after step ", n), badge.Unread, sum)
		equal(t, fmt.Sprint("badge.conversations after step ", n), badge.Conversations, conversations)
	}
}

// TestR127NoRuleUsesAClientsClock: nothing that a client sends is a time.
func TestR127NoRuleUsesAClientsClock(t *testing.T) {
	schema, err := os.ReadFile("../schema.graphqls")
	if err != nil {
		t.Fatal(err)
	}
	parsed := gqlparser.MustLoadSchema(&ast.Source{Name: "schema.graphqls", Input: string(schema)})
	for name, def := range parsed.Types {
		for _, f := range def.Fields {
			if def.Kind == ast.InputObject && f.Type.Name() == "DateTime" {
				t.Errorf("%s.%s is a time", name, f.Name)
			}
			for _, a := range f.Arguments {
				if a.Type.Name() == "DateTime" {
					t.Errorf("%s.%s(%s:) is a time", name, f.Name, a.Name)
				}
			}
		}
	}
}
