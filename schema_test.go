package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// TestSchemaIsTheContract: the schema has every type, field, argument, default,
// value and directive of the contract, and no other. Descriptions may differ.
func TestSchemaIsTheContract(t *testing.T) {
	schema, contract := structure(t, "schema.graphqls"), structure(t, "testdata/contract.graphqls")
	for _, line := range contract {
		if !slices.Contains(schema, line) {
			t.Errorf("the schema lacks %s", line)
		}
	}
	for _, line := range schema {
		if !slices.Contains(contract, line) {
			t.Errorf("the contract knows no %s", line)
		}
	}
	if len(contract) < 400 {
		t.Errorf("the contract has only %d lines", len(contract))
	}
}

// TestEverythingIsDescribed: each type says what it is.
func TestEverythingIsDescribed(t *testing.T) {
	for name, def := range load(t, "schema.graphqls").Types {
		if !def.BuiltIn && def.Description == "" {
			t.Errorf("%s has no description", name)
		}
	}
}

func load(t *testing.T, file string) *ast.Schema {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return gqlparser.MustLoadSchema(&ast.Source{Name: file, Input: string(text)})
}

// structure is a schema as lines, one for each thing that a client can depend on.
func structure(t *testing.T, file string) (lines []string) {
	t.Helper()
	schema := load(t, file)
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	value := func(v *ast.Value) string {
		if v == nil {
			return ""
		}
		return " = " + v.String()
	}
	for name, def := range schema.Types {
		if def.BuiltIn {
			continue
		}
		say("%s %s implements %s%s", def.Kind, name, strings.Join(def.Interfaces, " "), directives(def.Directives))
		for _, f := range def.Fields {
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			say("%s.%s: %s%s%s", name, f.Name, f.Type, value(f.DefaultValue), directives(f.Directives))
			for _, a := range f.Arguments {
				say("%s.%s(%s: %s%s)%s", name, f.Name, a.Name, a.Type, value(a.DefaultValue), directives(a.Directives))
			}
		}
		for _, v := range def.EnumValues {
			say("%s.%s%s", name, v.Name, directives(v.Directives))
		}
		for _, member := range def.Types {
			say("%s has %s", name, member)
		}
	}
	for name, d := range schema.Directives {
		if d.Position.Src.BuiltIn {
			continue
		}
		say("@%s on %v repeatable %v", name, d.Locations, d.IsRepeatable)
		for _, a := range d.Arguments {
			say("@%s(%s: %s%s)", name, a.Name, a.Type, value(a.DefaultValue))
		}
	}
	return lines
}

func directives(list ast.DirectiveList) string {
	var out strings.Builder
	for _, d := range list {
		fmt.Fprintf(&out, " @%s", d.Name)
		for _, a := range d.Arguments {
			fmt.Fprintf(&out, "(%s: %s)", a.Name, a.Value)
		}
	}
	return out.String()
}
