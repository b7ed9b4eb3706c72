package chat

// This file is the ordinal form of unread: the same number as [Unread] without
// looking at the log between the position and its end.
//
// Every event carries, written once, message_ord: how many messages the log
// holds up to and including it; a message also carries how many of those its
// sender wrote. Both never decrease along the log, so a range of seqs is a
// range of ordinals, and its messages are a difference.

// Ordinal is the pair that is stored beside a position: how many messages lie
// at or before it, withdrawn ones included, and how many of those are the user's own.
type Ordinal struct{ Messages, Own int64 }

// OrdinalPeriod is a visible membership period in ordinals: Before is the
// ordinal of the seq before its first, Through that of its last. While the
// period is open, Through is that of head.
type OrdinalPeriod struct{ Before, Through Ordinal }

// UnreadByOrdinals is the sum over the visible periods of the messages after
// read, less the user's own among them. withdrawn is how many withdrawn
// messages of others lie in those parts.
func UnreadByOrdinals(periods []OrdinalPeriod, read Ordinal, withdrawn int64) int64 {
	var n int64
	for _, p := range periods {
		messages := max(0, p.Through.Messages-max(p.Before.Messages, read.Messages))
		own := max(0, p.Through.Own-max(p.Before.Own, read.Own))
		n += messages - own
	}
	return max(0, n-withdrawn)
}

// OrdinalAt is the ordinal of a position of viewer, found by counting. Seqs
// beyond the log count as its end.
func OrdinalAt(log []LogEntry, viewer UserID, seq Seq) Ordinal {
	var o Ordinal
	for _, e := range log[:min(int(seq), len(log))] {
		if e.Message {
			o.Messages++
			if e.Sender == viewer {
				o.Own++
			}
		}
	}
	return o
}
