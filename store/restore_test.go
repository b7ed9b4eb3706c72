package store_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/embedpg"
	"tidemark/store"
	"tidemark/storetest"
)

// ownServer is a PostgreSQL of the test's own, with a migrated database in it.
func ownServer(t *testing.T) (dir string, server *embedpg.Server) {
	t.Helper()
	dir, err := os.MkdirTemp("", "tidemark-restore-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // as root, PostgreSQL runs as another user
		t.Fatal(err)
	}
	server = startIn(t, dir)
	if err := store.Migrate(context.Background(), server.URL()); err != nil {
		t.Fatal(err)
	}
	return dir, server
}

func startIn(t *testing.T, dir string) *embedpg.Server {
	t.Helper()
	server, err := embedpg.Start(context.Background(), embedpg.Config{Dir: dir, BinDir: os.Getenv("TIDEMARK_POSTGRES_BIN"), Throwaway: true})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// over opens a store of the database and closes it again after do.
func over(t *testing.T, url string, ids *world, do func(w *world)) {
	t.Helper()
	s, err := store.Open(context.Background(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	do(&world{s, t, url, context.Background(), ids.ids, nil})
}

// syncToken makes a token for a device of b.
func (w *world) syncToken() string {
	w.t.Helper()
	sn, vw := w.view("b", "b1")
	defer sn.Close()
	token, err := vw.SyncToken(w.ctx)
	w.must(err)
	return token
}

// changes is "resync", or how many conversations changed since the token.
func (w *world) changes(token string) string {
	w.t.Helper()
	sn, vw := w.view("b", "b1")
	defer sn.Close()
	page, err := vw.Changes(w.ctx, token, 100)
	w.must(err)
	if page.Resync {
		return "resync"
	}
	return fmt.Sprint(len(page.Changed))
}

func (w *world) expectChanges(what, token, want string) {
	w.t.Helper()
	if got := w.changes(token); got != want {
		w.t.Fatalf("%s: %s, want %s", what, got, want)
	}
}

func (w *world) pair() {
	w.t.Helper()
	w.users("a", "b")
	w.device("b", "b1")
	w.group("c", "a", "b")
	w.send("c", "a", 3)
}

// TestA39AfterARestore: a token from the state that was lost is a resync, also
// where nobody says that there was a restore; tidemark restored ends all tokens,
// since transaction numbers will be given again, and begins new epochs.
func TestA39AfterARestore(t *testing.T) {
	t.Parallel()
	ids := newWorld(t)
	dir, server := ownServer(t)
	var before, lost string
	over(t, server.URL(), ids, func(w *world) {
		w.pair()
		before = w.syncToken()
	})
	server.Stop()
	copyDir(t, filepath.Join(dir, "data"), filepath.Join(dir, "backup"))
	server = startIn(t, dir)
	over(t, server.URL(), ids, func(w *world) {
		w.send("c", "a", 20)
		lost = w.syncToken()
		w.expectChanges("before the restore", before, "1")
		w.expectChanges("nothing is new", lost, "0")
	})
	server.Stop()
	if err := os.RemoveAll(filepath.Join(dir, "data")); err != nil {
		t.Fatal(err)
	}
	copyDir(t, filepath.Join(dir, "backup"), filepath.Join(dir, "data"))
	server = startIn(t, dir)
	t.Cleanup(server.Stop)
	over(t, server.URL(), ids, func(w *world) {
		w.expectChanges("from a future that never came", lost, "resync")
		w.expectChanges("from before the backup", before, "0")
		epoch := w.see("b", "b1", "c").Epoch
		n, err := w.Restored(w.ctx)
		w.must(err)
		if n != 1 || w.see("b", "b1", "c").Epoch != epoch+1 {
			t.Errorf("restored: %d conversations, epoch %d after %d", n, w.see("b", "b1", "c").Epoch, epoch)
		}
		w.expectChanges("after restored", lost, "resync")
		w.expectChanges("after restored", before, "resync")
		fresh := w.syncToken()
		w.expectChanges("a new token", fresh, "0")
		w.send("c", "a", 1)
		w.expectChanges("a new token", fresh, "1")
		w.noDeviations(t)
	})
}

// TestA39AfterACrash: a crash of PostgreSQL may give the number of a transaction
// that was rolled back to another one. Tokens from before it end; a clean restart
// ends none.
func TestA39AfterACrash(t *testing.T) {
	t.Parallel()
	ids := newWorld(t)
	dir, server := ownServer(t)
	var token string
	over(t, server.URL(), ids, func(w *world) {
		w.pair()
		token = w.syncToken()
	})
	server.Stop()
	server = startIn(t, dir)
	over(t, server.URL(), ids, func(w *world) {
		w.expectChanges("after a clean restart", token, "0")
		_, err := w.Recall(w.ctx, "b", "c", 1) // refused, which takes a number
		if err == nil {
			t.Fatal("recalled a join")
		}
		token = w.syncToken()
	})
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var postmaster int
	if _, err := fmt.Sscan(string(pid), &postmaster); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(postmaster, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	<-server.Exited()
	server.Stop()
	server = startIn(t, dir)
	t.Cleanup(server.Stop)
	over(t, server.URL(), ids, func(w *world) {
		w.send("c", "a", 1)
		w.expectChanges("after a crash", token, "resync")
		w.expectChanges("a new one", w.syncToken(), "0")
	})
}

// TestR81ReadBeyondHeadAfterARestore: a position that a lost state left behind
// never makes unread negative, and verify names it.
func TestR81ReadBeyondHeadAfterARestore(t *testing.T) {
	w := newWorld(t)
	w.pair()
	_, err := w.conn(t).Exec(w.ctx, `INSERT INTO read_positions (user_id, conv_id, read_seq, read_ord, read_own, seen_seq, mention_seq) VALUES ('b', 'c', 1000, 990, 5, 1000, 1000)`)
	w.must(err)
	if got := w.unread("b", "c"); got != 0 {
		t.Errorf("unread %d", got)
	}
	named := false
	_, err = w.Verify(w.ctx, func(d store.Deviation) { named = named || d.Rule == "M2" && d.Subject == "user b" })
	w.must(err)
	if !named {
		t.Error("verify does not name it")
	}
}

// TestA39OnAPromotedStandby: a standby that was promoted gives the numbers of
// transactions it never saw to others, so that tokens of the old primary end.
func TestA39OnAPromotedStandby(t *testing.T) {
	t.Parallel()
	ids := newWorld(t)
	dir, primary := ownServer(t)
	var bin string
	over(t, primary.URL(), ids, func(w *world) {
		w.pair()
		w.must(w.conn(t).QueryRow(w.ctx, `SELECT setting FROM pg_config WHERE name = 'BINDIR'`).Scan(&bin))
	})
	standby := filepath.Join(dir, "standby")
	owner := ownerOf(t, filepath.Join(dir, "data"))
	for _, d := range []string{standby, filepath.Join(standby, "data")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if owner != nil {
			if err := os.Chown(d, int(owner.Uid), int(owner.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	backup := command(owner, filepath.Join(bin, "pg_basebackup"), "-D", filepath.Join(standby, "data"), "-d", primary.URL(), "-R", "-X", "stream", "-c", "fast")
	if out, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// It follows for a while; what comes after it was stopped is lost to it.
	url, stop := runStandby(t, owner, bin, standby)
	var followed, lost string
	over(t, primary.URL(), ids, func(w *world) {
		w.send("c", "a", 2)
		followed = w.syncToken()
		eventually(t, "the standby follows", func() bool { return headAt(url) == 7 })
	})
	stop()
	over(t, primary.URL(), ids, func(w *world) {
		w.send("c", "a", 30)
		lost = w.syncToken()
		w.expectChanges("on the primary", followed, "1")
	})
	primary.Stop()
	url, stop = runStandby(t, owner, bin, standby)
	defer stop()
	conn := storetest.Conn(t, url)
	if _, err := conn.Exec(context.Background(), `SELECT pg_promote()`); err != nil {
		t.Fatal(err)
	}
	conn.Close(context.Background())
	over(t, url, ids, func(w *world) {
		if head := w.see("b", "b1", "c").Head; head != 7 {
			t.Fatalf("the promoted one has head %d", head)
		}
		w.expectChanges("what the standby had seen", followed, "resync")
		w.expectChanges("what it had not", lost, "resync")
		fresh := w.syncToken()
		w.send("c", "a", 40) // beyond the numbers of the lost ones
		w.expectChanges("a token of its own", fresh, "1")
		w.expectChanges("and still", lost, "resync")
		w.noDeviations(t)
	})
}

// runStandby runs PostgreSQL on a copy until stop.
func runStandby(t *testing.T, owner *syscall.Credential, bin, dir string) (url string, stop func()) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(owner, filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-k", dir, "-c", "listen_addresses=", "-c", "port=5432", "-c", "max_connections=200", "-c", "fsync=off")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait() // its exit code says nothing that matters here
		log.Close()
	}
	t.Cleanup(stop)
	url = "postgres:///postgres?user=tidemark&host=" + dir
	eventually(t, "the standby answers", func() bool { return headAt(url) > 0 })
	return url, stop
}

// headAt is the head of conversation c on a server; -1 while it does not answer.
func headAt(url string) (head int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return -1
	}
	defer conn.Close(ctx)
	if conn.QueryRow(ctx, `SELECT head FROM conversations WHERE conv_id = 'c'`).Scan(&head) != nil {
		return -1
	}
	return head
}

func eventually(t *testing.T, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !true(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// ownerOf is who must run PostgreSQL on the data when we are root; else nil.
func ownerOf(t *testing.T, data string) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}
}

func command(as *syscall.Credential, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	return cmd
}
