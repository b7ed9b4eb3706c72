// Package graph is generated from schema.graphqls by gqlgen. Only this file is
// written by hand; run "make generate" after a change to the schema.
package graph

//go:generate go tool gqlgen generate
