package resolvers_test

import (
	"slices"
	"testing"
)

// TestAnswersHaveNoLaterParts: @defer is no directive of this schema, in no
// operation. An answer is one, from one snapshot: what came later would be read
// from another, or be missing without an error.
func TestAnswersHaveNoLaterParts(t *testing.T) {
	g := newTrio(t)
	g.a.send(g.conv, 3)
	for _, doc := range []string{
		`{ conversation(id: "c1") { id ... @defer { lastMessage { seq } } } }`,
		`{ conversation(id: "c1") { ...later @defer(label: "x") } } fragment later on Conversation { unread }`,
		`mutation { markRead(input: {conversationId: "c1", seq: 3}) { ... @defer { badge { unread } } } }`,
		`subscription { inboxChanged { ... @defer { badge { unread } } } }`,
	} {
		refused(t, doc, g.b1.do(doc, nil), "GRAPHQL_VALIDATION_FAILED", "")
	}
	equal(t, "read", g.b1.see(g.conv).Read, 0)
	var schema struct {
		Schema struct {
			Directives []struct{ Name string }
		} `json:"__schema"`
	}
	g.b1.must(`{ __schema { directives { name } } }`, nil).into(&schema)
	var names []string
	for _, d := range schema.Schema.Directives {
		names = append(names, d.Name)
	}
	if !slices.Contains(names, "skip") || slices.Contains(names, "defer") {
		t.Errorf("the directives are %v", names)
	}
}
