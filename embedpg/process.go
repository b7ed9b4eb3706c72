package embedpg

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// process is a running postmaster.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
	err  error         // how it ended; read after done
}

// start runs cmd in a process group of its own, so that a terminal's ^C reaches
// it only through us, and ties its life to ours where the system can do that.
func start(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The death signal is tied to the thread that forked: it must live as
		// long as the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	return p, <-started
}

// stop asks for a fast shutdown, then for less and less.
func (p *process) stop() {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, 20 * time.Second}, {syscall.SIGQUIT, 5 * time.Second}, {syscall.SIGKILL, 5 * time.Second}} {
		_ = p.cmd.Process.Signal(step.signal)
		select {
		case <-p.done:
			return
		case <-time.After(step.wait):
		}
	}
}

// accountFor is the account that PostgreSQL runs as when we are root, which it
// refuses to be: the owner of the data, or an unprivileged user if there is none
// yet. It is nil if we are not root.
func accountFor(data string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if info, err := os.Stat(data); err == nil {
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 {
			return &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as; start tidemark as an ordinary user")
}

// own gives a directory to the account, for itself alone.
func own(dir string, account *syscall.Credential) error {
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	if account == nil {
		return nil
	}
	return os.Chown(dir, int(account.Uid), int(account.Gid))
}
