package chat

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Limits of input. Sizes are bytes of UTF-8.
const (
	MaxIDBytes   = 128
	MaxNameBytes = 256 // names and titles
	MaxBodyBytes = 16 << 10
	MaxPage      = 200   // first and last
	MaxCursors   = 500   // of one ack, and of upTo
	MaxMentions  = 50    // of one message
	MaxMembers   = 1_000 // memberIds and userIds of one call
	MaxAtMost    = 1_000_000
)

// CheckID accepts 1 to 128 bytes of valid UTF-8 without control characters
// (Unicode category Cc).
func CheckID(field, id string) error {
	if id == "" {
		return BadInput(field, field+" must not be empty.")
	}
	return checkText(field, id, MaxIDBytes, false)
}

// CheckName accepts names and titles: up to 256 bytes, no control characters.
func CheckName(field, name string) error { return checkText(field, name, MaxNameBytes, false) }

// CheckBody accepts 1 byte to 16 KiB, tab and newline being the only control characters.
func CheckBody(field, body string) error {
	if body == "" {
		return BadInput(field, field+" must not be empty.")
	}
	return checkText(field, body, MaxBodyBytes, true)
}

// CheckPage accepts the size of a page: 1 to 200 rows.
func CheckPage(field string, n int32) error {
	if n < 1 || n > MaxPage {
		return BadInput(field, fmt.Sprintf("%s must lie between 1 and %d.", field, MaxPage))
	}
	return nil
}

// CheckCount accepts a list of at most max elements.
func CheckCount(field string, n, max int) error {
	if n > max {
		return BadInput(field, fmt.Sprintf("%s takes at most %d elements a call.", field, max))
	}
	return nil
}

func checkText(field, text string, max int, lines bool) error {
	if len(text) > max {
		return BadInput(field, fmt.Sprintf("%s must be at most %d bytes long.", field, max))
	}
	if !utf8.ValidString(text) {
		return BadInput(field, field+" must be valid UTF-8.")
	}
	for _, r := range text {
		if unicode.IsControl(r) && !(lines && (r == '\t' || r == '\n')) {
			return BadInput(field, field+" must not contain control characters.")
		}
	}
	return nil
}
