package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"tidemark/chat"
	"tidemark/store"
	"tidemark/storetest"
)

// TestErasureOfATalker: what somebody wrote is forgotten in pieces, each a short
// transaction, so that those who send beside it are not kept waiting.
func TestErasureOfATalker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fillInbox(t, w.conn(t), 2, 6_000)
	w.users("other")
	_, err := w.AddMembers(w.ctx, "c1", []chat.UserID{"other"}, chat.HistoryMembership)
	w.must(err)
	if through, err := w.ForgetMessages(w.ctx, "writer", chat.MessageKey{}); err != nil || through != nil {
		t.Fatalf("of somebody who is not erased: %v %v", through, err)
	}
	w.must(w.ForgetTraces(w.ctx, "writer"))
	if w.see("writer", "", "c1") == nil || w.read("reader", "c1", 3).Read != 3 {
		t.Error("traces of somebody who is not erased are gone")
	}
	_, err = w.EraseUser(w.ctx, "writer")
	w.must(err)
	if pieces := w.forget("writer"); pieces != 4 {
		t.Errorf("%d pieces, want two for each conversation of 6,000", pieces)
	}
	if got := w.unread("reader", "c1") + w.unread("reader", "c2"); got != 0 {
		t.Errorf("unread %d", got)
	}
	w.send("c1", "other", 1)
	if got := w.unread("reader", "c1"); got != 1 {
		t.Errorf("unread %d, want what another one sent", got)
	}
	if pieces := w.forget("writer"); pieces != 0 {
		t.Errorf("again: %d pieces", pieces)
	}
	_, err = w.Verify(w.ctx, func(d store.Deviation) {
		if d.Rule != "ordinals" { // fillInbox leaves activity out
			t.Error(d)
		}
	})
	w.must(err)
}

// TestErasuresAtOnce: several, on connections that prepare their statements
// anew, while the same and other users read, receive and are given devices.
func TestErasuresAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for round := range 5 {
		var users []chat.UserID
		for n := range 4 {
			users = append(users, chat.UserID(fmt.Sprintf("u%d-%d", round, n)))
		}
		w.users(users...)
		conv := w.group(chat.ConversationID(fmt.Sprint("c", round)), users...)
		for _, u := range users {
			w.device(u, chat.DeviceID(u))
			w.send(conv, u, 3)
		}
		s, err := store.Open(context.Background(), w.url, store.Options{})
		w.must(err)
		fresh := &world{s, t, w.url, w.ctx, w.ids, nil}
		var wg sync.WaitGroup
		for _, u := range users[:3] {
			wg.Go(func() {
				_, err := fresh.EraseUser(w.ctx, u)
				fresh.must(err)
				fresh.forget(u)
			})
			wg.Go(func() {
				for range 10 {
					if _, err := fresh.MarkRead(w.ctx, []store.ReadReport{{User: u, Conversation: conv, Seq: 8}, {User: users[3], Conversation: conv, Seq: 8}}); err != nil {
						t.Error(err)
					}
					if _, err := fresh.Ack(w.ctx, []store.AckReport{{Device: chat.DeviceID(u), Conversation: conv, Seq: 8}}); err != nil {
						t.Error(err)
					}
					_, _, err := fresh.CreateDevice(w.ctx, u, chat.DeviceID(fmt.Sprint("late", w.ids.Add(1))), nil)
					if err != nil && !errors.Is(err, &chat.Error{Code: chat.NotFound}) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for _, u := range users[:3] {
			fresh.forget(u) // what was in flight
		}
		s.Close()
		w.noDeviations(t)
	}
}

// TestADeviceIsNotMadeDuringAnErasure: it waits for the erasure, and is refused.
func TestADeviceIsNotMadeDuringAnErasure(t *testing.T) {
	w := newWorld(t)
	w.users("a")
	release := w.hold(t, `UPDATE users SET erased_at = now() WHERE user_id = 'a'`)
	done := make(chan error)
	go func() {
		_, _, err := w.CreateDevice(w.ctx, "a", "late", nil)
		done <- err
	}()
	w.waiting(t, 1)
	release()
	if err := <-done; err == nil {
		t.Error("a device of an erased user was made")
	}
	w.noDeviations(t)
}

// TestErasureForgetsHiddenPeriods: also how far they had been seen.
func TestErasureForgetsHiddenPeriods(t *testing.T) {
	w := newWorld(t)
	w.users("a", "b")
	w.device("b", "b1")
	conv := w.group("c", "a", "b")
	w.send(conv, "a", 3)
	w.must(w.read("b", conv, 4).Err)
	w.must(w.ack("b1", 0, conv, 5).Err)
	_, err := w.Leave(w.ctx, "b", conv)
	w.must(err)
	_, err = w.AddMembers(w.ctx, conv, []chat.UserID{"b"}, chat.HistorySinceJoin)
	w.must(err)
	_, err = w.EraseUser(w.ctx, "b")
	w.must(err)
	w.forget("b")
	var left int
	w.must(storetest.Conn(t, w.url).QueryRow(w.ctx, `SELECT count(*) FROM membership_periods WHERE seen_cap > 0 OR delivered_cap > 0`).Scan(&left))
	if left != 0 {
		t.Errorf("%d hidden periods say how far they were seen", left)
	}
	w.noDeviations(t)
}
