package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// arrows are the imports that the layout allows, package by package, within the
// module. Tests are exempt.
var arrows = map[string][]string{
	"tidemark":            {"bench", "chat", "embedpg", "graph", "hint", "hint/pgbus", "migrations", "resolvers", "store", "web"},
	"tidemark/resolvers":  {"graph", "store", "hint", "chat", "web"},
	"tidemark/graph":      {"chat"},
	"tidemark/store":      {"chat", "migrations"},
	"tidemark/hint":       {"chat"},
	"tidemark/hint/pgbus": {"hint", "chat"},
	"tidemark/chat":       {},
	"tidemark/migrations": {},
	"tidemark/embedpg":    {},
	"tidemark/web":        {},
	// It measures statements of its own against the store's, which nothing else may have.
	"tidemark/bench": {"chat", "embedpg", "store"},
	// Only tests import this one.
	"tidemark/storetest": {"embedpg", "store"},
}

// pgx is what only these may know.
var mayUsePgx = []string{"tidemark", "tidemark/store", "tidemark/hint/pgbus", "tidemark/bench", "tidemark/storetest"}

func TestLayoutImportsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		allowed, known := arrows[p.ImportPath]
		if !known {
			t.Errorf("package %s has no place in the layout", p.ImportPath)
		}
		for _, imported := range p.Imports {
			if inner, ours := strings.CutPrefix(imported, "tidemark/"); ours && !slices.Contains(allowed, inner) {
				t.Errorf("%s must not import %s", p.ImportPath, imported)
			}
			if strings.HasPrefix(imported, "github.com/jackc/") && !slices.Contains(mayUsePgx, p.ImportPath) {
				t.Errorf("%s must not import %s", p.ImportPath, imported)
			}
			if p.ImportPath == "tidemark/chat" && strings.Contains(imported, ".") {
				t.Errorf("chat imports the standard library only, not %s", imported)
			}
		}
	}
}

type listed struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) (list []listed) {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}
