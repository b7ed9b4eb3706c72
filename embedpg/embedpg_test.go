package embedpg

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dirFor is a directory that an unprivileged user can enter.
func dirFor(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tidemark-embedpg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

func startIn(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Config{Dir: dir, Throwaway: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	answers(t, s)
	return s
}

func answers(t *testing.T, s *Server) {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Join(s.socket, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestStartStopStart(t *testing.T) {
	dir := dirFor(t, "data dir with a space") // and the URL must survive it
	s := startIn(t, dir)
	if strings.ContainsAny(s.URL(), " +") {
		t.Errorf("URL %s", s.URL())
	}
	if url, ok := Running(dir); !ok || url != s.URL() {
		t.Errorf("Running: %s %v", url, ok)
	}
	if _, err := Start(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second server: %v", err)
	}
	for path, want := range map[string]os.FileMode{"socket": 0o700, "data": 0o700} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	s.Stop()
	if _, ok := Running(dir); ok {
		t.Error("it runs after Stop")
	}
	startIn(t, dir)
}

func TestOddPathsGetASocketElsewhere(t *testing.T) {
	for _, name := range []string{strings.Repeat("long", 30), "a,comma"} {
		dir := dirFor(t, name)
		s := startIn(t, dir)
		socket := s.socket
		if _, ok := Running(dir); !ok {
			t.Errorf("%s: not found running", name)
		}
		s.Stop()
		if _, err := os.Stat(socket); !os.IsNotExist(err) {
			t.Errorf("the temporary socket directory is left: %v", err)
		}
	}
}

// TestTheLogOfTheLastRunIsKept: it says why that one ended.
func TestTheLogOfTheLastRunIsKept(t *testing.T) {
	dir := dirFor(t, "data")
	startIn(t, dir).Stop()
	startIn(t, dir).Stop()
	if b, err := os.ReadFile(filepath.Join(dir, "postgres.log.1")); err != nil || !strings.Contains(string(b), "shut down") {
		t.Errorf("%q %v", b, err)
	}
}

// TestABusyBackendOfTheLastRun: the server and the postmaster were killed, a
// backend still runs; the next start waits for it.
func TestABusyBackendOfTheLastRun(t *testing.T) {
	s := startIn(t, dirFor(t, "data"))
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Fatal("psql was not found; it comes with PostgreSQL")
	}
	busy := exec.Command(psql, s.URL(), "-c", "SELECT count(*) FROM generate_series(1, 8000000)")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	s.process.cmd.Process.Kill()
	<-s.process.done
	s.Stop()
	startIn(t, s.dir)
	_ = busy.Wait() // its connection was cut
}

// TestACrashLeavesNothingThatBlocks: the postmaster was killed, its pid file is
// left, and the pid is somebody else's by now.
func TestACrashLeavesNothingThatBlocks(t *testing.T) {
	dir := dirFor(t, "data")
	s := startIn(t, dir)
	pidFile := filepath.Join(s.data(), "postmaster.pid")
	content, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	s.process.cmd.Process.Kill()
	<-s.process.done
	s.Stop()
	stranger := exec.Command("sleep", "100")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stranger.Process.Kill(); stranger.Wait() }()
	lines := strings.SplitN(string(content), "\n", 2)
	// Wait until the killed server's own backends are gone: PostgreSQL refuses while they use its memory.
	time.Sleep(500 * time.Millisecond)
	if err := os.WriteFile(pidFile, []byte(fmt.Sprint(stranger.Process.Pid, "\n", lines[1])), 0o600); err != nil {
		t.Fatal(err)
	}
	if account, err := accountFor(s.data()); err == nil && account != nil {
		if err := os.Chown(pidFile, int(account.Uid), int(account.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := Running(dir); ok {
		t.Error("a stranger's process passes for a server")
	}
	startIn(t, dir)
}

func TestAnInterruptedInitdbIsStartedAnew(t *testing.T) {
	dir := dirFor(t, "data")
	if err := os.MkdirAll(filepath.Join(dir, "data.new"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data.new", "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	startIn(t, dir)
}

func TestAnyUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	startIn(t, dirFor(t, "data"))
}

// TestTheOwnerOfTheDataStaysTheOwner: root may start what an ordinary user made,
// and takes nothing away from them.
func TestTheOwnerOfTheDataStaysTheOwner(t *testing.T) {
	dir := dirFor(t, "data")
	startIn(t, dir).Stop()
	owner := func(path string) uint32 {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Uid
	}
	want := uint32(os.Geteuid())
	if want == 0 {
		want = 65534
		if err := exec.Command("chown", "-R", "65534:65534", dir).Run(); err != nil {
			t.Fatal(err)
		}
	}
	startIn(t, dir).Stop()
	for _, path := range []string{"data", "socket"} {
		if got := owner(path); got != want {
			t.Errorf("%s belongs to %d, want %d", path, got, want)
		}
	}
}

func TestBinariesThatAreNotThere(t *testing.T) {
	if _, err := Start(t.Context(), Config{Dir: dirFor(t, "data"), BinDir: "/nowhere"}); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Error(err)
	}
	dir := dirFor(t, "data")
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "needs PostgreSQL 9") {
		t.Error(err)
	}
}
