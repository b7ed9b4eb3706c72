package resolvers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"

	"tidemark/chat"
)

const codeInternal = "INTERNAL"

func init() {
	// Refusals that come before execution are answered as request errors.
	errcode.RegisterErrorType(string(chat.TooComplex), errcode.KindProtocol)
	errcode.RegisterErrorType(string(chat.BadUserInput), errcode.KindProtocol)
}

// maxErrors is how many errors an answer carries: a small request must not buy a large one.
const maxErrors = 10

// failures collects what went wrong in one request, for one line of the log.
type failures struct {
	requestID string
	mu        sync.Mutex
	codes     []string
	internal  []string
}

type failuresKey struct{}

func withFailures(ctx context.Context) context.Context {
	return context.WithValue(ctx, failuresKey{}, &failures{requestID: newRequestID()})
}

func failuresOf(ctx context.Context) *failures {
	if f, ok := ctx.Value(failuresKey{}).(*failures); ok {
		return f
	}
	return &failures{requestID: newRequestID()}
}

// log writes one line about a failed request and forgets it: never a token, a
// body or an argument.
func (f *failures) log(ctx context.Context, log *slog.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.codes) == 0 {
		return
	}
	level, args := slog.LevelInfo, []any{"requestId", f.requestID, "codes", strings.Join(f.codes, ",")}
	if len(f.internal) > 0 {
		level = slog.LevelError
		args = append(args, "error", strings.Join(f.internal, "; "))
	}
	log.Log(ctx, level, "request failed", args...)
	f.codes, f.internal = nil, nil
}

func (f *failures) note(code, internal string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.codes, code) {
		f.codes = append(f.codes, code)
	}
	if internal != "" && len(f.internal) < maxErrors {
		f.internal = append(f.internal, internal)
	}
}

// present turns any error into what a client may see: the domain's own errors
// with their code, the protocol's with theirs, and of everything else only that
// it happened.
func present(ctx context.Context, err error) *gqlerror.Error {
	e := translate(ctx, err)
	code, _ := e.Extensions["code"].(string)
	internal := ""
	if code == codeInternal {
		if !errors.Is(err, context.Canceled) { // a client that hung up is no failure of ours
			internal = err.Error()
		}
		e.Extensions["requestId"] = failuresOf(ctx).requestID
	}
	if code != codeInternal || internal != "" {
		failuresOf(ctx).note(code, internal)
	}
	return e
}

func translate(ctx context.Context, err error) *gqlerror.Error {
	var domain *chat.Error
	var protocol *gqlerror.Error
	errors.As(err, &protocol)
	out := &gqlerror.Error{Extensions: map[string]any{}}
	if protocol != nil {
		out.Path, out.Locations = protocol.Path, protocol.Locations
	} else {
		out.Path = graphql.GetPath(ctx)
	}
	// A path that goes on into the arguments names the one at fault.
	field := argumentOf(ctx, out)

	switch {
	case errors.As(err, &domain):
		out.Message = domain.Message
		out.Extensions["code"] = string(domain.Code)
		if domain.Field != "" {
			field = domain.Field
		}
		if domain.Head != nil {
			out.Extensions["head"] = *domain.Head
		}
		if domain.Read != nil {
			out.Extensions["read"], out.Extensions["revision"] = *domain.Read, *domain.Revision
		}
		if domain.RetryAfterMs > 0 {
			out.Extensions["retryAfterMs"] = domain.RetryAfterMs
		}
	case protocol != nil && protocol.Extensions["code"] == errcode.ValidationFailed:
		out.Message = protocol.Message
		if out.Message == "operation  not found" {
			out.Message = "The document holds several operations: name one of them with operationName."
		}
		out.Extensions["code"] = errcode.ValidationFailed
		if protocol.Rule == "ValuesOfCorrectType" {
			out.Extensions["code"] = string(chat.BadUserInput)
			if field = argumentHolding(ctx, beyond64Bits); field != "" {
				out.Message = field + " must be a number of at most 64 bits."
			} else {
				field = argumentHolding(ctx, literalAt(protocol))
			}
		} else if len(protocol.Path) > 0 && protocol.Path[0] == ast.PathName("variable") {
			out.Extensions["code"] = string(chat.BadUserInput)
			field, out.Path = lastName(protocol.Path), nil
			out.Message = "The variable $" + strings.TrimPrefix(protocol.Path.String(), "variable.") + " " + complaint(protocol.Message)
			if len(protocol.Path) == 2 { // the variable as a whole: name the argument it goes into
				if argument := argumentHolding(ctx, variableNamed(field)); argument != "" {
					field = argument
				}
			}
		}
	case protocol != nil && protocol.Extensions["code"] == errcode.ParseFailed:
		out.Message = protocol.Message
		out.Extensions["code"] = errcode.ParseFailed
	case protocol != nil && protocol.Extensions["code"] == codeTooComplex:
		out.Message = protocol.Message + ". Ask for less at a time."
		out.Extensions["code"] = string(chat.TooComplex)
	case field != "":
		// A scalar of gqlgen's own refused the value: its text is about Go types.
		out.Message = field + " has a value that does not fit its type."
		out.Extensions["code"] = string(chat.BadUserInput)
	default:
		out.Message = "Something went wrong on the server's side. Try again; if it keeps failing, report the requestId."
		out.Extensions["code"] = codeInternal
	}
	if field != "" && out.Extensions["code"] != errcode.ValidationFailed {
		out.Extensions["field"] = field
	}
	return out
}

// complaint says what is wrong with a variable, without the Go types that
// gqlparser talks about.
func complaint(message string) string {
	for _, known := range []string{"must be defined", "unknown field", "cannot be null"} {
		if strings.Contains(message, known) {
			return message + "."
		}
	}
	return "has a value that does not fit its type."
}

// codeTooComplex is what gqlgen's complexity limit calls it.
const codeTooComplex = "COMPLEXITY_LIMIT_EXCEEDED"

// argumentOf names the argument that an error's path leads into beyond the
// field being resolved, and cuts the path back to that field.
func argumentOf(ctx context.Context, e *gqlerror.Error) string {
	fc := graphql.GetFieldContext(ctx)
	if fc == nil {
		return ""
	}
	depth := len(fc.Path())
	if len(e.Path) <= depth {
		return ""
	}
	name := lastName(e.Path[depth:])
	e.Path = e.Path[:depth]
	return name
}

func lastName(path ast.Path) string {
	for _, element := range slices.Backward(path) {
		if name, ok := element.(ast.PathName); ok {
			return string(name)
		}
	}
	return ""
}

// argumentHolding names the argument or input field of the document whose value
// satisfies is. The document is parsed once more: where it was refused, nobody
// kept it.
func argumentHolding(ctx context.Context, is func(*ast.Value) bool) (name string) {
	if !graphql.HasOperationContext(ctx) {
		return ""
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: graphql.GetOperationContext(ctx).RawQuery}, maxTokens)
	if err != nil {
		return ""
	}
	var inValue func(as string, v *ast.Value)
	inValue = func(as string, v *ast.Value) {
		if v == nil {
			return
		}
		if is(v) {
			name = as
		}
		for _, child := range v.Children {
			if child.Name != "" {
				inValue(child.Name, child.Value)
			} else {
				inValue(as, child.Value)
			}
		}
	}
	var inSelection func(ast.SelectionSet)
	inSelection = func(set ast.SelectionSet) {
		for _, sel := range set {
			switch sel := sel.(type) {
			case *ast.Field:
				for _, a := range sel.Arguments {
					inValue(a.Name, a.Value)
				}
				inSelection(sel.SelectionSet)
			case *ast.InlineFragment:
				inSelection(sel.SelectionSet)
			}
		}
	}
	for _, op := range doc.Operations {
		inSelection(op.SelectionSet)
	}
	for _, f := range doc.Fragments {
		inSelection(f.SelectionSet)
	}
	return name
}

// literalAt is the value that an error's location points at.
func literalAt(e *gqlerror.Error) func(*ast.Value) bool {
	return func(v *ast.Value) bool {
		return len(e.Locations) > 0 && v.Position != nil && v.Position.Line == e.Locations[0].Line && v.Position.Column == e.Locations[0].Column
	}
}

// variableNamed is a use of a variable.
func variableNamed(name string) func(*ast.Value) bool {
	return func(v *ast.Value) bool { return v.Kind == ast.Variable && v.Raw == name }
}

// recovered turns a panic of a resolver into an internal error; the stack goes
// to the log only.
func (s *Server) recovered(ctx context.Context, p any) error {
	s.log.ErrorContext(ctx, "panic in a resolver", "requestId", failuresOf(ctx).requestID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return fmt.Errorf("panic: %v", p)
}
