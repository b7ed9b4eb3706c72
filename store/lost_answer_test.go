package store_test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"tidemark/chat"
	"tidemark/store"
)

// leakyWire stands between a store and PostgreSQL. Armed, it lets one message
// through, waits for its answer, and drops both the answer and the connection:
// the outcome of what was being committed is then unknown to the store.
type leakyWire struct {
	listener net.Listener
	server   string

	mu      sync.Mutex
	armed   []byte // what the message must contain; nil: not armed
	dropped int
	conns   map[net.Conn]struct{}
}

// behindLeakyWire opens a store with one connection through a leaky wire.
func behindLeakyWire(t *testing.T, w *world) (*world, *leakyWire) {
	t.Helper()
	target, err := url.Parse(w.url)
	w.must(err)
	dir, err := os.MkdirTemp("", "tidemark-wire-")
	w.must(err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	w.must(err)
	l := &leakyWire{listener: listener, server: filepath.Join(target.Query().Get("host"), ".s.PGSQL.5432"), conns: map[net.Conn]struct{}{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { l.carry(client) })
		}
	})
	query := target.Query()
	query.Set("host", dir)
	target.RawQuery = query.Encode()
	s, err := store.Open(context.Background(), target.String(), store.Options{Connections: 1})
	w.must(err)
	t.Cleanup(func() {
		s.Close()
		listener.Close()
		l.mu.Lock()
		for c := range l.conns {
			c.Close()
		}
		l.mu.Unlock()
		serving.Wait()
	})
	return &world{s, w.t, w.url, w.ctx, w.ids, nil}, l
}

// arm drops the answer to the next message that contains this.
func (l *leakyWire) arm(containing string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed, l.dropped = []byte(containing), 0
}

func (l *leakyWire) carry(client net.Conn) {
	server, err := net.Dial("unix", l.server)
	if err != nil {
		client.Close()
		return
	}
	l.mu.Lock()
	l.conns[client], l.conns[server] = struct{}{}, struct{}{}
	l.mu.Unlock()
	defer client.Close()
	defer server.Close()
	drop := make(chan struct{})
	var answers sync.WaitGroup
	answers.Go(func() {
		defer client.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil {
				return
			}
			select {
			case <-drop:
				return
			default:
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			break
		}
		l.mu.Lock()
		if l.armed != nil && bytes.Contains(buffer[:n], l.armed) {
			l.armed = nil
			l.dropped++
			close(drop)
		}
		l.mu.Unlock()
		if _, err := server.Write(buffer[:n]); err != nil {
			break
		}
	}
	server.Close()
	answers.Wait()
}

// TestLostAnswers: a write whose answer was lost after its commit is repeated.
// It is written once, and its caller learns that something changed, since nobody
// was told of it yet.
func TestLostAnswers(t *testing.T) {
	direct := newWorld(t)
	direct.users("a", "b")
	conv := direct.group("c", "a", "b")
	direct.device("b", "b1")
	w, wire := behindLeakyWire(t, direct)
	install := func(id string, known int32) (reinstalled bool) {
		_, reinstalled, err := w.RegisterInstall(w.ctx, "b1", id, known)
		w.must(err)
		return reinstalled
	}
	// Each statement once, so that it is prepared and the next message is its run.
	w.send(conv, "a", 3)
	w.must(w.read("b", conv, 3).Err)
	install("one", 0)
	w.ack("b1", 0, conv, 3)

	lose := func(what, containing string, do func()) {
		t.Helper()
		wire.arm(containing)
		do()
		wire.mu.Lock()
		defer wire.mu.Unlock()
		if wire.dropped != 1 {
			t.Errorf("%s: %d answers were lost, want 1", what, wire.dropped)
		}
	}
	lose("append", "lost", func() {
		r, err := w.Append(w.ctx, conv, []store.Draft{{Sender: "a", ClientMessageID: "lost", Body: "x"}})
		w.must(err)
		if r[0].Err != nil || r[0].Seq != 6 || r[0].Duplicate {
			t.Errorf("append: %+v, want seq 6 and no duplicate", r[0])
		}
	})
	if head := direct.see("b", "", conv).Head; head != 6 {
		t.Errorf("head %d after one message", head)
	}
	w.must(w.read("b", conv, 3).Err) // prepared on the new connection
	lose("markRead", "", func() {
		if r := w.read("b", conv, 5); r.Err != nil || r.Read != 5 || !r.Moved {
			t.Errorf("markRead: %+v, want read 5 that moved", r)
		}
	})
	w.ack("b1", 0, conv, 3)
	lose("ack", "", func() {
		if r := w.ack("b1", 0, conv, 6); r.Err != nil || r.Delivered != 6 {
			t.Errorf("ack: %+v, want delivered 6", r)
		}
	})
	install("one", 0)
	lose("registerInstall", "two", func() {
		if !install("two", 0) {
			t.Error("registerInstall: this call was the reinstall")
		}
	})
	if install("two", 1) {
		t.Error("registerInstall: the same install again is none")
	}
	lose("recall", "commit", func() {
		if changed, err := w.Recall(w.ctx, "a", conv, 4); err != nil || !changed {
			t.Errorf("recall: %v %v, want changed", changed, err)
		}
	})
	seq := chat.Seq(3)
	lose("markUnread", "commit", func() {
		if after, err := w.MarkUnread(w.ctx, "b", conv, store.Unreading{From: &seq, Expected: 5}); err != nil || after.Read != 2 || after.Revision != 1 {
			t.Errorf("markUnread: %+v %v, want read 2 at revision 1", after, err)
		}
	})
	lose("the reminder", "commit", func() {
		if after, err := w.MarkUnread(w.ctx, "b", conv, store.Unreading{}); err != nil || !after.MarkedUnread || after.Revision != 2 {
			t.Errorf("the reminder: %+v %v, want revision 2", after, err)
		}
	})
	_, err := w.ReadEverything(w.ctx, "a", true)
	w.must(err)
	lose("markAllRead", "", func() {
		if changed, err := w.ReadEverything(w.ctx, "b", true); err != nil || len(changed) != 1 {
			t.Errorf("markAllRead: %v %v, want one", changed, err)
		}
	})
	lose("edit", "commit", func() {
		if changed, err := w.Edit(w.ctx, "a", conv, 3, store.Edit{Body: "edited"}); err != nil || !changed {
			t.Errorf("edit: %v %v, want changed", changed, err)
		}
	})
	lose("take down", "commit", func() {
		if changed, err := w.TakeDown(w.ctx, conv, 5); err != nil || !changed {
			t.Errorf("take down: %v %v, want changed", changed, err)
		}
	})
	notice := "once"
	lose("notice", "commit", func() {
		if appended, err := w.PostNotice(w.ctx, conv, "line", &notice); err != nil || !appended {
			t.Errorf("notice: %v %v, want appended", appended, err)
		}
	})
	lose("update", "commit", func() {
		if changed, err := w.UpdateConversation(w.ctx, conv, store.ConversationChange{Retitle: true, Title: &notice}); err != nil || !changed.Title {
			t.Errorf("update: %v %v, want a title", changed, err)
		}
	})
	lose("settings", "commit", func() {
		yes := true
		if changed, err := w.UpdateSettings(w.ctx, "b", conv, store.Settings{Archived: &yes}); err != nil || !changed {
			t.Errorf("settings: %v %v, want changed", changed, err)
		}
	})
	_, err = w.SetReadSharing(w.ctx, "a", true)
	w.must(err)
	lose("sharing", "", func() {
		if where, err := w.SetReadSharing(w.ctx, "b", false); err != nil || len(where) != 1 {
			t.Errorf("sharing: %v %v, want one", where, err)
		}
	})
	lose("remove", "commit", func() {
		removed, err := w.RemoveMembers(w.ctx, conv, []chat.UserID{"b"})
		if w.must(err); len(removed) != 1 || removed[0] != "b" {
			t.Errorf("remove: %v, want b", removed)
		}
	})
	lose("leave", "commit", func() {
		if left, err := w.Leave(w.ctx, "a", conv); err != nil || !left {
			t.Errorf("leave: %v %v, want left", left, err)
		}
	})
	if head := direct.see("a", "", conv).Head; head != 12 {
		t.Errorf("head %d, want one event for each of recall, edit, notice, title, remove and leave: 12", head)
	}
	lose("erase", "commit", func() {
		if erased, err := w.EraseUser(w.ctx, "a"); err != nil || len(erased.Ever) != 1 || len(erased.Left) != 1 {
			t.Errorf("erase: %+v %v, want one conversation", erased, err)
		}
	})
	lose("forget", "commit", func() {
		if through, err := w.ForgetMessages(w.ctx, "a", chat.MessageKey{}); err != nil || through == nil || through.Seq < 6 {
			t.Errorf("forget: %v %v, want to seq 6", through, err)
		}
	})
	w.forget("a")
	direct.noDeviations(t)
}
