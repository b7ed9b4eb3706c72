package resolvers_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"tidemark/chat"
	"tidemark/resolvers"
	"tidemark/store"
)

// receiptHint is an event of receiptsChanged.
type receiptHint struct {
	Reason          string
	ConversationID  string
	User            *struct{ ID string }
	Read, Delivered *int64
}

const watchDoc = `subscription($c: ID!) { receiptsChanged(conversationId: $c) { reason conversationId user { id } read delivered } }`

// watch subscribes to the receipts of a conversation.
func (c *client) watch(conv string) *stream {
	c.p.w.t.Helper()
	st := c.socket().start(watchDoc, vars{"c": conv})
	equal(c.p.w.t, "the first event", st.nextReceipt().Reason, "RESYNC")
	return st
}

func (st *stream) nextReceipt() receiptHint {
	st.t.Helper()
	f := st.frame()
	var payload struct {
		Data   struct{ ReceiptsChanged receiptHint }
		Errors []apiError
	}
	if err := json.Unmarshal(f.Payload, &payload); err != nil || f.Type != "next" || len(payload.Errors) > 0 {
		st.t.Fatalf("%s %s: %v", f.Type, f.Payload, err)
	}
	return payload.Data.ReceiptsChanged
}

// expect is the next event in short, such as "READ B 5/3": read 5, delivered 3.
func (st *stream) expect(what, want string) {
	st.t.Helper()
	e := st.nextReceipt()
	got := e.Reason
	if e.User != nil {
		got += " " + e.User.ID
	}
	position := func(p *int64) string {
		if p == nil {
			return "-"
		}
		return fmt.Sprint(*p)
	}
	if e.Read != nil || e.Delivered != nil {
		got += " " + position(e.Read) + "/" + position(e.Delivered)
	}
	equal(st.t, what, got, want)
}

// TestR31AReadIsForTheWatcherOnly: the sender is told by receiptsChanged; their
// unread and inbox do not move.
func TestR31AReadIsForTheWatcherOnly(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 1)[0]
	watch, inbox := g.a.watch(g.conv), g.a.socket().subscribe(inboxDoc)
	inbox.resync()
	before := g.a.badge().counts()
	g.b1.read(g.conv, m)
	watch.expect("B reads", fmt.Sprintf("READ B %d/-", m))
	equal(t, "A's badge", g.a.badge().counts(), before)
	equal(t, "A's unread", g.a.see(g.conv).Unread, 0)
	inbox.silentUntil(g.group("sentinel", "A", "B"))
}

// TestWatchUnderSender: a position is the viewer's own newest message at or
// before it, and no event comes when that did not move.
func TestWatchUnderSender(t *testing.T) {
	g := newTrio(t)
	m1 := g.a.send(g.conv, 1)[0]
	g.c.send(g.conv, 1)
	watch := g.a.watch(g.conv)
	g.b1.read(g.conv, m1-1)
	g.b1.ack(0, cursorOf(g.conv, m1-1))
	g.b1.read(g.conv, m1+1)
	watch.expect("B reads past m1", fmt.Sprintf("READ B %d/-", m1))
	g.c.send(g.conv, 3)
	g.b1.read(g.conv, m1+3)
	m2 := g.a.send(g.conv, 1)[0]
	g.b1.ack(0, cursorOf(g.conv, m2))
	watch.expect("B receives m2", fmt.Sprintf("DELIVERED B %d/%d", m1, m2))
	g.b2.ack(0, cursorOf(g.conv, m1)) // another device, which is behind
	g.a.read(g.conv, m2)              // one's own is not told
	g.b1.read(g.conv, m2)
	watch.expect("B reads m2", fmt.Sprintf("READ B %d/%d", m2, m2))
	g.b1.unreadFrom(g.conv, m1, m2) // others' view does not go back
	g.b1.readAll(false)
	g.c.read(g.conv, m2)
	watch.expect("C reads", fmt.Sprintf("READ C %d/-", m2))
	g.c.must(readAllDoc, nil)
	m3 := g.a.send(g.conv, 1)[0]
	g.c.readAll(true)
	watch.expect("C reads everything", fmt.Sprintf("READ C %d/-", m3))
	g.b1.say(g.conv, vars{"up": m3})
	watch.expect("B answers and reads", fmt.Sprintf("READ B %d/%d", m3, m2))
}

// TestWatchUnderMembers: everybody's positions, as they are, on another process too.
func TestWatchUnderMembers(t *testing.T) {
	g := newTrio(t)
	conv := g.groupWith("MEMBERS", "g", "A", "B", "C")
	m := g.a.send(conv, 3)
	second := g.process(nil)
	watch := g.c.at(second).watch(conv)
	g.b1.read(conv, m[0]-1)
	watch.expect("B reads", fmt.Sprintf("READ B %d/-", m[0]-1))
	g.b1.ack(0, cursorOf(conv, m[2]))
	watch.expect("B receives", fmt.Sprintf("DELIVERED B %d/%d", m[0]-1, m[2]))
	g.c.at(second).read(conv, m[2])
	g.a.read(conv, m[1])
	watch.expect("A reads", fmt.Sprintf("READ A %d/-", m[1]))
}

// TestWatchIsSilent: where policy or sharing forbids; a change of either is told.
func TestWatchIsSilent(t *testing.T) {
	g := newTrio(t)
	conv := g.groupWith("MEMBERS", "g", "A", "B", "C")
	m := g.a.send(conv, 6)
	watch := g.a.watch(conv)
	g.b1.share(false)
	watch.expect("B hides", "SHARING")
	g.b1.read(conv, m[0])
	g.b1.ack(0, cursorOf(conv, m[0]))
	g.c.read(conv, m[0])
	watch.expect("of B nothing, of C something", fmt.Sprintf("READ C %d/-", m[0]))
	g.b1.share(true)
	watch.expect("B shares again", "SHARING")
	g.a.share(false)
	watch.expect("A hides", "SHARING")
	g.b1.read(conv, m[1])
	g.c.share(false)
	g.c.share(true)
	g.b1.read(conv, m[2])
	g.a.share(true)
	watch.expect("A shares again: nothing came meanwhile", "SHARING")
	g.update(conv, "receiptPolicy: OFF")
	watch.expect("a new policy", "SHARING")
	g.b1.read(conv, m[3])
	g.b1.share(false)
	g.update(conv, "receiptPolicy: REQUIRED")
	watch.expect("another one: nothing came meanwhile", "SHARING")
	g.b1.read(conv, m[4])
	watch.expect("under REQUIRED nobody hides", fmt.Sprintf("READ B %d/%d", m[4], m[0]))
	g.c.share(false)
	g.c.read(conv, m[5])
	watch.expect("nor does a choice matter", fmt.Sprintf("READ C %d/-", m[5]))
	g.erase("C")
	watch.expect("an erased user leaves the audience", "SHARING")
}

// TestWatchEndsWithTheMembership: and is refused without one.
func TestWatchEndsWithTheMembership(t *testing.T) {
	g := newTrio(t)
	for what, conv := range map[string]string{"a stranger": g.conv, "nowhere": "none"} {
		stranger := g.device("E", "e-"+what)
		st := stranger.socket().start(watchDoc, vars{"c": conv})
		var payload struct{ Errors []apiError }
		f := st.frame()
		if err := json.Unmarshal(f.Payload, &payload); err != nil || len(payload.Errors) != 1 || payload.Errors[0].Extensions["code"] != "NOT_MEMBER" {
			t.Errorf("%s: %s %s", what, f.Type, f.Payload)
		}
	}
	for what, end := range map[string]func(){
		"removed": func() { g.removeMembers(g.conv, "B") },
		"left":    func() { g.c.leave(g.conv) },
	} {
		watch := map[string]*client{"removed": g.b1, "left": g.c}[what].watch(g.conv)
		end()
		equal(t, what, watch.frame().Type, "complete")
	}
	refusedWatch := g.c.socket().start(watchDoc, vars{"c": g.conv})
	if f := refusedWatch.frame(); f.Type == "complete" {
		t.Error("a leaver's subscription was accepted")
	}
}

// TestWatchALargeConversation: moves come as COUNTS, merged over a while, the
// last one included, and only those that concern the viewer.
func TestWatchALargeConversation(t *testing.T) {
	w := newWorld(t)
	a := w.device("A", "a1")
	merging := w.process(func(c *resolvers.Config) { c.ReceiptMerge = 700 * time.Millisecond })
	others := w.bigGroup("big", 300)
	first := w.p(a).store
	read := func(n int, seq int64) {
		t.Helper()
		if r, err := first.MarkRead(t.Context(), []store.ReadReport{{User: others[n], Conversation: "big", Seq: chat.Seq(seq)}}); err != nil || r[0].Err != nil {
			t.Fatal(err, r)
		}
	}
	reader := w.device(string(others[0]), "r1")
	shy := w.device(string(others[1]), "r2")
	watch := a.at(merging).watch("big")
	m := a.send("big", 5)
	shy.share(false)
	watch.expect("somebody hides", "SHARING")
	shy.read("big", m[4])
	reader.read("big", m[0])
	watch.expect("the first", "COUNTS")
	for _, seq := range m[1:] {
		reader.read("big", seq)
	}
	watch.expect("the others as one", "COUNTS")
	for n := 2; n < 120; n++ {
		read(n, m[4])
	}
	equal(t, "the query is right", a.readOf("big", m[4]), "119/298")
	reader.ack(0, cursorOf("big", m[4]))
	watch.expect("deliveries too", "COUNTS")
	// Nothing of A's lies between: those whom it concerns are told, twice, so that
	// A would have been told by then as well.
	theirs := reader.send("big", 1)[0]
	concerned := reader.at(merging).watch("big")
	for n, id := range []string{"r3", "r4"} {
		w.device(string(others[2+n]), id).read("big", theirs)
		concerned.expect("whoever sent it is told", "COUNTS")
	}
	w.update("big", "receiptPolicy: MEMBERS")
	watch.expect("a read that does not concern A is not told", "SHARING")
}

// TestWatchShowsWhatOneMaySee: not what happened before one came, of people one
// never shared the conversation with, nor of one's own hidden messages.
func TestWatchShowsWhatOneMaySee(t *testing.T) {
	g := newTrio(t)
	conv := g.groupWith("MEMBERS", "g", "A", "B", "C")
	m := g.a.send(conv, 5)
	g.removeMembers(conv, "B")
	d := g.device("D", "d1")
	g.addMembers(conv, "MEMBERSHIP", "D")
	watch := d.watch(conv)
	g.b1.read(conv, m[4])
	g.b1.ack(0, cursorOf(conv, m[4]))
	g.c.read(conv, m[3])
	later := g.a.send(conv, 1)[0]
	g.c.read(conv, later)
	watch.expect("the first that D may see", fmt.Sprintf("READ C %d/-", later))
	g.update(conv, "receiptPolicy: SENDER")
	watch.expect("a new policy", "SHARING")
	g.a.leave(conv)
	g.addMembers(conv, "SINCE_JOIN", "A")
	mine := g.a.watch(conv)
	g.b1.read(conv, m[4])
	g.c.read(conv, g.c.see(conv).Head)
	fresh := g.a.send(conv, 1)[0]
	g.c.read(conv, fresh)
	mine.expect("nothing of a hidden message", fmt.Sprintf("READ C %d/-", fresh))
}

// TestWatchEndsForWhoEndsIt: also on the socket that carried the leave.
func TestWatchEndsForWhoEndsIt(t *testing.T) {
	g := newTrio(t)
	s := g.b1.socket()
	watch := s.start(watchDoc, vars{"c": g.conv})
	equal(t, "first", watch.nextReceipt().Reason, "RESYNC")
	s.call(`mutation { leaveConversation(input: {conversationId: "c1"}) { badge { unread } } }`, nil)
	equal(t, "then", watch.frame().Type, "complete")
}

// TestR121AReceiptForAnUnknownMessage: a client that does not hold the message
// yet is told of the receipt, and a query has both.
func TestR121AReceiptForAnUnknownMessage(t *testing.T) {
	g := newTrio(t)
	a2 := g.device("A", "a2")
	watch := a2.watch(g.conv)
	m := g.a.send(g.conv, 1)[0]
	g.b1.read(g.conv, m)
	watch.expect("of a message that a2 has not fetched", fmt.Sprintf("READ B %d/-", m))
	equal(t, "the query", a2.readOf(g.conv, m), "1/2")
}
