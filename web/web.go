// Package web serves the pages: the playground.
package web

import (
	"embed"
	"encoding/json"
	"html/template"
	"io/fs"
	"net/http"
)

// Tab is a tab that the playground opens with.
type Tab struct {
	Query     string `json:"query"`
	Variables string `json:"variables,omitempty"`
	// Headers is a JSON object. Its authorization also goes into connection_init.
	Headers string `json:"headers,omitempty"`
}

// assets is what "npm run build" puts there; without it the pages say so.
//
//go:embed all:dist
var assets embed.FS

//go:embed playground.html
var playgroundHTML string

//go:embed missing.html
var missingHTML []byte

var playground = template.Must(template.New("playground").Parse(playgroundHTML))

// policy lets a page reach nothing but its own server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self' ws: wss:; " +
	"img-src 'self' data:; font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Register serves GraphiQL at /playground, for the GraphQL endpoint at the given
// path, with tabs to begin with.
func Register(mux *http.ServeMux, endpoint string, tabs []Tab) {
	dist, err := fs.Sub(assets, "dist")
	if err != nil {
		panic(err) // the path is a constant
	}
	register(mux, dist, endpoint, tabs)
}

func register(mux *http.ServeMux, dist fs.FS, endpoint string, tabs []Tab) {
	mux.HandleFunc("GET /playground", func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		if _, err := fs.Stat(dist, "graphiql.min.js"); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write(missingHTML)
			return
		}
		settings, err := json.Marshal(map[string]any{"endpoint": endpoint, "tabs": tabs})
		if err != nil {
			http.Error(w, "The playground's tabs cannot be encoded.", http.StatusInternalServerError)
			return
		}
		_ = playground.Execute(w, string(settings))
	})
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", files(dist)))
}

// files serves the assets, never a listing of them.
func files(dist fs.FS) http.Handler {
	server := http.FileServerFS(dist)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, err := fs.Stat(dist, r.URL.Path); err != nil || info.IsDir() {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache")
		server.ServeHTTP(w, r)
	})
}
