package resolvers

import (
	"context"
	"fmt"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidemark/chat"
	"tidemark/graph"
)

// Limits of one operation. Long lists travel as variables, which have no tokens.
const (
	maxTokens     = 1_000
	maxDepth      = 15
	maxFields     = 500
	maxRootFields = 20
	maxComplexity = 50_000
)

// operationLimit refuses operations that are too deep or too wide before
// anything walks them in full: each fragment is measured once, however often it
// is spread, so that a bomb of nested fragments costs its own length.
type operationLimit struct{}

func (operationLimit) ExtensionName() string                          { return "OperationLimit" }
func (operationLimit) Validate(schema graphql.ExecutableSchema) error { return nil }

func (operationLimit) MutateOperationContext(_ context.Context, opCtx *graphql.OperationContext) *gqlerror.Error {
	m := measure{doc: opCtx.Doc, fragments: map[string]size{}}
	total := m.selections(opCtx.Operation.SelectionSet)
	switch {
	case m.badNumber != "":
		return requestError(chat.BadInput(m.badNumber, m.badNumber+" must be a number of at most 64 bits."))
	case opCtx.Operation.Operation == ast.Subscription && (total.roots != 1 || conditional(opCtx.Operation.SelectionSet)):
		err := gqlerror.Errorf("a subscription must select exactly one field, without a condition")
		errcode.Set(err, errcode.ValidationFailed)
		return err
	case total.roots > maxRootFields:
		return tooComplex(fmt.Sprintf("The operation selects more than %d root fields. Ask for less at a time.", maxRootFields))
	case total.depth > maxDepth:
		return tooComplex(fmt.Sprintf("The operation is more than %d fields deep. Ask for less at a time.", maxDepth))
	case total.fields > maxFields:
		return tooComplex(fmt.Sprintf("The operation selects more than %d fields. Ask for less at a time.", maxFields))
	}
	return nil
}

// conditional reports whether something directly in the set may be left out.
func conditional(set ast.SelectionSet) bool {
	for _, sel := range set {
		var directives ast.DirectiveList
		switch sel := sel.(type) {
		case *ast.Field:
			directives = sel.Directives
		case *ast.InlineFragment:
			if conditional(sel.SelectionSet) {
				return true
			}
			directives = sel.Directives
		case *ast.FragmentSpread:
			if sel.Definition != nil && conditional(sel.Definition.SelectionSet) {
				return true
			}
			directives = sel.Directives
		}
		if directives.ForName("skip") != nil || directives.ForName("include") != nil {
			return true
		}
	}
	return false
}

func tooComplex(message string) *gqlerror.Error {
	return requestError(&chat.Error{Code: chat.TooComplex, Message: message})
}

// requestError refuses an operation before it is executed. The code beside the
// error tells transports so.
func requestError(e *chat.Error) *gqlerror.Error {
	err := gqlerror.Wrap(e)
	errcode.Set(err, string(e.Code))
	return err
}

// beyond64Bits is a literal number that gqlparser cannot hold.
func beyond64Bits(v *ast.Value) bool {
	if v.Kind != ast.IntValue && v.Kind != ast.FloatValue {
		return false
	}
	_, err := v.Value(nil)
	return err != nil
}

// size is what a selection set expands to. Fields saturate, so that doubling
// fragments cannot overflow.
type size struct{ roots, fields, depth int }

type measure struct {
	doc       *ast.QueryDocument
	fragments map[string]size
	// badNumber is an argument with a literal beyond 64 bits, over which gqlparser panics later on.
	badNumber string
}

func (m *measure) argument(name string, v *ast.Value) {
	if v == nil {
		return
	}
	if beyond64Bits(v) {
		m.badNumber = name
	}
	for _, child := range v.Children {
		if child.Name != "" {
			m.argument(child.Name, child.Value)
		} else {
			m.argument(name, child.Value)
		}
	}
}

func (m *measure) selections(set ast.SelectionSet) (total size) {
	for _, sel := range set {
		var s size
		switch sel := sel.(type) {
		case *ast.Field:
			if sel.Name == "__schema" || sel.Name == "__type" {
				s = size{roots: 1, fields: 1, depth: 1} // has a depth rule of its own
				break
			}
			for _, a := range sel.Arguments {
				m.argument(a.Name, a.Value)
			}
			s = m.selections(sel.SelectionSet)
			s = size{roots: 1, fields: s.fields + 1, depth: s.depth + 1}
		case *ast.InlineFragment:
			s = m.selections(sel.SelectionSet)
		case *ast.FragmentSpread:
			s = m.fragment(sel.Name)
		}
		total.roots = min(total.roots+s.roots, maxRootFields+1)
		total.fields = min(total.fields+s.fields, maxFields+1)
		total.depth = max(total.depth, s.depth)
	}
	return total
}

func (m *measure) fragment(name string) size {
	if s, ok := m.fragments[name]; ok {
		return s
	}
	var s size
	if f := m.doc.Fragments.ForName(name); f != nil {
		s = m.selections(f.SelectionSet)
	}
	m.fragments[name] = s
	return s
}

// bodyWeight is what a message's body counts for: it may hold 16 KiB, and an
// answer as a whole must stay within some tens of megabytes.
const bodyWeight = 20

// audienceWeight is what looking through the audience of a message counts for,
// however short the page is: each list of readers looks through all who were ever members.
const audienceWeight = 50

// complexity weighs lists by the size of the page that is asked for, and bodies
// by what they may hold.
func complexity(c *graph.ComplexityRoot) {
	c.Message.Body = func(int) int { return bodyWeight }
	c.Query.Conversations = func(child int, first *int32, _ *string, _ *graph.ConversationFilter) int {
		return 1 + child*pageSize(first, 20)
	}
	c.Conversation.Events = func(child int, _ *chat.Seq, first *int32, _ *chat.Seq, last *int32) int {
		if first == nil {
			first = last
		}
		return 1 + child*pageSize(first, 50)
	}
	c.Query.Changes = func(child int, _ string, first *int32) int { return 1 + child*pageSize(first, 100) }
	readers := func(child int, first *int32, _ *string) int { return audienceWeight + child*pageSize(first, 50) }
	c.Receipt.Readers, c.Receipt.Pending = readers, readers
	c.Conversation.Members = func(child int, first *int32, _ *string) int {
		return 1 + child*pageSize(first, 50)
	}
}

// pageSize counts a page that will be refused as the largest one, so that a
// negative number cannot pay for another field.
func pageSize(n *int32, fallback int) int {
	switch {
	case n == nil:
		return fallback
	case *n < 0 || *n > chat.MaxPage:
		return chat.MaxPage
	}
	return int(*n)
}
