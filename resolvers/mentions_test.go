package resolvers_test

import (
	"fmt"
	"testing"
)

func TestR5MentionEditedAwayAndBack(t *testing.T) {
	g := newTrio(t)
	m := g.mentionOf("B")
	check := func(what string, unread, mentions int64) {
		t.Helper()
		r := g.b1.see(g.conv)
		equal(t, what+": u", r.Unread, unread)
		equal(t, what+": mentions", r.UnreadMentions, mentions)
		equal(t, what+": badge", g.b1.badge().Mentions, mentions)
		equal(t, what+": first mention", r.FirstMention != nil, mentions > 0)
	}
	check("mentioned", 1, 1)
	g.a.edit(g.conv, m, "hello", vars{"m": []string{}})
	check("edited away", 1, 0)
	g.a.edit(g.conv, m, "hello @B", vars{"m": []string{"B"}})
	check("edited in again", 1, 1)
	g.a.edit(g.conv, m, "hello all", vars{"m": []string{}, "all": true})
	check("as one of all", 1, 1)
}

func (g *trio) mentionOf(users ...string) int64 { return g.a.mention(g.conv, users...) }

func TestR7TheOnlyMentionIsRecalled(t *testing.T) {
	g := newTrio(t)
	m := g.mentionOf("B")
	g.a.recall(g.conv, m)
	equal(t, "u", g.b1.see(g.conv).Unread, 0)
	equal(t, "badge", g.b1.badge().counts(), badge{})
}

func TestA47AnEditOfTheBodyKeepsTheMentions(t *testing.T) {
	g := newTrio(t)
	sent := g.a.say(g.conv, vars{"i": "original", "m": []string{"B"}})
	got := g.a.edit(g.conv, sent.Message.Seq, "other words", nil)
	equal(t, "mentions", got.mentions(), "B")
	equal(t, "body", *got.Message.Body, "other words")
	equal(t, "unread mentions", g.b1.see(g.conv).UnreadMentions, 1)
	again := g.a.say(g.conv, vars{"i": "original", "m": []string{"B"}})
	equal(t, "a retry of the original send is a duplicate", again.Duplicate, true)
	equal(t, "and shows the message as it is", *again.Message.Body, "other words")
	refused(t, "other mentions under the same id", g.a.do(saying, vars{"c": g.conv, "i": "original", "b": "hello", "m": []string{"C"}}), "IDEMPOTENCY_CONFLICT", "clientMessageId")
}

// TestMentions: by name and as all, once per message, never of oneself, never of
// strangers; they have a position of their own.
func TestMentions(t *testing.T) {
	g := newTrio(t)
	g.users("E")
	got := g.a.say(g.conv, vars{"m": []string{"E", "B", "nobody", "B", "A"}, "all": true})
	equal(t, "what counted", got.mentions(), "B A")
	equal(t, "once, though by name and as all", g.b1.see(g.conv).UnreadMentions, 1)
	equal(t, "of C as one of all", g.c.see(g.conv).UnreadMentions, 1)
	equal(t, "never of oneself", g.a.see(g.conv).UnreadMentions, 0)
	second := g.a.say(g.conv, vars{"m": []string{"B"}}).Message.Seq
	g.c.say(g.conv, vars{"all": true})
	r := g.b1.see(g.conv)
	equal(t, "mentions", r.UnreadMentions, 3)
	equal(t, "the first", r.FirstMention.Seq, got.Message.Seq)
	g.b1.read(g.conv, got.Message.Seq)
	r = g.b1.see(g.conv)
	equal(t, "a report moves the mention position", r.UnreadMentions, 2)
	equal(t, "the next", r.FirstMention.Seq, second)
	g.b1.readAll(false)
	r = g.b1.see(g.conv)
	equal(t, "markAllRead does not", r.UnreadMentions, 2)
	equal(t, "though nothing is unread", r.Unread, 0)
	g.b1.unreadFrom(g.conv, got.Message.Seq, r.Read)
	equal(t, "markUnread takes it back", g.b1.see(g.conv).UnreadMentions, 3)
	equal(t, "as a filter", len(first(g.b1.inbox("mentioned: true"))), 1)
	g.b1.readAll(true)
	equal(t, "markAllRead with mentions", g.b1.badge().counts(), badge{})
	equal(t, "as a filter", len(first(g.b1.inbox("mentioned: true"))), 0)

	// Who joins later is not among all of before.
	d := g.device("D", "d1")
	g.addMembers(g.conv, "MEMBERSHIP", "D")
	equal(t, "D", d.see(g.conv).UnreadMentions, 0)
	edited := g.a.edit(g.conv, second, "hello D", vars{"m": []string{"D", "B"}})
	equal(t, "what counts of an edit", edited.mentions(), "B")
	equal(t, "a mention in a message that D cannot see is none", d.see(g.conv).UnreadMentions, 0)
	g.a.mention(g.conv, "D")
	equal(t, "D now", d.see(g.conv).UnreadMentions, 1)
	g.takeDown(g.conv, d.see(g.conv).FirstMention.Seq)
	equal(t, "taken down", d.see(g.conv).UnreadMentions, 0)
}

// TestTheFirstMentionByAnEdit: where nobody was ever mentioned before.
func TestTheFirstMentionByAnEdit(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 1)[0]
	g.a.edit(g.conv, m, "hello B", vars{"m": []string{"B"}})
	equal(t, "by name", g.b1.see(g.conv).UnreadMentions, 1)
	g.b1.readAll(true)
	m = g.a.send(g.conv, 1)[0]
	g.a.edit(g.conv, m, "hello all", vars{"all": true})
	equal(t, "as all", g.b1.see(g.conv).UnreadMentions, 1)
}

// TestMentionsAreCountedUpTo999: exactly, and no further.
func TestMentionsAreCountedUpTo999(t *testing.T) {
	g := newTrio(t)
	g.fillMentioning(g.conv, "A", 998)
	equal(t, "mentions", g.b1.see(g.conv).UnreadMentions, 998)
	g.mentionOf("B")
	g.mentionOf("B")
	equal(t, "mentions", g.b1.see(g.conv).UnreadMentions, 999)
	equal(t, "unread is exact", g.b1.see(g.conv).Unread, 1000)
	equal(t, "badge", g.b1.badge().Mentions, 999)
}

// TestMentionLimits: fifty names a message.
func TestMentionLimits(t *testing.T) {
	g := newTrio(t)
	var many []string
	for n := range 51 {
		many = append(many, fmt.Sprint("u", n))
	}
	for what, doc := range map[string]string{"send": saying, "edit": editDoc} {
		v := vars{"c": g.conv, "i": "x", "s": g.a.send(g.conv, 1)[0], "b": "x", "m": many}
		delete(v, map[string]string{"send": "s", "edit": "i"}[what])
		refused(t, what+" with 51", g.a.do(doc, v), "BAD_USER_INPUT", "mentions")
		v["m"] = []string{""}
		refused(t, what+" with an empty id", g.a.do(doc, v), "BAD_USER_INPUT", "mentions")
		v["m"] = many[:50]
		equal(t, what+" with 50", g.a.do(doc, v).code(), "")
	}
}

// TestEdit: only one's own, only what is still there, and nothing where nothing differs.
func TestEdit(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 2)
	watch := g.b1.socket().subscribe(inboxDoc)
	watch.resync()
	got := g.a.edit(g.conv, m[0], "better", nil)
	equal(t, "head", got.Conversation.Head, m[1]+1)
	equal(t, "hinted", watch.next().Reasons[0], "EDIT")
	equal(t, "the same again", g.a.edit(g.conv, m[0], "better", nil).Conversation.Head, m[1]+1)
	equal(t, "u", g.b1.see(g.conv).Unread, 2)
	events := g.b1.events(g.conv, m[1])
	if len(events) != 1 || events[0].Typename != "MessageEdited" || events[0].MessageSeq != m[0] || *events[0].Message.Body != "better" {
		t.Errorf("%+v", events)
	}
	joined := int64(1)
	for what, probe := range map[string]struct {
		who  *client
		seq  int64
		code string
	}{
		"somebody else's": {g.c, m[0], "FORBIDDEN"}, "a join": {g.a, joined, "NOT_FOUND"}, "beyond head": {g.a, 999, "NOT_FOUND"},
		"negative": {g.a, -1, "CURSOR_AHEAD"}, "a stranger": {g.device("E", "e1"), m[0], "NOT_MEMBER"},
	} {
		a := probe.who.do(editDoc, vars{"c": g.conv, "s": probe.seq, "b": "x"})
		equal(t, what, a.code(), probe.code)
	}
	g.a.recall(g.conv, m[0])
	equal(t, "withdrawn", g.a.do(editDoc, vars{"c": g.conv, "s": m[0], "b": "x"}).code(), "NOT_FOUND")
	g.takeDown(g.conv, m[1])
	equal(t, "taken down", g.a.do(editDoc, vars{"c": g.conv, "s": m[1], "b": "x"}).code(), "NOT_FOUND")
	m = g.a.send(g.conv, 1)
	g.a.leave(g.conv)
	equal(t, "after a leave", g.a.do(editDoc, vars{"c": g.conv, "s": m[0], "b": "x"}).code(), "NOT_MEMBER")
}

// TestEditRacesRecall: the message ends recalled and empty, however it goes.
func TestEditRacesRecall(t *testing.T) {
	g := newTrio(t)
	for range 20 {
		m := g.mentionOf("B")
		done := make(chan struct{})
		go func() {
			defer close(done)
			if a, err := g.a.try(editDoc, vars{"c": g.conv, "s": m, "b": "late", "m": []string{"B"}}); err != nil || a.code() != "" && a.code() != "NOT_FOUND" {
				t.Errorf("%v %+v", err, a)
			}
		}()
		g.a.recall(g.conv, m)
		<-done
	}
	equal(t, "u", g.b1.see(g.conv).Unread, 0)
	equal(t, "badge", g.b1.badge().counts(), badge{})
	for _, e := range g.b1.events(g.conv, 0) {
		if e.Typename == "Message" && (e.Body != nil || !e.Recalled) {
			t.Errorf("%+v", e)
		}
	}
}
