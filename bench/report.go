package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// report is the table of one run.
type report struct {
	began   time.Time
	machine machine
	quick   bool
	rows    []result
	growth  []curve
}

// machine says what was measured on.
type machine struct{ cpu, memory, os, postgres, goVersion, settings string }

func describe(ctx context.Context, db *database) (m machine, err error) {
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return m, err
	}
	defer conn.Close(ctx)
	m.cpu = fmt.Sprintf("%d × %s", runtime.NumCPU(), procField("/proc/cpuinfo", "model name"))
	m.memory = procField("/proc/meminfo", "MemTotal")
	m.os, m.goVersion = runtime.GOOS+"/"+runtime.GOARCH, runtime.Version()
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version'), 'fsync ' || current_setting('fsync') || ', synchronous_commit ' || current_setting('synchronous_commit')
		|| ', shared_buffers ' || current_setting('shared_buffers')`).Scan(&m.postgres, &m.settings)
	if err == nil && !strings.HasPrefix(m.settings, "fsync on, synchronous_commit on") {
		err = fmt.Errorf("the server runs with %s: floors of writes mean nothing then", m.settings)
	}
	return m, err
}

// procField is a field of a file like those in /proc; "unknown" elsewhere.
func procField(file, field string) string {
	text, err := os.ReadFile(file)
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == field {
				return strings.TrimSpace(value)
			}
		}
	}
	return "unknown"
}

func (r *report) failed() bool {
	for _, row := range r.rows {
		if !row.met() {
			return true
		}
	}
	return false
}

// print writes the table for a terminal.
func (r *report) print(w io.Writer) {
	missed := 0
	for _, row := range r.rows {
		if !row.met() {
			missed++
		}
	}
	fmt.Fprintf(w, "\n%d rows, %d failed or missed their targets, %.0f s\n", len(r.rows), missed, time.Since(r.began).Seconds())
}

// markdown is the file that is kept.
func (r *report) markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Results\n\nWritten by `make bench` on %s, in %.0f minutes.\n\n", r.began.UTC().Format("2006-01-02"), time.Since(r.began).Minutes())
	fmt.Fprintf(&b, "- Machine: %s, %s, %s\n- PostgreSQL %s (%s), %s\n\n", r.machine.cpu, r.machine.memory, r.machine.os, r.machine.postgres, r.machine.settings, r.machine.goVersion)
	b.WriteString("Each row was measured in turns with its reference, five times after a run to warm up; figures are medians, ratios have the smallest and the largest of the five. " +
		"Absolute figures are this machine's, load generators and PostgreSQL included; ratios are what to compare.\n\n")
	if r.quick {
		b.WriteString("This was a quick run: less data, shorter measures.\n\n")
	}
	b.WriteString("| what | against | ours | reference | ratio | target | |\n|---|---|---|---|---|---|---|\n")
	for _, row := range r.rows {
		if row.err != nil {
			fmt.Fprintf(&b, "| %s | %s | | | failed: %s | %s | **failed** |\n", row.name, row.against, cell(row.err.Error()), row.goal())
			continue
		}
		verdict := "met"
		if row.target == 0 {
			verdict = "shown"
		} else if !row.met() {
			verdict = "**missed**"
		}
		reference, ratio := number(row.unit, row.reference.median)+" "+row.unit, row.compared()
		if row.single {
			reference, ratio = "", fmt.Sprintf("(%s to %s)", number(row.unit, row.ours.min), number(row.unit, row.ours.max))
		}
		fmt.Fprintf(&b, "| %s%s | %s | %s %s | %s | %s | %s | %s |\n", row.name, row.noted, row.against,
			number(row.unit, row.ours.median), row.unit, reference, ratio, row.goal(), verdict)
	}
	for _, c := range r.growth {
		c.markdown(&b)
	}
	return b.Bytes()
}

func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "/")
}
