package chat

// This file is the plain definition of unread, written to be obviously right
// rather than fast. Everything the database computes must agree with it.

// Period is a membership period: the inclusive range From to To of seqs, or
// everything from From on while To is 0. A hidden one no longer shows anything.
type Period struct {
	From, To Seq
	Hidden   bool
}

// Sees reports whether a viewer with these periods may see the event at seq.
func Sees(periods []Period, seq Seq) bool {
	for _, p := range periods {
		if !p.Hidden && seq >= p.From && (p.To == 0 || seq <= p.To) {
			return true
		}
	}
	return false
}

// End is the largest seq that a report of this user may claim: head while a
// membership lasts, else the end of the newest period. There must be at least
// one period, in ascending order.
func End(periods []Period, head Seq) Seq {
	if last := periods[len(periods)-1]; last.To != 0 {
		return last.To
	}
	return head
}

// Cap judges a reported position. Beyond head it is CURSOR_AHEAD; beyond the
// end of a membership that is over it is capped there, silently. It holds for
// read and for delivered alike.
func Cap(periods []Period, head, seq Seq) (Seq, error) {
	if len(periods) == 0 {
		return 0, ErrNotMember()
	}
	end := End(periods, head)
	if seq < 0 || seq > end && periods[len(periods)-1].To == 0 {
		return 0, ErrCursorAhead(end)
	}
	return min(seq, end), nil
}

// Merge is the merge of two positions: the larger one, whatever the order of
// their arrival.
func Merge(a, b Seq) Seq { return max(a, b) }

// LogEntry is one event of a log as counting sees it: the entry at index i has seq i+1.
type LogEntry struct {
	Message   bool
	Sender    UserID
	Withdrawn bool
}

// Unread counts, one by one, the messages that the viewer may see, that are not
// withdrawn, that others sent, and whose seq is greater than read.
func Unread(log []LogEntry, periods []Period, viewer UserID, read Seq) int64 {
	var n int64
	for i, e := range log {
		seq := Seq(i + 1)
		if e.Message && !e.Withdrawn && e.Sender != viewer && seq > read && Sees(periods, seq) {
			n++
		}
	}
	return n
}
