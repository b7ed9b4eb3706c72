package embedpg

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// usualPlaces are where packages put PostgreSQL's server binaries.
var usualPlaces = []string{
	"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                   // Red Hat, Fedora
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
	"/opt/homebrew/opt/postgresql/bin",   //
	"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
	"/usr/local/opt/postgresql/bin",      //
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// minMajor is the oldest PostgreSQL that the schema works on.
const minMajor = 14

// findBinaries finds a directory with initdb and postgres. Existing data needs
// binaries of its own major version; otherwise the newest are taken.
func findBinaries(configured, data string) (string, error) {
	var candidates []string
	if configured != "" {
		// PostgreSQL is started from its own directory, not from ours.
		if abs, err := filepath.Abs(configured); err == nil {
			configured = abs
		}
		candidates = []string{configured}
	} else {
		if path, err := exec.LookPath("postgres"); err == nil {
			candidates = append(candidates, filepath.Dir(path))
		}
		for _, pattern := range usualPlaces {
			found, _ := filepath.Glob(pattern)
			slices.SortFunc(found, func(a, b string) int { return majorOf(b) - majorOf(a) })
			candidates = append(candidates, found...)
		}
	}
	wanted := dataMajor(data)
	var seen []string
	for _, dir := range candidates {
		if !executable(filepath.Join(dir, "postgres")) || !executable(filepath.Join(dir, "initdb")) {
			continue
		}
		major := majorOf(dir)
		if major >= minMajor && (wanted == 0 || major == wanted) {
			return dir, nil
		}
		seen = append(seen, fmt.Sprintf("%s (version %d)", dir, major))
	}
	switch {
	case configured != "" && len(seen) == 0:
		return "", fmt.Errorf("no initdb and postgres in %s; name the directory that holds them", configured)
	case wanted != 0:
		return "", fmt.Errorf("the data in %s needs PostgreSQL %d; found: %s", data, wanted, listOr(seen, "none"))
	}
	return "", fmt.Errorf("no PostgreSQL %d or newer was found (%s). Install it (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server; macOS: brew install postgresql), or name a database with TIDEMARK_DATABASE_URL",
		minMajor, listOr(seen, "nothing in PATH or the usual places"))
}

func listOr(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ", ")
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// majorOf asks the binary itself: directories are named as distributions please.
func majorOf(dir string) int {
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0
	}
	for field := range strings.FieldsSeq(string(out)) {
		major, _, _ := strings.Cut(field, ".")
		if n, err := strconv.Atoi(major); err == nil {
			return n
		}
	}
	return 0
}

func dataMajor(data string) int {
	b, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

// Program finds another of PostgreSQL's programs: beside the server's binaries,
// then in PATH.
func Program(name, binDir string) (string, error) {
	if dir, err := findBinaries(binDir, ""); err == nil && executable(filepath.Join(dir, name)) {
		return filepath.Join(dir, name), nil
	}
	return exec.LookPath(name)
}
