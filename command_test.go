package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidemark/storetest"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tidemark-command-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // an ordinary user runs it, too
	}
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "tidemark")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		os.Exit(1)
	}
	code := storetest.Run(m)
	os.RemoveAll(dir)
	os.Exit(code)
}

// running is a started program.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *output
	exited chan struct{}
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// dataDir is a directory of the test's own that an unprivileged user can enter.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tidemark-data-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start starts the program; it is killed when the test ends, if it still runs.
func start(t *testing.T, as *syscall.Credential, args ...string) *running {
	t.Helper()
	r := &running{t: t, cmd: exec.Command(binary, args...), out: &output{}, exited: make(chan struct{})}
	r.cmd.Env = append(os.Environ(), "TIDEMARK_SERVICE_KEY="+testServiceKey)
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if as != nil {
		r.cmd.Dir = os.TempDir()
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // how it ended is in ProcessState
		close(r.exited)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-r.exited:
		case <-time.After(30 * time.Second):
			_ = r.cmd.Process.Kill()
			<-r.exited
		}
	})
	return r
}

const testServiceKey = "the service key of the command tests"

// serve starts a server and waits until it serves.
func serve(t *testing.T, args ...string) *running {
	t.Helper()
	r := start(t, nil, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	r.url()
	return r
}

var address = regexp.MustCompile(`address=(http://\S+)`)

func (r *running) url() string {
	r.t.Helper()
	r.waitFor("it serves", func() bool { return address.MatchString(r.out.String()) })
	return address.FindStringSubmatch(r.out.String())[1]
}

func (r *running) waitFor(what string, true func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !true(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-r.exited:
			r.t.Fatalf("it ended before %s:\n%s", what, r.out)
		default:
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("it never came true that %s:\n%s", what, r.out)
		}
	}
}

// end waits for the program's end and returns its exit code.
func (r *running) end() int {
	r.t.Helper()
	select {
	case <-r.exited:
	case <-time.After(60 * time.Second):
		r.t.Fatalf("it does not end:\n%s", r.out)
	}
	return r.cmd.ProcessState.ExitCode()
}

var demoTokenLine = regexp.MustCompile(`(?m)^  \S+ +(\S+) +(\S{43})$`)

// token is the demo token of a device.
func (r *running) token(device string) string {
	r.t.Helper()
	for _, m := range demoTokenLine.FindAllStringSubmatch(r.out.String(), -1) {
		if m[1] == device {
			return m[2]
		}
	}
	r.t.Fatalf("no token of %s in\n%s", device, r.out)
	return ""
}

// ask runs an operation and returns the whole answer as text.
func ask(t *testing.T, url, token, doc string) string {
	t.Helper()
	answer, err := tryAsk(url, token, doc)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func tryAsk(url, token, doc string) (string, error) {
	body, err := json.Marshal(map[string]string{"query": doc})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", url+"/graphql", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return string(b), err
}

// refuses runs the program, which must say one clear line and exit with 1.
func refuses(t *testing.T, want string, args ...string) {
	t.Helper()
	r := start(t, nil, args...)
	if code := r.end(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	var lines []string
	for line := range strings.Lines(r.out.String()) {
		if !strings.Contains(line, "level=INFO") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "tidemark: ") || !strings.Contains(lines[0], want) {
		t.Errorf("it says %q, want one line with %q", lines, want)
	}
}
