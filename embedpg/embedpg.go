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
	"net"
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
	temporary   bool // the socket's directory is ours to remove
	lock        *os.File
	process     *process
}

const superuser = "tidemark"

// Start initialises the data directory if it is new, starts PostgreSQL and
// waits until it answers. As root, PostgreSQL runs as the owner of the data, or
// as an unprivileged user if there is none yet. It fails at once if another
// process uses the directory, and waits for a server that is still shutting down
// after its owner was killed.
func Start(ctx context.Context, c Config) (_ *Server, err error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	bin, err := findBinaries(c.BinDir, s.data())
	if err != nil {
		return nil, err
	}
	account, err := accountFor(s.data())
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
	if _, statErr := os.Stat(s.data()); errors.Is(statErr, os.ErrNotExist) {
		if err := s.initialise(ctx, bin, account); err != nil {
			return nil, err
		}
	}
	// The log of the last run says why it ended.
	if err := os.Rename(s.logPath(), s.logPath()+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return s, s.launch(ctx, bin, c.Throwaway, account)
}

// Running is the URL of the server that another process runs in dir, if one
// answers there.
func Running(dir string) (string, bool) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", false
	}
	s := &Server{dir: dir}
	file := readPostmaster(s.data())
	if !file.ready || file.socket == "" {
		return "", false
	}
	s.socket = file.socket
	conn, err := net.DialTimeout("unix", filepath.Join(s.socket, ".s.PGSQL.5432"), time.Second)
	if err != nil {
		return "", false
	}
	return s.URL(), conn.Close() == nil
}

// URL is where the server's database is.
func (s *Server) URL() string { return s.Database("postgres") }

// Database is the URL of another database of the same server.
func (s *Server) Database(name string) string {
	// A space must not become a plus sign, which a URL's reader takes literally here.
	host := strings.ReplaceAll(url.QueryEscape(s.socket), "+", "%20")
	return "postgres:///" + name + "?host=" + host + "&user=" + superuser
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
	if err := s.makeDir(account); err != nil {
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
	// Both PostgreSQL and its clients take a comma for the end of a path.
	if len(s.socket) > 90 || strings.Contains(s.socket, ",") {
		s.socket, err = os.MkdirTemp("", "tidemark-pg-")
		s.temporary = err == nil
	} else {
		err = os.MkdirAll(s.socket, 0o700)
	}
	if err == nil {
		err = own(s.socket, account)
	}
	if err != nil {
		s.release()
	}
	return err
}

// makeDir makes the directory. PostgreSQL's user must be able to enter it,
// whatever the umask.
func (s *Server) makeDir(account *syscall.Credential) error {
	if _, err := os.Stat(s.dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if account == nil {
		return os.Chmod(s.dir, 0o700)
	}
	return os.Chmod(s.dir, 0o755)
}

func (s *Server) release() {
	if s.temporary {
		os.RemoveAll(s.socket)
	}
	s.lock.Close()
}

// initialise makes the data in a directory of another name and renames it when
// it is whole, so that an interruption leaves nothing that passes for data.
func (s *Server) initialise(ctx context.Context, bin string, account *syscall.Credential) error {
	fresh := s.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	if err := own(fresh, account); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(bin, "initdb"), "-D", fresh, "-U", superuser, "-A", "trust", "-E", "UTF8", "--no-locale")
	cmd.Dir = fresh
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
	p, err := start(cmd)
	if err == nil {
		select {
		case <-p.done:
			err = p.err
		case <-ctx.Done():
			p.stop()
			return ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("initdb failed in %s (can the user that PostgreSQL runs as enter every directory above it?): %w\n%s",
			fresh, err, bytes.TrimSpace(out.Bytes()))
	}
	return os.Rename(fresh, s.data())
}

// postmasterFile is what a postmaster writes about itself into its data directory.
type postmasterFile struct {
	pid    int
	socket string // the directory of its socket
	ready  bool   // it accepts connections
}

// readPostmaster reads postmaster.pid: the process id stands on the first line,
// the socket's directory on the fifth, the state on the eighth.
func readPostmaster(data string) (f postmasterFile) {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return f
	}
	lines := strings.Split(string(b), "\n")
	f.pid, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	if len(lines) > 7 {
		f.socket, f.ready = strings.TrimSpace(lines[4]), strings.TrimSpace(lines[7]) == "ready"
	}
	return f
}

const (
	startTimeout = 60 * time.Second
	// predecessorTimeout is how long a postmaster whose owner was killed may take
	// to end.
	predecessorTimeout = 30 * time.Second
)

// launch starts PostgreSQL and waits until it answers. It is PostgreSQL that
// judges whether an older one still runs on the data: while it says so, we try
// again, since our lock tells that nobody else wants it.
func (s *Server) launch(ctx context.Context, bin string, throwaway bool, account *syscall.Credential) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for began := time.Now(); ; {
		err := s.launchOnce(ctx, bin, throwaway, account)
		if err == nil {
			return nil
		}
		tail := s.logTail()
		if !predecessorRuns(tail) || time.Since(began) > predecessorTimeout {
			return fmt.Errorf("the private PostgreSQL did not start: %w\n%s", err, tail)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// predecessorRuns recognises how PostgreSQL says that an older one is still
// ending: its postmaster, or a backend that is busy.
func predecessorRuns(log string) bool {
	return strings.Contains(log, `lock file "postmaster.pid" already exists`) || strings.Contains(log, "pre-existing shared memory block")
}

func (s *Server) launchOnce(ctx context.Context, bin string, throwaway bool, account *syscall.Credential) error {
	logFile, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()
	args := []string{"-D", s.data(), "-k", s.socket,
		"-c", "listen_addresses=", "-c", "port=5432", "-c", "max_connections=200", "-c", "unix_socket_permissions=0700"}
	if throwaway {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off")
	}
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	cmd.Dir = s.data()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
	if s.process, err = start(cmd); err != nil {
		return err
	}
	for {
		if f := readPostmaster(s.data()); f.ready && f.pid == cmd.Process.Pid {
			return nil
		}
		select {
		case <-ctx.Done():
			s.process.stop()
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
