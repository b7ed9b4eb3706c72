package resolvers

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"tidemark/graph"
)

// TestPartsAreWhatHasAResolver: a field that reads by itself must not be taken
// for a part of its row, or it would be read from another snapshot.
func TestPartsAreWhatHasAResolver(t *testing.T) {
	for of, resolver := range map[string]reflect.Type{
		"Conversation": reflect.TypeFor[graph.ConversationResolver](),
		"Message":      reflect.TypeFor[graph.MessageResolver](),
	} {
		var fields []string
		for m := range resolver.Methods() {
			fields = append(fields, strings.ToLower(m.Name[:1])+m.Name[1:])
		}
		slices.Sort(fields)
		if want := slices.Sorted(slices.Values(parts[of])); !slices.Equal(fields, want) {
			t.Errorf("%s has resolvers for %v, and parts %v", of, fields, want)
		}
	}
}
