package store_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
	"tidemark/store"
	"tidemark/storetest"
)

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is a store with short words for what tests do again and again. Every
// call fails the test on an unexpected error.
type world struct {
	*store.Store
	t   failer
	url string
	ctx context.Context
	ids *atomic.Int64
	// lanes, if any, carry reports, acks and messages together with other callers'.
	lanes *lanes
}

func newWorld(t testing.TB) *world {
	t.Helper()
	url := storetest.URL(t)
	return &world{storetest.OpenURL(t, url), t, url, context.Background(), new(atomic.Int64), nil}
}

func (w *world) conn(t testing.TB) *pgx.Conn { return storetest.Conn(t, w.url) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("unexpected error: %v", err)
	}
}

// users creates users with these ids.
func (w *world) users(ids ...chat.UserID) {
	w.t.Helper()
	for _, id := range ids {
		_, err := w.PutUser(w.ctx, id, nil, false)
		w.must(err)
	}
}

// device creates a device of a user.
func (w *world) device(user chat.UserID, id chat.DeviceID) *chat.Device {
	w.t.Helper()
	d, _, err := w.CreateDevice(w.ctx, user, id, nil)
	w.must(err)
	return d
}

// group creates a GROUP with these members, who join at seqs 1, 2, …
func (w *world) group(id chat.ConversationID, members ...chat.UserID) chat.ConversationID {
	w.t.Helper()
	got, _, err := w.CreateConversation(w.ctx, store.NewConversation{ID: id, Kind: chat.Group, Members: members})
	w.must(err)
	return got
}

// send appends n messages of the sender and returns the seq of the last.
func (w *world) send(conv chat.ConversationID, sender chat.UserID, n int) (last chat.Seq) {
	w.t.Helper()
	for range n {
		r, err := w.Append(w.ctx, conv, []store.Draft{{Sender: sender, ClientMessageID: fmt.Sprint("m", w.ids.Add(1)), Body: "hello"}})
		w.must(err)
		w.must(r[0].Err)
		last = r[0].Seq
	}
	return last
}

// read reports a position by plain maximum and returns the merged truth.
func (w *world) read(user chat.UserID, conv chat.ConversationID, seq chat.Seq) store.ReadResult {
	w.t.Helper()
	r, err := w.MarkRead(w.ctx, []store.ReadReport{{User: user, Conversation: conv, Seq: seq}})
	w.must(err)
	return r[0]
}

// ack reports one delivered position.
func (w *world) ack(device chat.DeviceID, epoch int32, conv chat.ConversationID, seq chat.Seq) store.AckResult {
	w.t.Helper()
	r, err := w.Ack(w.ctx, []store.AckReport{{Device: device, InstallEpoch: epoch, Conversation: conv, Seq: seq}})
	w.must(err)
	return r[0]
}

// forget forgets what an erased user wrote and left, and counts the pieces.
func (w *world) forget(user chat.UserID) (pieces int) {
	w.t.Helper()
	for after := (chat.MessageKey{}); ; pieces++ {
		through, err := w.ForgetMessages(w.ctx, user, after)
		w.must(err)
		if through == nil {
			w.must(w.ForgetTraces(w.ctx, user))
			return pieces
		}
		after = *through
	}
}

// see reads a conversation as a user on a device sees it; nil if they cannot.
func (w *world) see(user chat.UserID, device chat.DeviceID, conv chat.ConversationID) *chat.Conversation {
	w.t.Helper()
	sn, vw := w.view(user, device)
	defer sn.Close()
	c, err := vw.Conversation(w.ctx, conv)
	w.must(err)
	return c
}

func (w *world) unread(user chat.UserID, conv chat.ConversationID) int64 {
	w.t.Helper()
	return w.see(user, "", conv).UnreadMessages
}

func (w *world) badge(user chat.UserID) *chat.Badge {
	w.t.Helper()
	sn, vw := w.view(user, "")
	defer sn.Close()
	b, err := vw.Badge(w.ctx)
	w.must(err)
	return b
}

// inbox reads all present conversations of a user, page by page.
func (w *world) inbox(user chat.UserID, r store.InboxRange) (all []*chat.Conversation) {
	w.t.Helper()
	sn, vw := w.view(user, "")
	defer sn.Close()
	if r.First == 0 {
		r.First = chat.MaxPage
	}
	for {
		page, err := vw.Inbox(w.ctx, r)
		w.must(err)
		all = append(all, page.Conversations...)
		if !page.More {
			return all
		}
		last := all[len(all)-1]
		r.After = &store.InboxKey{Pinned: last.Pinned, Activity: last.LastActivityAt.Time, ID: last.ID}
	}
}

// view opens a snapshot; the caller closes it.
func (w *world) view(user chat.UserID, device chat.DeviceID) (*store.Snapshot, *store.View) {
	sn := w.Snapshot()
	return sn, sn.View(store.Viewer{User: user, Device: device})
}
