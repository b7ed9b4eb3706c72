package main

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/jackc/pgx/v5"

	"tidemark/embedpg"
	"tidemark/storetest"
)

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

// wsFrame is what a socket receives; Type is "close 1001" and the like at its end.
type wsFrame struct {
	Type    string
	Payload json.RawMessage
}

// dialSocket opens a socket and says who is there.
func dialSocket(t *testing.T, url, token string) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(url, "http")+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"connection_init","payload":{"authorization":"Bearer `+token+`"}}`)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// watch subscribes to the inbox of a device and returns what reads the next frame.
func watch(t *testing.T, url, token string) func() wsFrame {
	t.Helper()
	conn := dialSocket(t, url, token)
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"id":"1","type":"subscribe","payload":{"query":"subscription { inboxChanged { reasons conversationId } }"}}`)); err != nil {
		t.Fatal(err)
	}
	return func() (f wsFrame) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		_, b, err := conn.Read(ctx)
		if err != nil {
			return wsFrame{Type: fmt.Sprint("close ", int(websocket.CloseStatus(err)))}
		}
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		return f
	}
}

// TestShutdownTellsWhatIsStillWritten: a write that outlives the drain is
// committed, and the sessions on other servers hear of it.
func TestShutdownTellsWhatIsStillWritten(t *testing.T) {
	url := storetest.EmptyURL(t)
	first := serve(t, "--demo", "--database-url", url)
	ending := serve(t, "--database-url", url, "--drain-timeout", "300ms")
	read := watch(t, first.url(), first.token("ben-phone"))
	read() // connection_ack
	read() // RESYNC
	tx, err := storetest.Conn(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM conversations WHERE conv_id = 'c-team' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = tryAsk(ending.url(), first.token("ana-phone"), `mutation { sendMessage(input: {conversationId: "c-team", clientMessageId: "last", body: "x"}) { duplicate } }`) // its connection is cut
	}()
	ending.waitFor("the send waits for the lock", func() bool {
		var waiting int
		if err := storetest.Conn(t, url).QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		return waiting > 0
	})
	if err := ending.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ending.waitFor("the drain has timed out", func() bool { return strings.Contains(ending.out.String(), "did not finish in time") })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		f := read()
		if f.Type != "next" {
			t.Fatalf("%s instead of a hint", f.Type)
		}
		if strings.Contains(string(f.Payload), "MESSAGE") {
			break
		}
	}
	<-sent
	if code := ending.end(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, ending.out)
	}
}

// TestServeDrains: at SIGTERM subscriptions complete, the socket is closed as
// going away, the program ends well and its PostgreSQL with it.
func TestServeDrains(t *testing.T) {
	dir := dataDir(t)
	r := serve(t, "--demo", "--data-dir", dir)
	read := watch(t, r.url(), r.token("ben-phone"))
	var got []string
	for range 2 {
		got = append(got, read().Type)
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got = append(got, read().Type)
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
	answer := ask(t, r.url(), r.token("ben-phone"), demoRead)
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
	noToken := func(answer string) string {
		return regexp.MustCompile(`"syncToken":"[^"]*"`).ReplaceAllString(answer, "")
	}
	inbox := noToken(ask(t, first.url(), old, demoInbox))
	if !strings.Contains(inbox, `"unread":4`) {
		t.Error(inbox)
	}
	second := serve(t, "--demo", "--database-url", url)
	if again := noToken(ask(t, second.url(), second.token("ben-phone"), demoInbox)); again != inbox {
		t.Errorf("%s\nwas\n%s", again, inbox)
	}
	if answer := ask(t, second.url(), old, demoInbox); !strings.Contains(answer, "UNAUTHENTICATED") {
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

// serveOn serves the demo on a PostgreSQL that the test may stop and start.
func serveOn(t *testing.T, config embedpg.Config) (*embedpg.Server, *running) {
	t.Helper()
	database, err := embedpg.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return database, serve(t, "--demo", "--database-url", database.URL())
}

// TestFrozenDatabase: one that neither answers nor hangs up costs a bounded time.
func TestFrozenDatabase(t *testing.T) {
	config := embedpg.Config{Dir: dataDir(t), Throwaway: true}
	database, r := serveOn(t, config)
	defer database.Stop()
	url, token := r.url(), r.token("ben-phone")
	ask(t, url, token, demoInbox)
	// Every process of it that serves somebody, and the one that starts them.
	rows, err := storetest.Conn(t, database.URL()).Query(t.Context(), `SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tidemark%'`)
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	pidFile, err := os.ReadFile(filepath.Join(config.Dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var postmaster int
	if _, err := fmt.Sscan(string(pidFile), &postmaster); err != nil {
		t.Fatal(err)
	}
	frozen = append(frozen, postmaster)
	signal := func(s syscall.Signal) {
		for _, pid := range frozen {
			_ = syscall.Kill(pid, s) // a connection may have ended meanwhile
		}
	}
	signal(syscall.SIGSTOP)
	thawed := sync.OnceFunc(func() { signal(syscall.SIGCONT) })
	defer thawed()
	var wg sync.WaitGroup
	for _, doc := range []string{`{ badge { unread } }`, demoRead} {
		wg.Go(func() {
			answer, err := tryAsk(url, token, doc)
			if err != nil || !strings.Contains(answer, "INTERNAL") {
				t.Errorf("%v %s", err, answer)
			}
		})
	}
	conn := dialSocket(t, url, token)
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

// TestDatabaseGoesAndComesBack: meanwhile requests fail soon with INTERNAL or
// succeed, never hang; afterwards all is well by itself.
func TestDatabaseGoesAndComesBack(t *testing.T) {
	config := embedpg.Config{Dir: dataDir(t), Throwaway: true}
	database, r := serveOn(t, config)
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
	for _, doc := range []string{demoInbox, demoRead, `mutation { ack(input: {installEpoch: 0, cursors: []}) { cursors { delivered } } }`} {
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
	database, err := embedpg.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer database.Stop()
	r.waitFor("it is ready again", func() bool { return ready() == 200 })
	if answer := ask(t, r.url(), token, demoRead); !strings.Contains(answer, `"unread":0`) {
		t.Error(answer)
	}
}

// TestRestartUnderLoad: reads that are answered while the database restarts are
// kept, and those that fail fail with INTERNAL.
func TestRestartUnderLoad(t *testing.T) {
	config := embedpg.Config{Dir: dataDir(t), Throwaway: true}
	database, r := serveOn(t, config)
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
	database, err := embedpg.Start(t.Context(), config)
	if err != nil {
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
