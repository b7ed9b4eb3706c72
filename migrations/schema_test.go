package migrations_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidemark/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Run(m)) }

// TestSchemaDump holds schema.sql, which is there to be read, against what the
// migrations really make. "make generate" rewrites it.
func TestSchemaDump(t *testing.T) {
	dump := dumpSchema(t, storetest.URL(t))
	if os.Getenv("TIDEMARK_WRITE_SCHEMA") != "" {
		if err := os.WriteFile("schema.sql", []byte(dump), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != dump {
		t.Errorf("schema.sql differs from what the migrations make; run make generate")
	}
}

// TestMigrationsAreNumbered: one file for each number, no gaps.
func TestMigrationsAreNumbered(t *testing.T) {
	files, err := filepath.Glob("0*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal("no migrations found", err)
	}
	for i, f := range files {
		if want := strings.Repeat("0", 4) + string(rune('1'+i)) + "_"; !strings.HasPrefix(f, want) {
			t.Errorf("%s should begin with %s", f, want)
		}
	}
}

// perVersion is what pg_dump writes about itself and its server.
var perVersion = regexp.MustCompile(`(?m)^(--.*|SET .*|SELECT pg_catalog\.set_config.*|\\.*)\n`)

func dumpSchema(t *testing.T, url string) string {
	t.Helper()
	pgDump, err := exec.LookPath("pg_dump")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
		if len(found) == 0 {
			t.Fatal("pg_dump was not found; it comes with PostgreSQL")
		}
		pgDump = found[len(found)-1]
	}
	out, err := exec.Command(pgDump, "--schema-only", "--no-owner", "--no-privileges", "--exclude-table=goose_db_version*", url).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	body := perVersion.ReplaceAllString(string(out), "")
	body = regexp.MustCompile(`\n{3,}`).ReplaceAllString(body, "\n\n")
	return "-- The schema as the migrations leave it, to be read; a test holds it to the truth.\n\n" + strings.TrimSpace(body) + "\n"
}
