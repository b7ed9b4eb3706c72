package main

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tidemark/bench"
	"tidemark/resolvers"
	"tidemark/store"
	"tidemark/storetest"
)

// TestDriveARunningServer: each load runs over the API alone, and says how it went.
func TestDriveARunningServer(t *testing.T) {
	const key = "a key that is long enough"
	n, err := openNode(t.Context(), storetest.URL(t), store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	server := n.serve(resolvers.Config{ServiceKey: key})
	defer server.Drain(context.Background())
	web := httptest.NewServer(server)
	defer web.Close()
	for _, load := range bench.Loads {
		var out strings.Builder
		o := bench.DriveOptions{Address: web.URL, ServiceKey: key, Load: load, Clients: 3, Length: 200 * time.Millisecond, Out: &out}
		if err := bench.Drive(t.Context(), o); err != nil {
			t.Errorf("%s: %v", load, err)
		}
		if !strings.HasPrefix(out.String(), load+": ") {
			t.Errorf("%s says %q", load, out.String())
		}
	}
	for what, o := range map[string]bench.DriveOptions{
		"no load":       {Address: web.URL, ServiceKey: key, Load: "nothing", Clients: 1, Length: time.Second},
		"nobody":        {Address: web.URL, ServiceKey: key, Load: "send", Length: time.Second},
		"a wrong key":   {Address: web.URL, ServiceKey: "a key of somebody else", Load: "send", Clients: 1, Length: time.Second},
		"no such place": {Address: "nowhere", ServiceKey: key, Load: "send", Clients: 1, Length: time.Second},
	} {
		if err := bench.Drive(t.Context(), o); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestBenchEndsWithItsReader: when nobody takes the output any more, the run ends
// at once and leaves nothing behind, neither its database nor its directory.
func TestBenchEndsWithItsReader(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	var said strings.Builder
	cmd := exec.CommandContext(t.Context(), binary, "bench", "--quick", "--only", "receipts")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = writer, &said
	err = cmd.Run()
	writer.Close()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v: %s", err, said.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
