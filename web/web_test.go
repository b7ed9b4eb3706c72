package web

import (
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func get(t *testing.T, dist fstest.MapFS, path string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	register(mux, dist, "/graphql", []Tab{{Query: `{ a(b: "</div><script>") }`, Headers: `{"authorization": "Bearer x"}`}})
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}

var built = fstest.MapFS{"graphiql.min.js": {Data: []byte("js")}, "sub/file": {Data: []byte("x")}}

// TestPlaygroundPage: it carries its tabs, and may reach nothing but its server.
func TestPlaygroundPage(t *testing.T) {
	w := get(t, built, "/playground")
	body := w.Body.String()
	if w.Code != 200 || !strings.Contains(html.UnescapeString(body), `"query":"{ a(b: \"\u003c/div\u003e\u003cscript\u003e\") }"`) {
		t.Errorf("%d %s", w.Code, body)
	}
	if strings.Contains(body, "<script>\")") {
		t.Error("a tab breaks out of its attribute")
	}
	if outside := regexp.MustCompile(`(src|href)="(https?:)?//`).FindString(body); outside != "" {
		t.Errorf("the page asks for %s", outside)
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "script-src 'self';") {
		t.Errorf("policy %q", policy)
	}
}

// TestWithoutNodeThePageSaysWhatIsMissing: the server builds without it.
func TestWithoutNodeThePageSaysWhatIsMissing(t *testing.T) {
	w := get(t, fstest.MapFS{".keep": {}}, "/playground")
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "make build") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestAssets(t *testing.T) {
	for path, want := range map[string]int{"/assets/graphiql.min.js": 200, "/assets/": 404, "/assets/sub": 404, "/assets/sub/": 404, "/assets/../web.go": 404, "/assets/none": 404} {
		if w := get(t, built, path); w.Code != want && !(want == 404 && w.Code == http.StatusTemporaryRedirect) {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
