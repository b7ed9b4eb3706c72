package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"tidemark/chat"
	"tidemark/store"
)

// history is a random life of a few users in a few conversations, told to the
// store and to a naive model at once. Again and again the two must agree.
type history struct {
	*world
	model
	rt     *rapid.T
	conn   *pgx.Conn
	prefix string
	// visible is the largest head that was ever seen, by conversation (P5).
	visible map[chat.ConversationID]chat.Seq
	counts  coverage
	turn    int
	// talkative histories are mostly about messages.
	talkative bool
}

// coverage counts the calls of each mutation.
type coverage map[string]int

// mutations are those of the API, as the store is called for them.
var mutations = []string{
	"markRead", "markUnread", "markAllRead", "ack", "registerInstall", "sendMessage", "editMessage", "recallMessage", "leaveConversation",
	"updateConversationSettings", "setReadSharing", "revokeDevice", "putUser", "createDevice", "rotateDeviceToken", "createConversation",
	"addMembers", "removeMembers", "updateConversation", "postNotice", "takeDownMessage", "eraseUser",
}

// least is how often the histories of one run must call each mutation.
const least = 1_000

// print writes the table, and fails if a mutation was called too seldom.
func (c coverage) print(t *testing.T, least int) {
	t.Helper()
	for _, m := range mutations {
		t.Logf("%-28s %6d", m, c[m])
		if c[m] < least {
			t.Errorf("%s was called %d times, less than %d", m, c[m], least)
		}
	}
}

// Limits that a handful of users can pass.
const (
	pullAbove  = 3
	namesBelow = 4
)

// TestP1P2P4P5P6P7P9RandomHistories: whatever is done, the ordinal form, the
// counting query and the pure function agree for everyone; the badge is the sum
// of the rows (P1, P2); read and delivered leave each other alone (P4); the log
// grows only at its end (P5); whatever counts can be listed and brought to 0
// (P6); receipts name who of the audience has read (P7); a copy that is kept by
// changes is what a fresh query gives (P9).
func TestP1P2P4P5P6P7P9RandomHistories(t *testing.T) {
	counts := [2]coverage{{}, {}}
	t.Run("in parallel", func(t *testing.T) {
		for part := range counts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				randomHistories(t, counts[part])
			})
		}
	})
	for m, n := range counts[1] {
		counts[0][m] += n
	}
	counts[0].print(t, least)
}

// randomHistories runs as many histories as rapid is told, on a database of
// their own, and adds to counts.
func randomHistories(t *testing.T, counts coverage) {
	w := newWorld(t)
	w.Store = historyStore(t, w.url)
	histories, steps := w.histories(t, w.conn(t), counts)
	w.noDeviations(t)
	t.Logf("%d histories, %d steps", histories, steps)
}

func historyStore(t *testing.T, url string) *store.Store {
	s, err := store.Open(context.Background(), url, store.Options{PullMembers: pullAbove, ReceiptNames: namesBelow})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// histories runs them one after the other.
func (w *world) histories(t *testing.T, conn *pgx.Conn, counts coverage) (histories, steps int) {
	rapid.Check(t, func(rt *rapid.T) {
		histories++
		h := &history{world: &world{w.Store, rt, w.url, w.ctx, w.ids, w.lanes}, rt: rt, conn: conn, prefix: fmt.Sprintf("h%d-", w.ids.Add(1)),
			model: model{persons: map[chat.UserID]*modelUser{}}, visible: map[chat.ConversationID]chat.Seq{}, counts: counts, talkative: histories%5 == 0}
		h.begin()
		short, long := rapid.IntRange(1, 80), rapid.IntRange(80, 300)
		for n := rapid.OneOf(short, long).Draw(rt, "steps"); n > 0; n-- {
			h.step()
			steps++
			if h.turn++; h.turn%4 == 0 {
				h.compare(h.turn%40 == 0)
			}
		}
		h.compare(true)
		h.bringToZero()
		h.eraseOne()
		h.compare(true)
	})
	return histories, steps
}

func (h *history) begin() {
	for n := range 4 {
		h.newUser()
		if n < 3 {
			h.newDevice(h.user(n))
		}
		h.newDevice(h.user(n))
	}
	for n := range 2 {
		h.newConversation(h.user(0), h.user(1), h.user(2+n))
	}
	h.newConversation(h.user(0), h.user(3))
}

func (h *history) user(n int) chat.UserID { return chat.UserID(fmt.Sprintf("%su%d", h.prefix, n)) }

// people are the users who are not erased, in the order of their creation.
func (h *history) people() (list []chat.UserID) {
	for n := range len(h.persons) {
		if u := h.user(n); !h.persons[u].erased {
			list = append(list, u)
		}
	}
	return list
}

// somebody is a user, seldom an erased one.
func (h *history) somebody() chat.UserID {
	if h.chance(20) {
		return h.user(rapid.IntRange(0, len(h.persons)-1).Draw(h.rt, "anybody"))
	}
	return rapid.SampledFrom(h.people()).Draw(h.rt, "user")
}

// chance is true once in n times.
func (h *history) chance(n int) bool { return rapid.IntRange(1, n).Draw(h.rt, "chance") == n }

// likely is mostly a user of whom suits holds, if there is one, so that most
// steps do something and some do not.
func (h *history) likely(suits func(chat.UserID) bool) chat.UserID {
	var fitting []chat.UserID
	for _, u := range h.people() {
		if suits(u) {
			fitting = append(fitting, u)
		}
	}
	if len(fitting) == 0 || h.chance(6) {
		return h.somebody()
	}
	return rapid.SampledFrom(fitting).Draw(h.rt, "likely")
}

// seqIn is a position in a conversation, sometimes an impossible one.
func (h *history) seqIn(c *modelConversation) chat.Seq {
	return chat.Seq(rapid.IntRange(-1, int(c.head())+2).Draw(h.rt, "seq"))
}

// messageIn is mostly the seq of a message, and who sent it.
func (h *history) messageIn(c *modelConversation) (chat.Seq, chat.UserID) {
	seq := h.seqIn(c)
	for ; seq > 0 && seq <= c.head() && !c.message(seq); seq-- {
	}
	if c.message(seq) && !h.chance(5) {
		return seq, c.log[seq-1].Sender
	}
	return seq, h.somebody()
}

// operations are what a step may be: 64 places, about equally many for each mutation.
var operations = places(map[string]int{
	"send": 5, "read": 4, "markUnread": 3, "readAll": 3, "ack": 3, "install": 3, "edit": 3, "recall": 3, "takeDown": 3, "leave": 3, "join": 4,
	"remove": 3, "settings": 3, "sharing": 3, "update": 3, "notice": 3, "revoke": 3, "rotate": 3, "erase": 2, "create": 2, "device": 1, "rename": 1,
})

// talk is what most steps are in a talkative history, whose logs grow long: what
// a position, a withdrawal or a period gets wrong shows there.
var talk = places(map[string]int{"send": 24, "read": 10, "recall": 8, "takeDown": 6, "markUnread": 4, "edit": 4, "join": 3, "leave": 3, "readAll": 2})

func places(weights map[string]int) (list []string) {
	for _, op := range slices.Sorted(maps.Keys(weights)) {
		list = append(list, slices.Repeat([]string{op}, weights[op])...)
	}
	return list
}

func (h *history) step() {
	c := rapid.SampledFrom(h.convs).Draw(h.rt, "conversation")
	// By bits: drawn by its index, what stands first would be preferred by far.
	n := 0
	for range 6 {
		if n *= 2; rapid.Bool().Draw(h.rt, "operation") {
			n++
		}
	}
	op := operations[n]
	if h.talkative {
		op = talk[n]
	}
	do := h.operation(op, c)
	do()
	if rapid.Bool().Draw(h.rt, "again") {
		do() // a retry, a duplicate, a second tab: the same call again
	}
}

// operation draws the arguments of a call and returns the call, which also holds
// its answer against the model.
func (h *history) operation(op string, c *modelConversation) func() {
	other := h.chance(3)
	switch op {
	case "send":
		if other && rapid.Bool().Draw(h.rt, "again") {
			return h.resend(c)
		} else if other {
			return h.sendBatch(c)
		}
		return h.send(c)
	case "edit":
		return h.edit(c)
	case "recall":
		return h.recall(c)
	case "takeDown":
		return h.takeDown(c)
	case "notice":
		return h.notice(c)
	case "update":
		return h.update(c)
	case "read":
		if other {
			return h.report(c, rapid.IntRange(2, 6).Draw(h.rt, "reports"))
		}
		return h.report(c, 1)
	case "markUnread":
		return h.markUnread(c)
	case "readAll":
		if other {
			return h.readUpTo()
		}
		return h.readAll()
	case "ack":
		return h.acknowledge(c)
	case "settings":
		return h.set(c)
	case "sharing":
		return h.share()
	case "join":
		return h.join(c)
	case "leave":
		return h.leave(c)
	case "remove":
		return h.remove(c)
	case "install":
		return h.register()
	case "erase":
		return h.erasure()
	default:
		return h.provide(op)
	}
}

// wantCode fails unless err carries the code, or is nil for none.
func (h *history) wantCode(err error, want chat.Code) {
	h.t.Helper()
	var e *chat.Error
	if want == "" && err != nil || want != "" && (!errors.As(err, &e) || e.Code != want) {
		h.t.Fatalf("error %v, want code %q", err, want)
	}
}
