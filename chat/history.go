package chat

import "slices"

// This file is the plain definition of unread, of mentions and of archives,
// written to be obviously right rather than fast. Everything the database computes must agree with it.

// Period is a membership period: the inclusive range From to To of seqs, or
// everything from From on while To is 0. A hidden one no longer shows anything;
// SeenCap is how far its user had seen when it was hidden, at most To.
type Period struct {
	From, To Seq
	Hidden   bool
	SeenCap  Seq
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
	Message     bool
	Sender      UserID
	Withdrawn   bool
	Mentions    []UserID
	MentionsAll bool
	// Since has the seq of the edit that made a mention, by whom it mentions; the
	// empty id stands for all. A mention that is not here came with the message.
	Since map[UserID]Seq
}

// mentionsOther reports whether the entry counts as a mention of the viewer: a
// message of somebody else, not withdrawn, that names them or everybody, and did
// so by end, after which a viewer who has left learns of nothing.
func (e LogEntry) mentionsOther(viewer UserID, end Seq) bool {
	return e.Message && !e.Withdrawn && e.Sender != viewer &&
		(e.MentionsAll && e.Since[""] <= end || slices.Contains(e.Mentions, viewer) && e.Since[viewer] <= end)
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

// MaxMentionCount is where counting unread mentions stops.
const MaxMentionCount = 999

// UnreadMentions counts, one by one, the messages of others that mention the
// viewer, that they may see, that are not withdrawn, and whose seq is greater
// than the mention position; at most [MaxMentionCount]. first is the smallest
// of them, 0 if there is none.
func UnreadMentions(log []LogEntry, periods []Period, viewer UserID, after Seq) (n int64, first Seq) {
	for i, e := range log {
		seq := Seq(i + 1)
		if seq > after && Sees(periods, seq) && e.mentionsOther(viewer, End(periods, Seq(len(log)))) {
			if n++; first == 0 {
				first = seq
			}
		}
	}
	return min(n, MaxMentionCount), first
}

// ArchiveLasts reports whether an archive made at seq is still in effect: it
// ends with the first newer message of another user that was appended while the
// viewer was a member.
func ArchiveLasts(log []LogEntry, periods []Period, viewer UserID, at Seq) bool {
	for i, e := range log {
		seq := Seq(i + 1)
		if seq > at && e.Message && e.Sender != viewer && InAudience(periods, seq) {
			return false
		}
	}
	return true
}
