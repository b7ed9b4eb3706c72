package resolvers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// maxBody is the size of a request in bytes.
const maxBody = 256 << 10

const (
	typeJSON     = "application/json"
	typeResponse = "application/graphql-response+json"
	typeStream   = "text/event-stream"
)

// httpTransport answers a request that was read and checked before.
type httpTransport struct{}

// request is what httpTransport is given, through the context.
type request struct {
	out    answer
	params parameters
}

type requestKey struct{}

func withRequest(ctx context.Context, r request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

func (httpTransport) Supports(r *http.Request) bool { return r.Context().Value(requestKey{}) != nil }

func (httpTransport) Do(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	start := graphql.Now()
	ctx := r.Context()
	req := ctx.Value(requestKey{}).(request)
	out, params := req.out, req.params
	raw := &graphql.RawParams{Query: *params.Query, Variables: params.Variables, Extensions: params.Extensions, Headers: r.Header,
		ReadTime: graphql.TraceTiming{Start: start, End: graphql.Now()}}
	if params.OperationName != nil {
		raw.OperationName = *params.OperationName
	}
	opCtx, errs := exec.CreateOperationContext(ctx, raw)
	if errs != nil {
		out.requestError(exec.DispatchError(graphql.WithOperationContext(ctx, opCtx), errs))
		return
	}
	switch op := opCtx.Operation.Operation; {
	case op == ast.Subscription:
		out.refuse(http.StatusBadRequest, "Subscriptions need a WebSocket (graphql-transport-ws), or Accept: text/event-stream.")
		return
	case op == ast.Mutation && r.Method == http.MethodGet:
		w.Header().Set("Allow", "POST")
		out.refuse(http.StatusMethodNotAllowed, "Send mutations with POST.")
		return
	}
	responses, ctx := exec.DispatchOperation(ctx, opCtx)
	out.response(http.StatusOK, responses(ctx))
}

// parameters are the members of a request as the specification names them.
type parameters struct {
	Query         *string        `json:"query"`
	OperationName *string        `json:"operationName,omitempty"`
	Variables     map[string]any `json:"variables,omitempty"`
	Extensions    map[string]any `json:"extensions,omitempty"`
}

// bodyTimeout is how long a client may take to send a request's body.
const bodyTimeout = 10 * time.Second

// read reads and checks the parameters of a request: POST with a JSON body, which
// a browser does not send across origins unasked, or GET. problem is empty if
// they are good.
func read(w http.ResponseWriter, r *http.Request) (p parameters, status int, problem string) {
	if r.Method == http.MethodGet {
		if err := p.fromURL(r); err != nil {
			return p, http.StatusBadRequest, "The variables and extensions of a GET must be JSON objects in valid UTF-8."
		}
	} else {
		if mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != typeJSON {
			return p, http.StatusUnsupportedMediaType, "Send a JSON body with Content-Type: application/json."
		} else if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
			return p, http.StatusUnsupportedMediaType, "Send the body in UTF-8."
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil {
			// From here on the server only watches whether the client is still there.
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		}
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return p, http.StatusRequestEntityTooLarge, "A request may have at most 262144 bytes. Send less at a time."
		} else if err != nil {
			return p, http.StatusBadRequest, "The request's body could not be read."
		}
		if !validText(string(body)) {
			return p, http.StatusBadRequest, "The body must be valid UTF-8, without halves of surrogate pairs."
		}
		if err := decode(body, &p); err != nil {
			return p, http.StatusBadRequest, "The body must be one JSON object with query, and optionally operationName, variables and extensions."
		}
	}
	if p.Query != nil && !validText(*p.Query) {
		return p, http.StatusBadRequest, "The document must be valid UTF-8, without halves of surrogate pairs."
	}
	if p.Query == nil || *p.Query == "" {
		return p, http.StatusBadRequest, "The parameter query is missing: it holds the GraphQL document."
	}
	return p, 0, ""
}

func (p *parameters) fromURL(r *http.Request) error {
	values := r.URL.Query()
	if values.Has("query") {
		query := values.Get("query")
		p.Query = &query
	}
	if name := values.Get("operationName"); name != "" {
		p.OperationName = &name
	}
	for name, into := range map[string]*map[string]any{"variables": &p.Variables, "extensions": &p.Extensions} {
		if text := values.Get(name); text != "" {
			if !validText(text) {
				return errors.New("invalid text")
			}
			if err := decode([]byte(text), into); err != nil {
				return err
			}
		}
	}
	return nil
}

// decode reads exactly one JSON value; numbers keep all their digits.
func decode(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
}

// validText reports whether JSON or GraphQL says what it says in valid Unicode.
// Decoders replace what is not, silently, which makes different ids equal.
func validText(text string) bool { return utf8.ValidString(text) && !loneSurrogate(text) }

// loneSurrogate reports whether text, JSON or GraphQL, escapes half of a
// surrogate pair.
func loneSurrogate(text string) bool {
	unit := func(i int) (u uint64, ok bool) {
		if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
			return 0, false
		}
		u, err := strconv.ParseUint(text[i+2:i+6], 16, 16)
		return u, err == nil
	}
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			i++
			continue
		}
		u, ok := unit(i)
		switch {
		case !ok:
			i += 2 // any other escape
		case u < 0xd800 || u > 0xdfff:
			i += 6
		default:
			low, ok := unit(i + 6)
			if u > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 12
		}
	}
	return false
}

// negotiate chooses between the media types by the Accept header: the one
// with the highest quality, the earliest of equals; application/json for none,
// for */* and application/*. Empty means that none is accepted.
func negotiate(accept []string) string {
	best, bestQuality := "", 0.0
	header := strings.Join(accept, ",")
	if strings.TrimSpace(header) == "" {
		return typeJSON
	}
	for part := range strings.SplitSeq(header, ",") {
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality := 1.0
		if q, ok := params["q"]; ok {
			if quality, err = strconv.ParseFloat(q, 64); err != nil {
				continue
			}
		}
		if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
			continue
		}
		switch mediaType {
		case "*/*", "application/*":
			mediaType = typeJSON
		case typeJSON, typeResponse, typeStream:
		default:
			continue
		}
		if quality > bestQuality {
			best, bestQuality = mediaType, quality
		}
	}
	return best
}

// answer writes GraphQL answers in the negotiated media type.
type answer struct {
	w         http.ResponseWriter
	mediaType string
}

// refuse answers what is not a GraphQL request at all, in either media type.
func (a answer) refuse(status int, message string) {
	if a.mediaType == typeStream {
		a.mediaType = typeJSON
	}
	a.write(status, map[string]any{"errors": []any{map[string]any{
		"message": message, "extensions": map[string]any{"code": "BAD_USER_INPUT"}}}})
}

// requestError answers a document that was refused before execution: without
// data, and with 400 unless the client asked for application/json, where any
// well-formed answer is 200.
func (a answer) requestError(r *graphql.Response) {
	status := http.StatusBadRequest
	if a.mediaType == typeJSON {
		status = http.StatusOK
	}
	a.write(status, struct {
		Errors gqlerror.List `json:"errors"`
	}{r.Errors})
}

func (a answer) response(status int, r *graphql.Response) {
	if len(r.Errors)+len(r.Extensions) > 0 || r.Data == nil {
		a.write(status, r)
		return
	}
	// The data are JSON already: encoding them again, byte by byte, would take a
	// twentieth of a page's time.
	b := make([]byte, 0, len(r.Data)+len(`{"data":}`))
	a.writeBytes(status, append(append(append(b, `{"data":`...), r.Data...), '}'))
}

func (a answer) write(status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(a.w, "The answer could not be encoded.", http.StatusInternalServerError)
		return
	}
	a.writeBytes(status, b)
}

func (a answer) writeBytes(status int, b []byte) {
	h := a.w.Header()
	h.Set("Content-Type", a.mediaType+"; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	// A client that does not read its answer is let go; the connection may serve
	// another request, which must not inherit the deadline.
	rc := http.NewResponseController(a.w)
	_ = rc.SetWriteDeadline(time.Now().Add(answerTimeout))
	a.w.WriteHeader(status)
	_, _ = a.w.Write(b) // a client that is gone does not mind
	_ = rc.Flush()
	_ = rc.SetWriteDeadline(time.Time{})
}

// answerTimeout is how long a client may take to receive an answer.
const answerTimeout = 30 * time.Second

// smallDocuments caches parsed documents by their text, but no large ones:
// anybody could fill the memory with comments.
type smallDocuments struct {
	graphql.Cache[*ast.QueryDocument]
}

// maxCachedDocument is the size in bytes up to which a document is cached.
const maxCachedDocument = 8 << 10

func (c smallDocuments) Add(ctx context.Context, text string, doc *ast.QueryDocument) {
	if len(text) <= maxCachedDocument {
		c.Cache.Add(ctx, text, doc)
	}
}
