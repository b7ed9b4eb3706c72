package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"tidemark/store"
	"tidemark/storetest"
)

// TestBehindAPooler: sessions of a pooler are not set to what ours are, which is
// said by name; once they are, everything works there, also after a crash that its
// connections outlive.
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	open := func() *world {
		s, err := store.Open(t.Context(), url, store.Options{Direct: url + "&connect_timeout=10"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		w := newWorld(t)
		w.Store, w.url = s, url
		return w
	}
	err := open().Ready(t.Context())
	for _, setting := range []string{"connect_query", "jit = on", "enable_seqscan = on", "enable_memoize = on", "plan_cache_mode = auto", "lock_timeout = 0"} {
		if err == nil || !strings.Contains(err.Error(), setting) {
			t.Errorf("%v does not name %s", err, setting)
		}
	}
	conn := storetest.Conn(t, url)
	var name string
	if err := conn.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	for _, setting := range store.SessionSettings {
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'", pgx.Identifier{name}.Sanitize(), setting.Name, setting.Value)); err != nil {
			t.Fatal(err)
		}
	}
	w := open()
	w.must(w.Ready(t.Context()))
	w.users("a", "b")
	w.device("b", "b1")
	conv := w.group("c", "a", "b")
	w.read("b", conv, w.send(conv, "a", 3)-1)
	if c := w.see("b", "b1", conv); c.UnreadMessages != 1 {
		t.Errorf("unread %d, want 1", c.UnreadMessages)
	}
	if b := w.badge("b"); b.Unread != 1 {
		t.Errorf("badge %d, want 1", b.Unread)
	}
	if _, err := conn.Exec(t.Context(), `DELETE FROM incarnation`); err != nil { // as a crash does; these connections would outlive it
		t.Fatal(err)
	}
	sn, vw := w.view("b", "b1")
	defer sn.Close()
	if _, err := vw.SyncToken(t.Context()); err != nil {
		t.Errorf("after a crash: %v", err)
	}
}
