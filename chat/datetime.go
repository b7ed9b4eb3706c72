package chat

import (
	"io"
	"time"
)

// DateTime is an instant. It prints as RFC 3339 in UTC with exactly three
// decimals. No rule uses it: it is for display and for the order of the list.
type DateTime struct{ time.Time }

// MarshalGQL writes the instant as a JSON string, milliseconds cut off.
func (t DateTime) MarshalGQL(w io.Writer) {
	writeJSON(w, t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// UnmarshalGQL reads RFC 3339.
func (t *DateTime) UnmarshalGQL(v any) error {
	text, ok := v.(string)
	if ok {
		parsed, err := time.Parse(time.RFC3339, text)
		if err == nil {
			t.Time = parsed
			return nil
		}
	}
	return &Error{Code: BadUserInput, Message: "An instant must be RFC 3339, such as 2026-01-31T12:00:00.000Z."}
}
