// Package migrations embeds the numbered SQL that builds the schema. The files
// only ever go forward; schema.sql beside them is the result, to be read.
package migrations

import "embed"

// FS holds the migrations in goose's format, named NNNNN_title.sql.
//
//go:embed 0*.sql
var FS embed.FS
