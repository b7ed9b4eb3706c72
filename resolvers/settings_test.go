package resolvers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func ids(rows []row) string {
	var list []string
	for _, r := range rows {
		list = append(list, r.ID)
	}
	return strings.Join(list, " ")
}

func TestA21MutedAndOrder(t *testing.T) {
	g := newTrio(t)
	for _, c := range []string{"c2", "c3", "c4"} {
		g.a.send(g.group(c, "A", "B"), 2)
	}
	g.a.send(g.conv, 1)
	p := g.b1.set("c2", "muted: true")
	equal(t, "the row goes on counting", p.Conversation.Unread, 2)
	equal(t, "badge", p.Badge.counts(), badge{Unread: 5, Conversations: 3, MutedUnread: 2})
	rows, _ := g.b1.inbox("")
	equal(t, "by activity", ids(rows), "c1 c4 c3 c2")
	g.b1.set("c2", "pinned: true")
	g.b1.set("c3", "pinned: true")
	g.b1.read("c4", 4)
	rows, _ = g.b1.inbox("")
	equal(t, "pinned first, by activity among themselves; reading changes no order", ids(rows), "c3 c2 c1 c4")
	g.a.send("c2", 1)
	rows, _ = g.b1.inbox("")
	equal(t, "a message moves a pinned one among the pinned", ids(rows), "c2 c3 c1 c4")
	g.b1.set("c2", "pinned: false, muted: false")
	rows, b := g.b1.inbox("")
	equal(t, "unpinned", ids(rows), "c3 c2 c1 c4")
	equal(t, "badge", b.counts(), badge{Unread: 6, Conversations: 3})
}

// TestSettingsChangeNothingTwice: and null is no change; other sessions are told once.
func TestSettingsChangeNothingTwice(t *testing.T) {
	g := newTrio(t)
	watch, others := g.b2.socket().subscribe(inboxDoc), g.c.socket().subscribe(inboxDoc)
	watch.resync()
	others.resync()
	for _, set := range []string{"pinned: true", "muted: true", "archived: true", "pinned: false, muted: false, archived: false"} {
		g.b1.set(g.conv, set)
		e := watch.next()
		equal(t, set, e.Reasons[0], "SETTINGS")
		equal(t, set, *e.ConversationID, g.conv)
		g.b1.set(g.conv, set)
		g.b1.set(g.conv, "pinned: null, muted: null, archived: null")
	}
	sentinel := g.group("sentinel", "B", "C")
	watch.silentUntil(sentinel)
	others.silentUntil(sentinel)
	r := g.b1.see(g.conv)
	equal(t, "at the end", fmt.Sprint(r.Pinned, r.Muted, r.Archived), "false false false")
	refused(t, "a stranger", g.device("E", "e1").do(`mutation($c: ID!) { updateConversationSettings(input: {conversationId: $c, muted: true}) { badge { unread } } }`, vars{"c": g.conv}), "NOT_MEMBER", "")
}

// TestR89R91Archive: it leaves the list and the badge until a newer message of
// another user; not for a join, an edit, a notice, a recall or one's own message.
func TestR89R91Archive(t *testing.T) {
	g := newTrio(t)
	c2 := g.group("c2", "A", "B")
	g.a.send(c2, 1)
	m := g.a.send(g.conv, 3)
	before := g.b1.badge().Unread
	p := g.b1.set(g.conv, "archived: true")
	equal(t, "total", p.Badge.Unread, before-3)
	equal(t, "row", p.Conversation.Unread, 3)
	equal(t, "archived", p.Conversation.Archived, true)
	back := g.group("back", "A", "B")
	g.a.send(back, 3)
	g.b1.set(back, "archived: true")
	g.a.send(back, 1)
	equal(t, "it comes back with 4", g.b1.see(back).Unread, 4)
	g.b1.readAll(false, vars{"conversationId": back, "seq": g.b1.see(back).Head})
	g.b1.leave(back)
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"a join", func() { g.users("D"); g.addMembers(g.conv, "MEMBERSHIP", "D") }},
		{"an edit", func() { g.a.edit(g.conv, m[0], "new", nil) }},
		{"a notice", func() { g.notice(g.conv, "hello", "") }},
		{"a recall", func() { g.a.recall(g.conv, m[2]) }},
		{"one's own", func() { g.b1.send(g.conv, 2) }},
		{"a rename", func() { g.update(g.conv, `title: "x"`) }},
		{"reading", func() { g.b1.read(g.conv, m[0]) }},
		{"a leave", func() { g.removeMembers(g.conv, "D") }},
		{"archive anew", func() { g.b1.set(g.conv, "archived: true") }},
	} {
		step.do()
		equal(t, step.what+" does not end it", g.b1.see(g.conv).Archived, true)
	}
	list, _ := g.b1.inbox("")
	equal(t, "the list", ids(list), "c2")
	list, _ = g.b1.inbox("archived: true")
	equal(t, "the archive", ids(list), g.conv)
	unread := g.b1.see(g.conv).Unread
	g.a.send(g.conv, 1)
	list, b := g.b1.inbox("")
	equal(t, "a message brings it back", ids(list), g.conv+" c2")
	equal(t, "with one more", list[0].Unread, unread+1)
	equal(t, "total", b.Unread, unread+1+1)
	equal(t, "the archive", len(first(g.b1.inbox("archived: true"))), 0)
	// And again, which needs a newer one again.
	g.b1.set(g.conv, "archived: true")
	equal(t, "archived again", g.b1.see(g.conv).Archived, true)
	g.c.send(g.conv, 1)
	equal(t, "back again", g.b1.see(g.conv).Archived, false)
}

// TestArchiveOutlastsAnAbsence: what was sent while one was away does not end it.
func TestArchiveOutlastsAnAbsence(t *testing.T) {
	g := newTrio(t)
	g.a.send(g.conv, 2)
	g.b1.set(g.conv, "archived: true, muted: true, pinned: true")
	g.removeMembers(g.conv, "B")
	g.a.send(g.conv, 3)
	equal(t, "a leaver's", g.b1.see(g.conv).Archived, true)
	g.addMembers(g.conv, "MEMBERSHIP", "B")
	r := g.b1.see(g.conv)
	equal(t, "back", fmt.Sprint(r.Archived, r.Muted, r.Pinned), "true true true")
	g.a.send(g.conv, 1)
	equal(t, "then", g.b1.see(g.conv).Archived, false)
}

// TestSettingsOfALeaver: they work on the list of what one has left.
func TestSettingsOfALeaver(t *testing.T) {
	g := newTrio(t)
	g.a.send(g.conv, 2)
	c2 := g.group("c2", "A", "B")
	g.b1.leave(c2)
	g.b1.leave(g.conv)
	g.b1.set(g.conv, "pinned: true")
	equal(t, "pinned first", ids(first(g.b1.inbox("active: false"))), g.conv+" c2")
	p := g.b1.set(c2, "archived: true")
	equal(t, "archived", p.Conversation.Archived, true)
	equal(t, "badge", p.Badge.counts(), badge{})
	g.a.send(c2, 5)
	equal(t, "the rest", ids(first(g.b1.inbox("active: false"))), g.conv)
	equal(t, "the archive of the left", ids(first(g.b1.inbox("active: false, archived: true"))), c2)
}

func TestR85LeavingLowersTheBadge(t *testing.T) {
	g := newTrio(t)
	for n := range 5 {
		g.a.send(g.group(fmt.Sprint("five", n), "A", "B"), 1)
	}
	for n := range 4 {
		g.b1.leave(fmt.Sprint("five", n))
	}
	equal(t, "total", g.b1.badge().Unread, 1)
}

func TestR99MutedWithAMention(t *testing.T) {
	g := newTrio(t)
	g.b1.set(g.conv, "muted: true")
	g.a.send(g.conv, 2)
	g.mentionOf("B")
	equal(t, "row", g.b1.see(g.conv).Unread, 3)
	equal(t, "badge", g.b1.badge().counts(), badge{Unread: 1, Mentions: 1, Conversations: 1, MutedUnread: 3})
	g.b1.readAll(false)
	equal(t, "read, but the mention was not seen", g.b1.badge().counts(), badge{Mentions: 1, Conversations: 1})
	g.b1.remind(g.conv)
	g.b1.readAll(true)
	g.b1.remind(g.conv)
	equal(t, "a reminder in a muted one asks for nothing", g.b1.badge().counts(), badge{})
}

func TestR101MuteUnmuteRead(t *testing.T) {
	g := newTrio(t)
	g.b1.set(g.conv, "muted: true")
	m := g.a.send(g.conv, 2)
	g.b1.set(g.conv, "muted: false")
	equal(t, "unmuted", g.b1.badge().Unread, 2)
	equal(t, "read", g.b1.read(g.conv, m[1]).MarkRead.Badge.Unread, 0)
}

// TestP6WhatCountsCanBeListedAndRead: also by a filter, page by page, whatever
// the settings are.
func TestP6WhatCountsCanBeListedAndRead(t *testing.T) {
	g := newTrio(t)
	for n := range 12 {
		c := g.group(fmt.Sprint("p", n), "A", "B")
		g.a.send(c, 1+n%3)
		if n%2 == 0 {
			g.b1.set(c, "muted: true")
		}
		if n%3 == 0 {
			g.a.mention(c, "B")
		}
		if n%4 == 0 {
			g.b1.set(c, "pinned: true")
		}
		if n%5 == 0 {
			g.b1.set(c, "archived: true")
		}
		if n%6 == 1 {
			g.b1.readAll(false, vars{"conversationId": c, "seq": g.b1.see(c).Head})
			g.b1.remind(c)
		}
	}
	for _, filter := range []string{"unread: true", "unread: null", "mentioned: true"} {
		var pages []string
		var after *string
		for {
			var out struct {
				Conversations struct {
					Nodes    []row
					PageInfo struct {
						HasNextPage bool
						EndCursor   *string
					}
				}
			}
			g.b1.must(`query($a: String) { conversations(first: 3, after: $a, filter: {`+filter+`}) { nodes { id } pageInfo { hasNextPage endCursor } } }`, vars{"a": after}).into(&out)
			for _, r := range out.Conversations.Nodes {
				pages = append(pages, r.ID)
			}
			if after = out.Conversations.PageInfo.EndCursor; !out.Conversations.PageInfo.HasNextPage {
				break
			}
		}
		whole, b := g.b1.inbox(filter)
		equal(t, filter+" in pages", strings.Join(pages, " "), ids(whole))
		if filter == "unread: true" {
			equal(t, "as many as the badge says", int64(len(pages)), b.Conversations)
		}
	}
	quiet, _ := g.b1.inbox("unread: false")
	loud, _ := g.b1.inbox("unread: true")
	all, _ := g.b1.inbox("")
	equal(t, "quiet and loud are all", len(quiet)+len(loud), len(all))
	for _, r := range loud {
		if slices.ContainsFunc(quiet, func(q row) bool { return q.ID == r.ID }) {
			t.Errorf("%s is both", r.ID)
		}
		g.b1.read(r.ID, r.Head)
	}
	equal(t, "badge", g.b1.badge().counts(), badge{MutedUnread: g.b1.badge().MutedUnread})
	for _, r := range all {
		g.b1.read(r.ID, r.Head)
	}
	equal(t, "badge", g.b1.badge().counts(), badge{})
}

// TestPagesWhileTheListMoves: whatever stays where it is comes once, whatever
// moves to the front between two pages is not the reason for a gap.
func TestPagesWhileTheListMoves(t *testing.T) {
	g := newTrio(t)
	for n := range 9 {
		g.a.send(g.group(fmt.Sprint("p", n), "A", "B"), 1)
	}
	g.b1.set("p0", "pinned: true")
	seen := map[string]int{}
	var after *string
	for page := 0; ; page++ {
		var out struct {
			Conversations struct {
				Nodes    []row
				PageInfo struct {
					HasNextPage bool
					EndCursor   *string
				}
			}
		}
		g.b1.must(`query($a: String) { conversations(first: 3, after: $a) { nodes { id } pageInfo { hasNextPage endCursor } } }`, vars{"a": after}).into(&out)
		for _, r := range out.Conversations.Nodes {
			seen[r.ID]++
		}
		if after = out.Conversations.PageInfo.EndCursor; !out.Conversations.PageInfo.HasNextPage {
			break
		}
		if page == 0 {
			g.a.send("p2", 1) // from a later page to the front
			g.a.send("p8", 1) // from the first page to the front
			g.b1.set("p7", "pinned: true")
		}
	}
	for _, id := range []string{"p0", "p1", "p3", "p4", "p5", "p6", "p7", "p8", g.conv} {
		equal(t, id, seen[id], 1)
	}
	equal(t, "p2, which moved past", seen["p2"], 0)
}

// TestACursorKnowsItsList: one of another filter is refused, not misread.
func TestACursorKnowsItsList(t *testing.T) {
	g := newTrio(t)
	g.group("c2", "A", "B")
	filters := []string{"", "unread: false", "mentioned: false", "archived: true", "active: false", "active: false, archived: true"}
	var out struct {
		Conversations struct{ PageInfo struct{ EndCursor *string } }
	}
	g.b1.must(`{ conversations(first: 1) { pageInfo { endCursor } } }`, nil).into(&out)
	for n, f := range filters {
		want := "BAD_USER_INPUT"
		if n == 0 {
			want = ""
		}
		a := g.b1.do(`query($a: String) { conversations(first: 1, after: $a, filter: {`+f+`}) { nodes { id } } }`, vars{"a": out.Conversations.PageInfo.EndCursor})
		equal(t, "filter "+f, a.code(), want)
	}
}
