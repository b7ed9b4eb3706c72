package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
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

	"github.com/coder/websocket"

	"tidemark/embedpg"
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

func TestServeRefusesWithOneLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	refuses(t, "is taken by another process", "serve", "--listen", taken.Addr().String(), "--data-dir", dataDir(t))
	refuses(t, "failed to connect", "serve", "--listen", "127.0.0.1:0", "--database-url", "postgres://127.0.0.1:1/none")
	refuses(t, "cannot be read", "serve", "--listen", "127.0.0.1:0", "--database-url", "postgres://127.0.0.1:port/none")
	refuses(t, "no initdb and postgres", "serve", "--listen", "127.0.0.1:0", "--data-dir", dataDir(t), "--postgres-bin", "/nowhere")
	refuses(t, "--connections must", "serve", "--connections", "0")
	refuses(t, "see tidemark --help", "serve", "--nonsense")
	refuses(t, "service key is shorter", "serve", "--listen", "127.0.0.1:0", "--service-key", "short", "--data-dir", dataDir(t))

	url := storetest.URL(t)
	if _, err := storetest.Conn(t, url).Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`); err != nil {
		t.Fatal(err)
	}
	refuses(t, "run tidemark migrate", "verify", "--database-url", storetest.EmptyURL(t))
	for _, command := range []string{"serve", "migrate", "verify"} {
		args := []string{command, "--database-url", url}
		if command == "serve" {
			args = append(args, "--listen", "127.0.0.1:0")
		}
		refuses(t, "newer than this binary knows", args...)
	}
}

func TestSeveralProcessesMigrateAtOnce(t *testing.T) {
	url := storetest.EmptyURL(t)
	var all []*running
	for range 4 {
		all = append(all, start(t, nil, "migrate", "--database-url", url))
	}
	for _, r := range all {
		if code := r.end(); code != 0 {
			t.Errorf("exit code %d:\n%s", code, r.out)
		}
	}
}

// TestServeDrains: at SIGTERM subscriptions complete, the socket is closed as
// going away, the program ends well and its PostgreSQL with it.
func TestServeDrains(t *testing.T) {
	dir := dataDir(t)
	r := serve(t, "--demo", "--data-dir", dir)
	url, token := r.url(), r.token("ben-phone")
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(url, "http")+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	for _, frame := range []string{`{"type":"connection_init","payload":{"authorization":"Bearer ` + token + `"}}`,
		`{"id":"1","type":"subscribe","payload":{"query":"subscription { inboxChanged { reasons } }"}}`} {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		_, b, err := conn.Read(t.Context())
		if err != nil {
			return fmt.Sprint("close ", int(websocket.CloseStatus(err)))
		}
		var f struct{ Type string }
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		return f.Type
	}
	var got []string
	for range 2 {
		got = append(got, read())
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got = append(got, read())
	}
	if strings.Join(got, ", ") != "connection_ack, next, complete, close 1001" {
		t.Errorf("frames: %v", got)
	}
	if code := r.end(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, r.out)
	}
	if _, ok := embedpg.Running(dir); ok {
		t.Error("its PostgreSQL still runs")
	}
}

// TestR47AKilledServerForgetsNothing: killed right after it answered, started
// again at once in the same place; no orphan is left and the answer holds.
func TestR47AKilledServerForgetsNothing(t *testing.T) {
	dir := dataDir(t)
	r := serve(t, "--demo", "--data-dir", dir)
	answer := ask(t, r.url(), r.token("ben-phone"), demoMutation)
	if !strings.Contains(answer, `"unread":0`) {
		t.Fatal(answer)
	}
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.end()
	again := serve(t, "--demo", "--data-dir", dir)
	answer = ask(t, again.url(), again.token("ben-laptop"), `{ conversation(id: "c-ana-ben") { read unread } }`)
	if answer != `{"data":{"conversation":{"read":12,"unread":0}}}` {
		t.Error(answer)
	}
	refuses(t, "in use by another process", "serve", "--listen", "127.0.0.1:0", "--data-dir", dir)
}

// TestDemoIsFilledInOnce: a second start changes nothing but the tokens.
func TestDemoIsFilledInOnce(t *testing.T) {
	url := storetest.EmptyURL(t)
	first := serve(t, "--demo", "--database-url", url)
	old := first.token("ben-phone")
	inbox := ask(t, first.url(), old, demoQuery)
	if !strings.Contains(inbox, `"unread":4`) {
		t.Error(inbox)
	}
	second := serve(t, "--demo", "--database-url", url)
	if again := ask(t, second.url(), second.token("ben-phone"), demoQuery); again != inbox {
		t.Errorf("%s\nwas\n%s", again, inbox)
	}
	if answer := ask(t, second.url(), old, demoQuery); !strings.Contains(answer, "UNAUTHENTICATED") {
		t.Errorf("the old token: %s", answer)
	}
}

// TestDemoMayBePlayedWith: after a leave and a revocation it starts again.
func TestDemoMayBePlayedWith(t *testing.T) {
	url := storetest.EmptyURL(t)
	first := serve(t, "--demo", "--database-url", url)
	for _, doc := range []string{`mutation { leaveConversation(input: {conversationId: "c-team"}) { badge { unread } } }`, `mutation { revokeDevice(input: {deviceId: "ben-laptop"}) { deviceId } }`} {
		if answer := ask(t, first.url(), first.token("ben-phone"), doc); strings.Contains(answer, "errors") {
			t.Fatal(answer)
		}
	}
	for range 2 {
		again := serve(t, "--demo", "--database-url", url)
		if answer := ask(t, again.url(), again.token("ben-laptop-2"), `{ badge { unread } }`); answer != `{"data":{"badge":{"unread":4}}}` {
			t.Error(answer)
		}
	}
}

// TestFrozenDatabase: one that neither answers nor hangs up costs a bounded time.
func TestFrozenDatabase(t *testing.T) {
	dir := dataDir(t)
	database, err := embedpg.Start(t.Context(), embedpg.Config{Dir: dir, Throwaway: true})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Stop()
	r := serve(t, "--demo", "--database-url", database.URL())
	url, token := r.url(), r.token("ben-phone")
	ask(t, url, token, demoQuery)
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	postmaster, _, _ := strings.Cut(string(pid), "\n")
	signal := func(name string) {
		for _, args := range [][]string{{"-" + name, postmaster}} {
			if out, err := exec.Command("kill", args...).CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
		}
		if out, err := exec.Command("pkill", "-"+name, "-P", postmaster).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	signal("STOP")
	thawed := sync.OnceFunc(func() { signal("CONT") })
	defer thawed()
	var wg sync.WaitGroup
	for _, doc := range []string{`{ badge { unread } }`, demoMutation} {
		wg.Go(func() {
			answer, err := tryAsk(url, token, doc)
			if err != nil || !strings.Contains(answer, "INTERNAL") {
				t.Errorf("%v %s", err, answer)
			}
		})
	}
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(url, "http")+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"connection_init","payload":{"authorization":"Bearer `+token+`"}}`)); err != nil {
		t.Fatal(err)
	}
	reading, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if _, _, err := conn.Read(reading); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("connection_init: %v", err)
	}
	wg.Wait()
	thawed()
	r.waitFor("it answers again", func() bool {
		return strings.Contains(ask(t, url, token, `{ badge { unread } }`), `"data":{"badge":{"unread"`)
	})
}

// TestOrdinaryUser: root is not needed.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // then every test here is this one
	}
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
	dir := dataDir(t)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	r := start(t, nobody, "serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"))
	if answer := ask(t, r.url(), r.token("ben-phone"), `{ badge { unread } }`); answer != `{"data":{"badge":{"unread":7}}}` {
		t.Error(answer)
	}
}

// TestOperatorsCommands: device and verify work beside a running server.
func TestOperatorsCommands(t *testing.T) {
	dir := dataDir(t)
	r := serve(t, "--demo", "--data-dir", dir)
	device := start(t, nil, "device", "ben", "--name", "tablet", "--data-dir", dir)
	if code := device.end(); code != 0 {
		t.Fatalf("device: exit code %d:\n%s", code, device.out)
	}
	token := regexp.MustCompile(`(?m)^token +(\S+)$`).FindStringSubmatch(device.out.String())
	if token == nil {
		t.Fatalf("no token:\n%s", device.out)
	}
	if answer := ask(t, r.url(), token[1], `{ viewer { user { id } device { name } badge { unread } } }`); answer != `{"data":{"viewer":{"user":{"id":"ben"},"device":{"name":"tablet"},"badge":{"unread":7}}}}` {
		t.Error(answer)
	}
	refuses(t, "must not be empty", "device", "", "--data-dir", dir)
	refuses(t, "exists", "device", "ben", "--id", "ben-phone", "--data-dir", dir)

	verify := func(want int, says string, args ...string) {
		t.Helper()
		v := start(t, nil, append([]string{"verify", "--data-dir", dir}, args...)...)
		if code := v.end(); code != want || !strings.Contains(v.out.String(), says) {
			t.Errorf("verify %v: exit code %d, want %d and %q:\n%s", args, code, want, says, v.out)
		}
	}
	verify(0, "2 conversations verified, 0 deviations")
	url, ok := embedpg.Running(dir)
	if !ok {
		t.Fatal("the server's PostgreSQL is not found")
	}
	if _, err := storetest.Conn(t, url).Exec(t.Context(), `UPDATE events SET message_ord = message_ord + 1 WHERE conv_id = 'c-team' AND seq = 5`); err != nil {
		t.Fatal(err)
	}
	verify(1, `conversation "c-team", event 5`)
	verify(0, "rewrote ordinals in 1 conversations", "--repair")
	verify(0, "0 deviations")
	// What a repair cannot mend does not keep it from mending the rest.
	if _, err := storetest.Conn(t, url).Exec(t.Context(), `UPDATE events SET message_ord = message_ord + 1 WHERE conv_id = 'c-team' AND seq = 5;
		INSERT INTO read_positions (user_id, conv_id, read_seq, read_ord, read_own, seen_seq) VALUES ('ana', 'c-ana-ben', 100000, 3, 3, 100000)`); err != nil {
		t.Fatal(err)
	}
	verify(1, "M2: conversation \"c-ana-ben\", user ana", "--repair")
	verify(1, "M2")
	if _, err := storetest.Conn(t, url).Exec(t.Context(), `DELETE FROM read_positions WHERE read_seq = 100000`); err != nil {
		t.Fatal(err)
	}
	verify(0, "0 deviations")
}

// TestHelpListsEverySetting: each setting is an environment variable, in --help
// and in the README.
func TestHelpListsEverySetting(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"serve", "migrate", "device", "verify"} {
		out, err := exec.Command(binary, command, "--help").CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(string(out)), " ")
		settings := regexp.MustCompile(`\$TIDEMARK_[A-Z_]+`).FindAllString(text, -1)
		if len(settings) < 4 {
			t.Errorf("%s --help lists %v", command, settings)
		}
		for _, s := range settings {
			if !strings.Contains(string(readme), "`"+strings.TrimPrefix(s, "$")+"`") {
				t.Errorf("the README does not list %s", s)
			}
		}
	}
	for name, doc := range map[string]string{"query": demoQuery, "mutation": demoMutation, "subscription": demoSubscription} {
		if !strings.Contains(string(readme), doc) {
			t.Errorf("the README's %s is not the demo's", name)
		}
	}
}

// TestDatabaseGoesAndComesBack: meanwhile requests fail soon with INTERNAL or
// succeed, never hang; afterwards all is well by itself.
func TestDatabaseGoesAndComesBack(t *testing.T) {
	dir := dataDir(t)
	config := embedpg.Config{Dir: dir, Throwaway: true}
	database, err := embedpg.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	r := serve(t, "--demo", "--database-url", database.URL())
	token := r.token("ben-phone")
	ready := func() int {
		response, err := http.Get(r.url() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	r.waitFor("it is ready", func() bool { return ready() == 200 })
	database.Stop()
	for _, doc := range []string{demoQuery, demoMutation, `mutation { ack(input: {installEpoch: 0, cursors: []}) { cursors { delivered } } }`} {
		began := time.Now()
		if answer := ask(t, r.url(), token, doc); !strings.Contains(answer, "INTERNAL") || !strings.Contains(answer, "requestId") {
			t.Errorf("without a database: %s", answer)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s to say so", took)
		}
	}
	if ready() != 503 {
		t.Error("ready without a database")
	}
	if response, err := http.Get(r.url() + "/healthz"); err != nil || response.StatusCode != 200 {
		t.Error("the process is not healthy", err)
	} else {
		response.Body.Close()
	}
	if database, err = embedpg.Start(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	defer database.Stop()
	r.waitFor("it is ready again", func() bool { return ready() == 200 })
	if answer := ask(t, r.url(), token, demoMutation); !strings.Contains(answer, `"unread":0`) {
		t.Error(answer)
	}
}

// TestRestartUnderLoad: reads that are answered while the database restarts are
// kept, and those that fail fail with INTERNAL.
func TestRestartUnderLoad(t *testing.T) {
	dir := dataDir(t)
	config := embedpg.Config{Dir: dir, Throwaway: true}
	database, err := embedpg.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	r := serve(t, "--demo", "--database-url", database.URL())
	url, token := r.url(), r.token("ana-phone")
	stop := make(chan struct{})
	var mu sync.Mutex
	acknowledged := 0
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				answer, err := tryAsk(url, token, fmt.Sprintf(`mutation { sendMessage(input: {conversationId: "c-team", clientMessageId: "load-%d-%d", body: "x"}) { duplicate } }`, n, k))
				switch {
				case err != nil:
					t.Error(err)
				case strings.Contains(answer, `"data":{"sendMessage"`):
					mu.Lock()
					acknowledged++
					mu.Unlock()
				case !strings.Contains(answer, "INTERNAL"):
					t.Error(answer)
				}
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	database.Stop()
	time.Sleep(300 * time.Millisecond)
	if database, err = embedpg.Start(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	defer database.Stop()
	time.Sleep(500 * time.Millisecond)
	close(stop)
	wg.Wait()
	r.waitFor("the database answers", func() bool { return !strings.Contains(ask(t, url, token, `{ badge { unread } }`), "INTERNAL") })
	var stored int
	if err := storetest.Conn(t, database.URL()).QueryRow(t.Context(), `SELECT count(*) FROM events WHERE client_message_id LIKE 'load-%'`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if acknowledged == 0 || stored < acknowledged {
		t.Errorf("%d acknowledged, %d stored", acknowledged, stored)
	}
}

// TestTwoServersOneDatabase: a real client watches on one and reads on the other.
func TestTwoServersOneDatabase(t *testing.T) {
	database := storetest.EmptyURL(t)
	one, two := serve(t, "--database-url", database), serve(t, "--database-url", database)
	token := func(device string) string {
		var out struct {
			Data struct{ CreateDevice struct{ Token string } }
		}
		answer := ask(t, one.url(), testServiceKey, `mutation { createDevice(input: {userId: "B", id: "`+device+`"}) { token } }`)
		if err := json.Unmarshal([]byte(answer), &out); err != nil {
			t.Fatal(err)
		}
		return out.Data.CreateDevice.Token
	}
	ask(t, one.url(), testServiceKey, `mutation { a: putUser(input: {id: "A"}) { user { id } } b: putUser(input: {id: "B"}) { user { id } } c: putUser(input: {id: "C"}) { user { id } }
		createConversation(input: {id: "c1", kind: GROUP, memberIds: ["A", "B", "C"]}) { conversation { id } } }`)
	var a struct {
		Data struct{ CreateDevice struct{ Token string } }
	}
	if err := json.Unmarshal([]byte(ask(t, one.url(), testServiceKey, `mutation { createDevice(input: {userId: "A"}) { token } }`)), &a); err != nil {
		t.Fatal(err)
	}
	for n := range 9 {
		ask(t, two.url(), a.Data.CreateDevice.Token, fmt.Sprintf(`mutation { sendMessage(input: {conversationId: "c1", clientMessageId: "m%d", body: "x"}) { duplicate } }`, n))
	}
	cmd := exec.Command("node", "tests/client.mjs", one.url()+"/graphql", token("b1"), two.url()+"/graphql", token("b2"))
	cmd.Dir = "web"
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "client ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
