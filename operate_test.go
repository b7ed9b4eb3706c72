package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"tidemark/embedpg"
	"tidemark/storetest"
)

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
	verify(0, "rewrote ordinals and mentions in 1 conversations", "--repair")
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

// TestExportAndRestored: all that is stored about one user, as JSON, beside a
// running server; and a new epoch where none runs.
func TestExportAndRestored(t *testing.T) {
	dir := dataDir(t)
	r := serve(t, "--demo", "--data-dir", dir)
	ask(t, r.url(), r.token("ben-phone"), demoRead)
	ask(t, r.url(), r.token("ben-phone"), `mutation { sendMessage(input: {conversationId: "c-team", clientMessageId: "x", body: "what Ben said", mentions: ["ana"]}) { duplicate } }`)
	ask(t, r.url(), r.token("ben-phone"), `mutation { ack(input: {installEpoch: 0, cursors: [{conversationId: "c-team", seq: 3}]}) { cursors { delivered } } }`)
	export := func(user string) (parts map[string]json.RawMessage, text string) {
		t.Helper()
		e := start(t, nil, "export", "--user", user, "--data-dir", dir, "--log-level", "error")
		if code := e.end(); code != 0 {
			t.Fatalf("export: exit code %d:\n%s", code, e.out)
		}
		text = e.out.String()
		if err := json.Unmarshal([]byte(text), &parts); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		return parts, text
	}
	parts, text := export("ben")
	for part, rows := range map[string]int{"devices": 2, "memberships": 2, "former_periods": 0, "read_positions": 1, "device_cursors": 1, "events": 3, "mentioned_in": 0} {
		var list []map[string]any
		if err := json.Unmarshal(parts[part], &list); err != nil || len(list) != rows {
			t.Errorf("%s: %d rows, want %d: %v %s", part, len(list), rows, err, parts[part])
		}
	}
	if !strings.Contains(text, "what Ben said") || !strings.Contains(string(parts["user"]), `"Ben"`) || strings.Contains(text, "token_sha256") || strings.Contains(text, "seals") {
		t.Error(text)
	}
	refuses(t, "no such user", "export", "--user", "nobody", "--data-dir", dir)
	refuses(t, "in use by another process", "restored", "--data-dir", dir)
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.end()
	restored := start(t, nil, "restored", "--data-dir", dir)
	if code := restored.end(); code != 0 || !strings.Contains(restored.out.String(), "a new epoch for 2 conversations") {
		t.Fatalf("restored: exit code %d:\n%s", code, restored.out)
	}
	again := serve(t, "--demo", "--data-dir", dir)
	if answer := ask(t, again.url(), again.token("ben-phone"), `{ conversation(id: "c-team") { epoch } }`); answer != `{"data":{"conversation":{"epoch":2}}}` {
		t.Error(answer)
	}
}

// TestHelpListsEverySetting: each setting is an environment variable, in --help
// and in the README.
func TestHelpListsEverySetting(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"serve", "migrate", "device", "export", "verify", "restored"} {
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
	for name, doc := range map[string]string{"query": demoInbox, "mutation": demoRead, "subscription": demoWatch,
		"mark unread": demoMarkUnread, "who has read": demoReceipts, "come back online": demoChanges} {
		if !strings.Contains(string(readme), doc) {
			t.Errorf("the README's %s is not the demo's", name)
		}
	}
}
