package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"tidemark/chat"
	"tidemark/store"
)

// actor is one process with a will of its own: it calls anything about anybody,
// at once with the others. Any answer of the domain is right; the rest is not.
type actor struct {
	*world
	rng     *rand.Rand
	convs   []chat.ConversationID
	users   []chat.UserID
	devices []chat.DeviceID
	counts  coverage
	failed  func(what string, err error)
}

func (a *actor) user() chat.UserID                 { return a.users[a.rng.IntN(len(a.users))] }
func (a *actor) device() chat.DeviceID             { return a.devices[a.rng.IntN(len(a.devices))] }
func (a *actor) conversation() chat.ConversationID { return a.convs[a.rng.IntN(len(a.convs))] }
func (a *actor) seq() chat.Seq                     { return chat.Seq(a.rng.IntN(60)) }
func (a *actor) toss() bool                        { return a.rng.IntN(2) == 0 }

// actions are the mutations that actors call; the test itself erases and revokes, once each.
var actions = slices.DeleteFunc(slices.Clone(mutations), func(m string) bool { return m == "eraseUser" || m == "revokeDevice" })

// act calls one mutation.
func (a *actor) act() {
	u, conv, seq := a.user(), a.conversation(), a.seq()
	name := actions[a.rng.IntN(len(actions))]
	a.counts[name]++
	var err error
	switch name {
	case "markRead":
		revision := int32(a.rng.IntN(4))
		_, err = a.MarkRead(a.ctx, []store.ReadReport{{User: u, Conversation: conv, Seq: seq}, {User: u, Conversation: a.conversation(), Seq: seq, Revision: &revision}})
	case "markUnread":
		ask := store.Unreading{}
		if c := a.see(u, "", conv); c != nil && a.toss() {
			seq++
			ask.From, ask.Expected = &seq, c.Read
		}
		_, err = a.MarkUnread(a.ctx, u, conv, ask)
	case "markAllRead":
		_, err = a.ReadEverything(a.ctx, u, a.toss())
	case "ack":
		_, err = a.Ack(a.ctx, []store.AckReport{{Device: a.device(), Conversation: conv, Seq: seq}, {Device: a.device(), InstallEpoch: 1, Conversation: conv, Seq: seq}})
	case "registerInstall":
		_, _, err = a.RegisterInstall(a.ctx, a.device(), fmt.Sprint(a.rng.IntN(3)), 0)
	case "sendMessage":
		drafts := []store.Draft{{Sender: u, ClientMessageID: fmt.Sprint(a.ids.Add(1)), Body: "x", Mentions: []chat.UserID{a.user()}, MentionsAll: a.rng.IntN(5) == 0},
			{Sender: a.user(), ClientMessageID: fmt.Sprint("same", a.rng.IntN(20)), Body: "x", ReadUpTo: &seq}}
		_, err = a.Append(a.ctx, conv, drafts)
	case "editMessage":
		mentions, all := []chat.UserID{a.user()}, a.toss()
		_, err = a.Edit(a.ctx, u, conv, seq, store.Edit{Body: fmt.Sprint(a.ids.Add(1)), Mentions: &mentions, MentionsAll: &all})
	case "recallMessage":
		_, err = a.Recall(a.ctx, u, conv, seq)
	case "leaveConversation":
		_, err = a.Leave(a.ctx, u, conv)
	case "updateConversationSettings":
		yes, no := a.toss(), a.toss()
		_, err = a.UpdateSettings(a.ctx, u, conv, store.Settings{Pinned: &yes, Muted: &no, Archived: &yes})
	case "setReadSharing":
		_, err = a.SetReadSharing(a.ctx, u, a.toss())
	case "putUser":
		_, err = a.PutUser(a.ctx, u, nil, true)
	case "createDevice":
		_, _, err = a.CreateDevice(a.ctx, u, chat.DeviceID(fmt.Sprint("spare", a.ids.Add(1))), nil)
	case "rotateDeviceToken":
		_, _, err = a.RotateToken(a.ctx, a.device())
	case "createConversation":
		_, _, err = a.CreateConversation(a.ctx, store.NewConversation{ID: conv, Kind: chat.Group, Members: a.users})
	case "addMembers":
		how := chat.HistoryMembership
		if a.toss() {
			how = chat.HistorySinceJoin
		}
		_, err = a.AddMembers(a.ctx, conv, []chat.UserID{u, a.user()}, how)
	case "removeMembers":
		_, err = a.RemoveMembers(a.ctx, conv, []chat.UserID{u})
	case "updateConversation":
		title, policy := fmt.Sprint(a.rng.IntN(3)), chat.ReceiptsMembers
		_, err = a.UpdateConversation(a.ctx, conv, store.ConversationChange{Retitle: true, Title: &title, Policy: &policy})
	case "postNotice":
		_, err = a.PostNotice(a.ctx, conv, "line", nil)
	case "takeDownMessage":
		_, err = a.TakeDown(a.ctx, conv, seq)
	}
	if err != nil && !errors.As(err, new(*chat.Error)) {
		a.failed(name, err)
	}
}

// TestHistoriesOfSeveralProcesses: sixty-four callers in four processes call
// everything about the same users and conversations at once, reports, acks and messages in batches. Afterwards, and at every moment for those who
// look on, badges are the sums of their rows, nothing deviates, and copies that
// were kept by changes all the while are what a fresh query gives (P1, P9).
func TestHistoriesOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	total := coverage{}
	for round := range 4 {
		actorsAtOnce(t, round, total)
	}
	for _, m := range actions {
		if total[m] == 0 {
			t.Errorf("nobody called %s", m)
		}
	}
}

// actorsAtOnce is one round of it, and adds to total who called what.
func actorsAtOnce(t *testing.T, round int, total coverage) {
	const processes, callers, steps = 4, 16, 16
	w := newWorld(t)
	users := []chat.UserID{"a", "b", "c", "d"}
	w.users(users...)
	w.users("erased")
	var devices []chat.DeviceID
	for _, u := range append(users, "erased") {
		for n := range 2 {
			devices = append(devices, w.device(u, chat.DeviceID(fmt.Sprint(u, n))).ID)
		}
	}
	convs := []chat.ConversationID{w.group("c0", users...), w.group("c1", append(users[:2:2], "erased")...), w.group("c2", "c", "d", "erased")}
	ctx, stop := context.WithCancel(w.ctx)
	var acting, looking sync.WaitGroup
	counts := make([]coverage, processes*callers)
	failed := func(what string, err error) { t.Errorf("%s: %v", what, err) }
	var process *world
	for n := range counts {
		if n%callers == 0 {
			s, err := store.Open(w.ctx, w.url, store.Options{Connections: 8})
			w.must(err)
			defer s.Close()
			process = &world{s, t, w.url, w.ctx, w.ids, newLanes(s)}
		}
		counts[n] = coverage{}
		a := &actor{world: process, rng: rand.New(rand.NewPCG(uint64(round), uint64(n))), convs: convs,
			users: append(users[:4:4], "erased"), devices: devices, counts: counts[n], failed: failed}
		acting.Go(func() {
			for step := range steps {
				if n == 0 && step == steps/2 {
					_, err := a.EraseUser(a.ctx, "erased")
					a.must(err)
					a.forget("erased")
					_, err = a.RevokeDevice(a.ctx, "d1", nil)
					a.must(err)
				}
				a.act()
			}
		})
	}
	copies := make([]*copyKeeper, len(users))
	for n, u := range users {
		copies[n] = &copyKeeper{world: w, user: u, device: chat.DeviceID(fmt.Sprint(u, 0))}
		looking.Go(func() {
			for ctx.Err() == nil {
				copies[n].look(1 + n)
			}
		})
	}
	acting.Wait()
	stop()
	looking.Wait()
	for _, k := range copies {
		k.look(1)
		k.same(t)
	}
	w.forget("erased") // what was in flight
	w.noDeviations(t)
	for _, c := range counts {
		for m, n := range c {
			total[m] += n
		}
	}
}

// copyKeeper keeps a device's copy of its list by changes.
type copyKeeper struct {
	*world
	user   chat.UserID
	device chat.DeviceID
	copy   map[chat.ConversationID]*chat.Conversation
	token  string
}

// everything reads all lists of the viewer.
func everything(w *world, vw *store.View) map[chat.ConversationID]*chat.Conversation {
	w.t.Helper()
	rows := map[chat.ConversationID]*chat.Conversation{}
	for _, r := range []store.InboxRange{{First: 50}, {First: 50, Archived: true}, {First: 50, Left: true}, {First: 50, Left: true, Archived: true}} {
		page, err := vw.Inbox(w.ctx, r)
		w.must(err)
		for _, c := range page.Conversations {
			rows[c.ID] = c
		}
	}
	return rows
}

// look brings the copy up to date, and holds badge and rows of that moment against each other.
func (k *copyKeeper) look(first int) {
	k.t.Helper()
	for more := true; more; {
		sn, vw := k.view(k.user, k.device)
		rows := everything(k.world, vw)
		badge, err := vw.Badge(k.ctx)
		k.must(err)
		unseen, err := sn.View(store.Viewer{User: k.user, Device: k.device}).Badge(k.ctx)
		k.must(err)
		var counted []chat.Counts
		for _, c := range rows {
			if counts, ok := c.Counts(); ok {
				counted = append(counted, counts)
			}
			if c.UnreadMessages > int64(c.Head-c.Read) || c.UnreadMessages < 0 {
				k.t.Fatalf("%s: unread %d, head %d, read %d", c.ID, c.UnreadMessages, c.Head, c.Read)
			}
		}
		want := chat.SumBadge(counted)
		if want.Version = badge.Version; want != *badge || want != *unseen {
			k.t.Fatalf("badge %+v, by a view without rows %+v, the sum of its rows %+v", *badge, *unseen, want)
		}
		if k.token == "" {
			k.copy = rows
			k.token, err = vw.SyncToken(k.ctx)
			k.must(err)
		}
		page, err := vw.Changes(k.ctx, k.token, first)
		k.must(err)
		if page.Resync {
			k.copy, k.token = rows, page.SyncToken
		} else {
			for _, c := range page.Changed {
				k.copy[c.ID] = c
			}
			k.token = page.SyncToken
		}
		more = page.More
		sn.Close()
	}
}

// same holds the copy against a fresh query.
func (k *copyKeeper) same(t *testing.T) {
	t.Helper()
	sn, vw := k.view(k.user, k.device)
	defer sn.Close()
	rows := everything(k.world, vw)
	if len(rows) != len(k.copy) {
		t.Errorf("the copy of %s has %d conversations, want %d", k.device, len(k.copy), len(rows))
	}
	for id, c := range rows {
		if k.copy[id] == nil || seenRow(k.copy[id]) != seenRow(c) {
			t.Errorf("the copy of %s holds %+v, but it is\n%s", k.device, k.copy[id], seenRow(c))
		}
	}
}
