package bench

import (
	"bytes"
	"context"
	"fmt"
)

// curve is how something grows.
type curve struct {
	title, explained string
	columns          []string
	rows             [][]string
}

func (c curve) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n|", c.title, c.explained)
	for _, column := range c.columns {
		fmt.Fprintf(b, " %s |", column)
	}
	b.WriteString("\n|")
	for range c.columns {
		b.WriteString("---|")
	}
	for _, row := range c.rows {
		b.WriteString("\n|")
		for _, value := range row {
			fmt.Fprintf(b, " %s |", value)
		}
	}
	b.WriteString("\n")
}

func (s *suite) growth(ctx context.Context) ([]curve, error) { return nil, nil }
