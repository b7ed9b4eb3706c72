package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// logs draws a random log with the membership periods of a viewer in it.
func logs(t *rapid.T) (log []LogEntry, periods []Period) {
	people := []UserID{"me", "you", "them"}
	for n := rapid.IntRange(0, 60).Draw(t, "events"); len(log) < n; {
		present := len(periods) > 0 && periods[len(periods)-1].To == 0
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			log = append(log, LogEntry{}) // a join, a leave, a recall
			if present {
				periods[len(periods)-1].To = Seq(len(log))
			} else {
				if rapid.Bool().Draw(t, "hide") {
					for i := range periods {
						periods[i].Hidden = true
					}
				}
				periods = append(periods, Period{From: Seq(len(log))})
			}
		default:
			who := rapid.SampledFrom(people).Draw(t, "sender")
			if who == "me" && !present {
				continue
			}
			log = append(log, LogEntry{Message: true, Sender: who, Withdrawn: rapid.Bool().Draw(t, "withdrawn")})
		}
	}
	return log, periods
}

// TestP2OrdinalsCountLikeCounting: for every log, membership and position.
func TestP2OrdinalsCountLikeCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, periods := logs(t)
		head := Seq(len(log))
		read := Seq(rapid.IntRange(0, int(head)).Draw(t, "read"))
		var visible []OrdinalPeriod
		var withdrawn int64
		for _, p := range periods {
			if p.Hidden {
				continue
			}
			to := p.To
			if to == 0 {
				to = head
			}
			visible = append(visible, OrdinalPeriod{Before: OrdinalAt(log, "me", p.From-1), Through: OrdinalAt(log, "me", to)})
			for seq := max(p.From, read+1); seq <= to; seq++ {
				if e := log[seq-1]; e.Withdrawn && e.Sender != "me" {
					withdrawn++
				}
			}
		}
		want := Unread(log, periods, "me", read)
		if got := UnreadByOrdinals(visible, OrdinalAt(log, "me", read), withdrawn); got != want || got < 0 {
			t.Fatalf("by ordinals %d, counted %d", got, want)
		}
	})
}

// TestUnreadWorkedExample is the one in the design page.
func TestUnreadWorkedExample(t *testing.T) {
	log := []LogEntry{{}, {}} // ana and ben join
	for range 10 {
		log = append(log, LogEntry{Message: true, Sender: "ana"})
	}
	ben := []Period{{From: 2}}
	check := func(want int64) {
		t.Helper()
		head := OrdinalAt(log, "ben", Seq(len(log)))
		byOrdinals := UnreadByOrdinals([]OrdinalPeriod{{Through: head}}, OrdinalAt(log, "ben", 8), 0)
		if counted := Unread(log, ben, "ben", 8); counted != want || byOrdinals != want {
			t.Errorf("counted %d, by ordinals %d, want %d", counted, byOrdinals, want)
		}
	}
	check(4)
	if at := OrdinalAt(log, "ben", 8); at != (Ordinal{Messages: 6}) {
		t.Errorf("ordinal at 8: %+v", at)
	}
	log = append(log, LogEntry{Message: true, Sender: "ben"})
	check(4)
}

// TestCap: within 0 and head, capped at the end of a membership that is over.
func TestCap(t *testing.T) {
	present, gone := []Period{{From: 1, To: 3}, {From: 5}}, []Period{{From: 1, To: 3}, {From: 5, To: 7}}
	for _, c := range []struct {
		periods   []Period
		seq, want Seq
		code      Code
	}{
		{present, 0, 0, ""}, {present, 9, 9, ""}, {present, 10, 10, ""}, {present, 11, 0, CursorAhead}, {present, -1, 0, CursorAhead},
		{gone, 6, 6, ""}, {gone, 7, 7, ""}, {gone, 8, 7, ""}, {gone, EndOfLog, 7, ""}, {gone, -1, 0, CursorAhead},
		{nil, 1, 0, NotMember},
	} {
		got, err := Cap(c.periods, 10, c.seq)
		if c.code == "" && (err != nil || got != c.want) || c.code != "" && !errors.Is(err, &Error{Code: c.code}) {
			t.Errorf("Cap(%v, 10, %d) = %d, %v", c.periods, c.seq, got, err)
		}
	}
}

// TestMergeIsOrderless: any order and repetition ends at the same position, and
// none goes back.
func TestMergeIsOrderless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reports := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Seq { return Seq(rapid.IntRange(0, 100).Draw(t, "seq")) })).Draw(t, "reports")
		fold := func(list []Seq) (position Seq) {
			for _, r := range list {
				if next := Merge(position, r); next < position {
					t.Fatalf("went back from %d to %d", position, next)
				} else {
					position = next
				}
			}
			return position
		}
		shuffled := rapid.Permutation(append(append([]Seq{}, reports...), reports...)).Draw(t, "shuffled")
		if a, b := fold(reports), fold(shuffled); a != b {
			t.Fatalf("%d and %d", a, b)
		}
	})
}

func TestSeesInclusivePeriods(t *testing.T) {
	periods := []Period{{From: 2, To: 4}, {From: 6, To: 8, Hidden: true}, {From: 10}}
	for seq, want := range map[Seq]bool{1: false, 2: true, 4: true, 5: false, 6: false, 8: false, 9: false, 10: true, 1000: true} {
		if Sees(periods, seq) != want {
			t.Errorf("Sees(%d) is %v", seq, !want)
		}
	}
}

func TestCheckText(t *testing.T) {
	for text, ok := range map[string]bool{
		"a": true, "ä": true, "日本": true, " ": true, strings.Repeat("x", 128): true, strings.Repeat("é", 64): true,
		"": false, strings.Repeat("x", 129): false, strings.Repeat("é", 65): false, "a\x00": false, "a\n": false, "a\t": false, "a\u0085": false, "a\u009f": false, "a\xff": false,
	} {
		if err := CheckID("id", text); (err == nil) != ok {
			t.Errorf("CheckID(%q): %v", text, err)
		} else if err != nil && !errors.Is(err, &Error{Code: BadUserInput}) {
			t.Errorf("CheckID(%q): %v is not BAD_USER_INPUT", text, err)
		}
	}
	for text, ok := range map[string]bool{"a\tb\nc": true, strings.Repeat("x", 16<<10): true, "": false, "a\rb": false, strings.Repeat("x", 16<<10+1): false} {
		if err := CheckBody("body", text); (err == nil) != ok {
			t.Errorf("CheckBody(%.20q): %v", text, err)
		}
	}
	if CheckName("name", "") != nil || CheckName("name", strings.Repeat("x", 257)) == nil {
		t.Error("names may be empty and are at most 256 bytes long")
	}
}

func TestScalars(t *testing.T) {
	for in, want := range map[any]Seq{int64(5): 5, 7: 7, json.Number("9007199254740991"): 1<<53 - 1, "12": 12, "-3": -3} {
		var s Seq
		if err := s.UnmarshalGQL(in); err != nil || s != want {
			t.Errorf("Seq from %v: %d, %v", in, s, err)
		}
	}
	for _, in := range []any{1.5, "1.5", "x", "", "+1", nil, true, json.Number("1e3"), json.Number("99999999999999999999"), []any{1}} {
		var s Seq
		if err := s.UnmarshalGQL(in); !errors.Is(err, &Error{Code: BadUserInput}) {
			t.Errorf("Seq from %v: %v", in, err)
		}
	}
	var b strings.Builder
	DateTime{time.Date(2026, 1, 31, 13, 0, 0, 1_999_999, time.FixedZone("", 3600))}.MarshalGQL(&b)
	if b.String() != `"2026-01-31T12:00:00.001Z"` {
		t.Errorf("DateTime prints %s", b.String())
	}
	var id ConversationID
	for in, want := range map[any]ConversationID{"c": "c", json.Number("5"): "5", int64(7): "7"} {
		if err := id.UnmarshalGQL(in); err != nil || id != want {
			t.Errorf("id from %v: %q, %v", in, id, err)
		}
	}
	for _, in := range []any{1.5, json.Number("1.5"), json.Number("1e30"), true, nil} {
		if err := id.UnmarshalGQL(in); err == nil {
			t.Errorf("%v passes for an id", in)
		}
	}
}

func TestUnreadStopsAtMost(t *testing.T) {
	c := &Conversation{UnreadMessages: 5000}
	at := func(n int32) *int32 { return &n }
	for _, probe := range []struct {
		atMost *int32
		want   int32
	}{{nil, 5000}, {at(100), 100}, {at(5000), 5000}, {at(1_000_000), 5000}} {
		if got, err := c.Unread(probe.atMost); err != nil || got != probe.want {
			t.Errorf("%d, %v", got, err)
		}
	}
	for _, n := range []int32{0, -1, 1_000_001} {
		if _, err := c.Unread(&n); !errors.Is(err, &Error{Code: BadUserInput}) {
			t.Errorf("atMost %d: %v", n, err)
		}
	}
	if Count(1<<40) != 1<<31-1 {
		t.Error("a count beyond an Int is not capped")
	}
	if fmt.Sprint(ErrCursorAhead(7)) == "" {
		t.Error("an error without text")
	}
}
