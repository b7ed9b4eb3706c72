// Package embedpg runs a private PostgreSQL from binaries that are installed on
// the machine. It listens on a Unix socket in a directory that only its own user
// can enter, never on the network, and ends with the process that started it,
// also if that one is killed.
package embedpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config says where a server lives.
type Config struct {
	// Dir holds everything: the data, the socket, the log. It is created if need
	// be and kept afterwards.
	Dir string
	// BinDir is where initdb and postgres are; empty searches PATH and the usual places.
	BinDir string
	// Throwaway trades durability for speed: fsync is off. For tests only.
	Throwaway bool
}

// Server is a running PostgreSQL.
type Server struct {
	dir, socket string
	lock        *os.File
	process     *process
}

const superuser = "tidemark"

// Start initialises the data directory if it is new, starts PostgreSQL and
// waits until it answers. As root, PostgreSQL runs as an unprivileged user. It
// fails at once if another process uses the directory, and waits for a server
// that is still shutting down after its owner was killed.
func Start(ctx context.Context, c Config) (_ *Server, err error) {
	bin, err := findBinaries(c.BinDir, filepath.Join(c.Dir, "data"))
	if err != nil {
		return nil, err
	}
	s := &Server{dir: c.Dir}
	account, err := unprivileged()
	if err != nil {
		return nil, err
	}
	if err := s.claim(account); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	data := s.data()
	if _, statErr := os.Stat(filepath.Join(data, "PG_VERSION")); errors.Is(statErr, os.ErrNotExist) {
		if err := initialise(ctx, bin, data, account); err != nil {
			return nil, err
		}
	}
	if err := waitForPredecessor(ctx, data); err != nil {
		return nil, err
	}
	if s.process, err = s.launch(bin, data, c.Throwaway, account); err != nil {
		return nil, err
	}
	if err := s.waitUntilReady(ctx); err != nil {
		s.process.stop()
		return nil, fmt.Errorf("the private PostgreSQL did not start: %w\n%s", err, s.logTail())
	}
	return s, nil
}

// Running is the URL of the server that another process runs in dir, if one does.
func Running(dir string) (string, bool) {
	s := &Server{dir: dir}
	pid, ready := postmaster(s.data())
	if !ready || syscall.Kill(pid, 0) == syscall.ESRCH {
		return "", false
	}
	s.socket = socketOf(s.data())
	return s.URL(), s.socket != ""
}

// URL is where the server's database is.
func (s *Server) URL() string { return s.Database("postgres") }

// Database is the URL of another database of the same server.
func (s *Server) Database(name string) string {
	return "postgres:///" + name + "?host=" + url.QueryEscape(s.socket) + "&user=" + superuser
}

// Exited is closed when PostgreSQL has ended, whoever ended it.
func (s *Server) Exited() <-chan struct{} { return s.process.done }

// Stop shuts the server down, ending its connections, and waits for its end.
func (s *Server) Stop() {
	s.process.stop()
	s.release()
}

// claim makes the directory and takes the lock that says it is ours.
func (s *Server) claim(account *syscall.Credential) error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return fmt.Errorf("the data directory cannot be made: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("the data directory cannot be used: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return fmt.Errorf("the data directory %s is in use by another process; stop it, or choose another directory", s.dir)
	}
	s.lock = lock
	// A socket's path must stay below 108 bytes.
	s.socket = filepath.Join(s.dir, "socket")
	if abs, err := filepath.Abs(s.socket); err == nil {
		s.socket = abs
	}
	if len(s.socket) > 90 {
		if s.socket, err = os.MkdirTemp("", "tidemark-pg-"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(s.socket, 0o700); err != nil {
		return err
	}
	return own(s.socket, account)
}

func (s *Server) release() {
	if !strings.HasPrefix(s.socket, s.dir) {
		os.RemoveAll(s.socket)
	}
	s.lock.Close()
}

func initialise(ctx context.Context, bin, data string, account *syscall.Credential) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	if err := own(data, account); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"),
		"-D", data, "-U", superuser, "-A", "trust", "-E", "UTF8", "--no-locale")
	cmd.Dir = data
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
	if out, err := cmd.CombinedOutput(); err != nil {
		// A half-made directory would pass for a whole one next time.
		os.RemoveAll(data)
		return fmt.Errorf("initdb failed in %s (can the user that PostgreSQL runs as enter every directory above it?): %w\n%s",
			data, err, bytes.TrimSpace(out))
	}
	return nil
}

// waitForPredecessor waits while a postmaster is still ending in this directory.
// The lock is ours, so its owner is gone.
func waitForPredecessor(ctx context.Context, data string) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		pid, _ := postmaster(data)
		if pid == 0 || syscall.Kill(pid, 0) == syscall.ESRCH {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("a PostgreSQL that was left behind (process %d) still uses %s; stop it with: kill -INT %d", pid, data, pid)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// postmaster reads postmaster.pid: the process id on its first line (0 if there
// is no file), and on its eighth whether connections are accepted.
func postmaster(data string) (pid int, ready bool) {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	lines := strings.Split(string(b), "\n")
	pid, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	return pid, len(lines) > 7 && strings.TrimSpace(lines[7]) == "ready"
}

// socketOf reads from postmaster.pid, on its fifth line, where the socket is.
func socketOf(data string) string {
	b, _ := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	lines := strings.Split(string(b), "\n")
	if len(lines) < 5 {
		return ""
	}
	return strings.TrimSpace(lines[4])
}

func (s *Server) launch(bin, data string, throwaway bool, account *syscall.Credential) (*process, error) {
	logFile, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	args := []string{"-D", data, "-k", s.socket,
		"-c", "listen_addresses=", "-c", "max_connections=200", "-c", "unix_socket_permissions=0700"}
	if throwaway {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off")
	}
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	cmd.Dir = data
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
	return start(cmd)
}

func (s *Server) waitUntilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		if pid, ready := postmaster(s.data()); ready && pid == s.process.cmd.Process.Pid {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.process.done:
			return errors.New("it ended while starting")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) logPath() string { return filepath.Join(s.dir, "postgres.log") }

func (s *Server) logTail() string {
	b, _ := os.ReadFile(s.logPath())
	return string(b[max(0, len(b)-2000):])
}
