//go:build browser

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPlaygroundInABrowser runs the tabs of the playground in headless Chromium
// with every other host blocked. The screenshot goes where
// TIDEMARK_SCREENSHOT says.
func TestPlaygroundInABrowser(t *testing.T) {
	r := serve(t, "--demo", "--data-dir", dataDir(t))
	shot := os.Getenv("TIDEMARK_SCREENSHOT")
	if shot == "" {
		shot = filepath.Join(t.TempDir(), "playground.png")
	}
	cmd := exec.CommandContext(t.Context(), "node", "tests/playground.mjs", r.url(), shot)
	cmd.Dir = "web"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
