package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Setting is a setting of a PostgreSQL session, its value in the unit that
// pg_settings has it in.
type Setting struct{ Name, Value string }

// SessionSettings are what every session of the store's is set to. Plans and
// times are told of such sessions only.
var SessionSettings = []Setting{
	// Lock first, then look: the second statement needs a snapshot of its own.
	{"default_transaction_isolation", "read committed"},
	// Every statement is short and indexed: compiling one costs more than it saves.
	{"jit", "off"},
	// Every statement goes by an index. While a table is small, reading it as a whole
	// looks as good, and a prepared statement would keep that plan while it grows.
	{"enable_seqscan", "off"},
	// Few statements probe a key twice: remembering what was found costs more than it
	// saves, a third of the badge's time.
	{"enable_memoize", "off"},
	// The statements leave the planner no choice that arguments could decide, and
	// planning one takes longer than running it.
	{"plan_cache_mode", "force_generic_plan"},
	// A caller behind a stuck lock gets an error, not silence. Lanes wait for less.
	{"lock_timeout", patientLock},
	{"idle_in_transaction_session_timeout", "60000"},
}

// patientLock and laneLock are for how many milliseconds a session waits for a lock.
const (
	patientLock = "5000"
	laneLock    = "100"
)

// checkSession fails if a session of the pooler's is not set to
// [SessionSettings]: a pooler in transaction mode takes none from its clients.
func checkSession(ctx context.Context, conn *pgx.Conn) error {
	names, values := columnOf(SessionSettings, func(s Setting) string { return s.Name }), columnOf(SessionSettings, func(s Setting) string { return s.Value })
	differs, err := column[string](ctx, conn, `
SELECT name || ' = ' || setting || ' instead of ' || want FROM pg_settings
JOIN unnest($1::text[], $2::text[]) AS w(name, want) USING (name) WHERE setting <> want ORDER BY name`, names, values)
	if err == nil && len(differs) > 0 {
		err = fmt.Errorf("the pooler's sessions have %s; set that in its connect_query", strings.Join(differs, ", "))
	}
	return err
}
