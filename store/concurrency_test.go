package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
	"tidemark/store"
)

// hold runs sql in a transaction of its own and keeps its locks until release.
func (w *world) hold(t *testing.T, sql string, args ...any) (release func()) {
	t.Helper()
	conn := w.conn(t)
	tx, err := conn.Begin(w.ctx)
	w.must(err)
	_, err = tx.Exec(w.ctx, sql, args...)
	w.must(err)
	return func() {
		t.Helper()
		w.must(tx.Commit(w.ctx))
	}
}

// waiting waits until n backends wait for a lock.
func (w *world) waiting(t *testing.T, n int) {
	t.Helper()
	conn := w.conn(t)
	deadline := time.Now().Add(20 * time.Second)
	for {
		var waiting int
		w.must(conn.QueryRow(w.ctx, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&waiting))
		if waiting >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d backends wait for a lock, want %d", waiting, n)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// TestA34SeqOrderIsCommitOrder: a transaction that appended first and stalls
// makes the second wait; nobody ever sees the larger seq without the smaller; a
// rollback leaves no gap.
func TestA34SeqOrderIsCommitOrder(t *testing.T) {
	w := newWorld(t)
	w.users("a", "b")
	conv := w.group("c", "a", "b")
	conn := w.conn(t)
	for _, commit := range []bool{true, false} {
		before := w.see("b", "", conv).Head
		tx, err := conn.Begin(w.ctx)
		w.must(err)
		_, err = tx.Exec(w.ctx, `SELECT FROM conversations WHERE conv_id = 'c' FOR NO KEY UPDATE`)
		w.must(err)
		_, err = tx.Exec(w.ctx, `UPDATE conversations SET head = head + 1, message_ord = message_ord + 1, last_message_seq = head + 1 WHERE conv_id = 'c'`)
		w.must(err)
		_, err = tx.Exec(w.ctx, `UPDATE members SET sent_ord = sent_ord + 1 WHERE user_id = 'a' AND conv_id = 'c'`)
		w.must(err)
		_, err = tx.Exec(w.ctx, `INSERT INTO events (conv_id, seq, kind, sender, content_hash, body, message_ord, sender_ord, at)
			SELECT 'c', c.head, 1, 'a', '', 'x', c.message_ord, m.sent_ord, now() FROM conversations c, members m WHERE c.conv_id = 'c' AND m.user_id = 'a' AND m.conv_id = 'c'`)
		w.must(err)
		second := make(chan chat.Seq)
		go func() { second <- w.send(conv, "b", 1) }()
		w.waiting(t, 1)
		if head := w.see("b", "", conv).Head; head != before {
			t.Errorf("head is %d while nothing was committed after %d", head, before)
		}
		want := before + 1
		if commit {
			w.must(tx.Commit(w.ctx))
			want++
		} else {
			w.must(tx.Rollback(w.ctx))
		}
		if got := <-second; got != want {
			t.Errorf("the second got seq %d, want %d", got, want)
		}
	}
	w.noDeviations(t)
}

// TestA36AckInFlightDuringAReinstall: an ack of the old install that waits for
// another row's lock while the reinstall commits never shows in the new
// install's delivered.
func TestA36AckInFlightDuringAReinstall(t *testing.T) {
	w := newWorld(t)
	w.users("a", "b")
	d := w.device("b", "b1")
	var convs []chat.ConversationID
	for n := range 3 {
		conv := w.group(chat.ConversationID(fmt.Sprint("c", n)), "a", "b")
		w.send(conv, "a", 5)
		w.ack(d.ID, 0, conv, 1)
		convs = append(convs, conv)
	}
	_, _, err := w.RegisterInstall(w.ctx, d.ID, "old", 0)
	w.must(err)
	release := w.hold(t, `UPDATE device_cursors SET changed_xid = changed_xid WHERE device_id = 'b1' AND conv_id = 'c1'`)
	done := make(chan []store.AckResult)
	go func() {
		var reports []store.AckReport
		for _, c := range convs {
			reports = append(reports, store.AckReport{Device: d.ID, Conversation: c, Seq: 7})
		}
		results, err := w.Ack(w.ctx, reports)
		w.must(err)
		done <- results
	}()
	w.waiting(t, 1)
	_, reinstalled, err := w.RegisterInstall(w.ctx, d.ID, "new", 0)
	w.must(err)
	if !reinstalled {
		t.Fatal("not a reinstall")
	}
	release()
	for _, r := range <-done {
		if !errors.Is(r.Err, &chat.Error{Code: chat.StaleInstall}) {
			t.Errorf("the old ack was answered %+v, want STALE_INSTALL", r)
		}
	}
	for _, c := range convs {
		if got := w.see("b", d.ID, c).Delivered; got != 0 {
			t.Errorf("the new install holds %d of %s", got, c)
		}
	}
	if got := w.ack(d.ID, 1, "c1", 3); got.Delivered != 3 {
		t.Errorf("the new install acks 3: %+v", got)
	}
}

// TestA37AppendWaitsWhileItsSenderLeaves: it is refused, and the ordinals of the
// closed period stay right.
func TestA37AppendWaitsWhileItsSenderLeaves(t *testing.T) {
	for name, leave := range map[string]func(*world) error{
		"leaves":  func(w *world) error { _, err := w.Leave(w.ctx, "b", "c"); return err },
		"removed": func(w *world) error { _, err := w.RemoveMembers(w.ctx, "c", []chat.UserID{"b"}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.users("a", "b")
			conv := w.group("c", "a", "b")
			w.send(conv, "b", 2)
			release := w.hold(t, `SELECT FROM conversations WHERE conv_id = 'c' FOR NO KEY UPDATE`)
			left := make(chan error)
			go func() { left <- leave(w) }()
			w.waiting(t, 1)
			appended := make(chan store.Appended)
			go func() {
				r, err := w.Append(w.ctx, conv, []store.Draft{{Sender: "b", ClientMessageID: "late", Body: "x"}})
				w.must(err)
				appended <- r[0]
			}()
			w.waiting(t, 2)
			release()
			w.must(<-left)
			if r := <-appended; !errors.Is(r.Err, &chat.Error{Code: chat.NotMember}) {
				t.Errorf("the late append: %+v, want NOT_MEMBER", r)
			}
			w.noDeviations(t)
		})
	}
}

// TestA38OneClientMessageIdOnTwoProcesses: inside batches of others it gets one
// seq, both callers get it, and nobody else's message fails.
func TestA38OneClientMessageIdOnTwoProcesses(t *testing.T) {
	w := newWorld(t)
	w.users("a", "b")
	conv := w.group("c", "a", "b")
	other := openSecond(t, w)
	for round := range 20 {
		same := store.Draft{Sender: "a", ClientMessageID: fmt.Sprint("same", round), Body: "hello"}
		results := make([][]store.Appended, 2)
		var wg sync.WaitGroup
		for n, s := range []*store.Store{w.Store, other} {
			wg.Go(func() {
				batch := []store.Draft{{Sender: "b", ClientMessageID: fmt.Sprint("x", round, n), Body: "x"}, same,
					{Sender: "a", ClientMessageID: fmt.Sprint("y", round, n), Body: "y"}, same,
					{Sender: "stranger", ClientMessageID: "z", Body: "z"}}
				got, err := s.Append(w.ctx, conv, batch)
				w.must(err)
				results[n] = got
			})
		}
		wg.Wait()
		seq, fresh := results[0][1].Seq, 0
		for _, r := range results {
			for _, i := range []int{1, 3} {
				if r[i].Err != nil || r[i].Seq != seq {
					t.Errorf("the same message: %+v, want seq %d", r[i], seq)
				}
				if !r[i].Duplicate {
					fresh++
				}
			}
			if r[0].Err != nil || r[2].Err != nil {
				t.Errorf("somebody else's message failed: %+v %+v", r[0], r[2])
			}
			if !errors.Is(r[4].Err, &chat.Error{Code: chat.NotMember}) {
				t.Errorf("a stranger's message: %+v", r[4])
			}
		}
		if fresh != 1 {
			t.Errorf("%d first answers", fresh)
		}
	}
	w.noDeviations(t)
}

func openSecond(t *testing.T, w *world) *store.Store {
	t.Helper()
	s, err := store.Open(w.ctx, w.url, store.Options{})
	w.must(err)
	t.Cleanup(s.Close)
	return s
}

// TestA12EveryAnswerIsOneSnapshot: while messages and reads pour in, no answer
// shows unread > head − read, nor a badge that differs from the sum of its rows.
func TestA12EveryAnswerIsOneSnapshot(t *testing.T) {
	w := newWorld(t)
	w.users("a", "b")
	var convs []chat.ConversationID
	for n := range 3 {
		convs = append(convs, w.group(chat.ConversationID(fmt.Sprint("c", n)), "a", "b"))
	}
	ctx, stop := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	for _, conv := range convs {
		wg.Go(func() {
			for ctx.Err() == nil {
				seq := w.send(conv, "a", 1)
				if seq%3 == 0 {
					w.must(w.read("b", conv, seq-1).Err)
				}
				if seq%5 == 0 {
					_, err := w.Recall(w.ctx, "a", conv, seq)
					w.must(err)
				}
			}
		})
	}
	var version chat.Version
	for range 300 {
		sn, vw := w.view("b", "")
		page, err := vw.Inbox(w.ctx, store.InboxRange{First: 10})
		w.must(err)
		badge, err := vw.Badge(w.ctx)
		w.must(err)
		sn.Close()
		var sum int64
		for _, c := range page.Conversations {
			sum += c.UnreadMessages
			if c.UnreadMessages > int64(c.Head-c.Read) {
				t.Errorf("unread %d, head %d, read %d", c.UnreadMessages, c.Head, c.Read)
			}
		}
		if sum != int64(badge.Unread) {
			t.Errorf("badge %d, rows %d", badge.Unread, sum)
		}
		if badge.Version < version {
			t.Errorf("version went back from %d to %d", version, badge.Version)
		}
		version = badge.Version
	}
	stop()
	wg.Wait()
	w.noDeviations(t)
}

// TestConcurrentJoinsLeavesAndSends: whatever the order, the books balance.
func TestConcurrentJoinsLeavesAndSends(t *testing.T) {
	w := newWorld(t)
	people := []chat.UserID{"a", "b", "c", "d"}
	w.users(people...)
	conv := w.group("g", people...)
	var wg sync.WaitGroup
	for n, u := range people {
		wg.Go(func() {
			for k := range 25 {
				switch (n + k) % 4 {
				case 0:
					_, err := w.Leave(w.ctx, u, conv)
					w.must(err)
				case 1:
					_, err := w.AddMembers(w.ctx, conv, people, []chat.HistoryOnJoin{chat.HistoryMembership, chat.HistorySinceJoin}[k%2])
					w.must(err)
				case 2:
					if _, err := w.MarkRead(w.ctx, []store.ReadReport{{User: u, Conversation: conv, Seq: chat.Seq(k)}}); err != nil {
						w.must(err)
					}
				default:
					_, err := w.Append(w.ctx, conv, []store.Draft{{Sender: u, ClientMessageID: fmt.Sprint(n, "-", k), Body: "x"}})
					w.must(err)
				}
			}
		})
	}
	wg.Wait()
	w.noDeviations(t)
}

// TestCreateConversationAtOnce: one conversation for one pair, however many ask.
func TestCreateConversationAtOnce(t *testing.T) {
	w := newWorld(t)
	w.users("a", "b")
	ids := make([]chat.ConversationID, 8)
	created := make([]bool, len(ids))
	var wg sync.WaitGroup
	for n := range ids {
		wg.Go(func() {
			members := []chat.UserID{"a", "b"}
			if n%2 == 1 {
				members = []chat.UserID{"b", "a"}
			}
			var err error
			ids[n], created[n], err = w.CreateConversation(w.ctx, store.NewConversation{ID: chat.ConversationID(fmt.Sprint("d", n)), Kind: chat.Direct, Members: members})
			w.must(err)
		})
	}
	wg.Wait()
	news := 0
	for n := range ids {
		if ids[n] != ids[0] {
			t.Errorf("two conversations of one pair: %s and %s", ids[n], ids[0])
		}
		if created[n] {
			news++
		}
	}
	if news != 1 {
		t.Errorf("%d callers created it", news)
	}
	w.noDeviations(t)
}

// noDeviations verifies the whole database.
func (w *world) noDeviations(t *testing.T) {
	t.Helper()
	_, err := w.Verify(w.ctx, func(d store.Deviation) { t.Error(d) })
	w.must(err)
}

// TestAppendNeedsTheLock: a conversation that is created between the statement
// that locks and the one that looks is not written: its row was not locked.
func TestAppendNeedsTheLock(t *testing.T) {
	w := newWorld(t)
	w.users("a", "b")
	attempt := func(between func()) (seq chat.Seq) {
		tx, err := w.conn(t).Begin(w.ctx)
		w.must(err)
		defer func() { w.must(tx.Commit(w.ctx)) }()
		_, err = tx.Exec(w.ctx, store.SQLLockForAppend, "c")
		w.must(err)
		between()
		rows, err := tx.Query(w.ctx, store.SQLAppend, "c", []string{"a"}, []string{"m"}, [][]byte{{1}}, []string{"x"}, []bool{false}, []*int64{nil}, []*int32{nil}, []int{}, []string{})
		w.must(err)
		values, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
		w.must(err)
		return chat.Seq(values[1].(int64))
	}
	if seq := attempt(func() { w.group("c", "a", "b") }); seq != 0 {
		t.Errorf("written unlocked, at %d", seq)
	}
	if seq := attempt(func() {}); seq != 3 {
		t.Errorf("with the lock: seq %d, want 3", seq)
	}
	w.noDeviations(t)
}
