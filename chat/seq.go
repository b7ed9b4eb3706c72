package chat

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
)

// Seq is a position in one conversation's log. The first event has seq 1; 0
// stands for "before the first event". Seqs have no gaps and are given in the
// order of commits.
type Seq int64

// EndOfLog lies behind every seq.
const EndOfLog = Seq(math.MaxInt64)

// MarshalGQL writes the seq as a JSON number.
func (s Seq) MarshalGQL(w io.Writer) { _, _ = io.WriteString(w, strconv.FormatInt(int64(s), 10)) }

// UnmarshalGQL reads an integer or a numeric string. Negative values pass: the
// rules answer them with CURSOR_AHEAD, as they do any other impossible position.
func (s *Seq) UnmarshalGQL(v any) error {
	n, err := readInteger(v)
	if err != nil {
		return err
	}
	*s = Seq(n)
	return nil
}

// Version orders answers about the same thing: the larger one is newer. It is
// the number of transactions that the answer's snapshot saw finished.
type Version int64

// MarshalGQL writes the version as a JSON number.
func (v Version) MarshalGQL(w io.Writer) { _, _ = io.WriteString(w, strconv.FormatInt(int64(v), 10)) }

// UnmarshalGQL reads an integer or a numeric string.
func (v *Version) UnmarshalGQL(x any) error {
	n, err := readInteger(x)
	if err != nil {
		return err
	}
	*v = Version(n)
	return nil
}

func readInteger(v any) (int64, error) {
	var text string
	switch v := v.(type) {
	case int64:
		return v, nil
	case int:
		return int64(v), nil
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text[0] == '+' {
		return 0, &Error{Code: BadUserInput, Message: "A position must be a whole number of at most 64 bits."}
	}
	return n, nil
}
