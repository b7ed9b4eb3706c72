package chat

// Position is how far a user has read one conversation. Mention <= Read <= Seen.
type Position struct {
	Read Seq
	// Mention is how far mentions count as seen.
	Mention Seq
	// Seen is the furthest that was ever read: what others are told. It never goes back.
	Seen Seq
	// Revision counts the markUnread calls so far.
	Revision int32
	// MarkedUnread is the reminder flag.
	MarkedUnread bool
}

// Accepts is the fence: a report that carries an older revision than the
// position's was made before a markUnread and must not undo it. Without a
// revision a report is a plain maximum; one from the future counts as present.
func (p Position) Accepts(revision *int32) bool { return revision == nil || *revision >= p.Revision }

// MarkRead merges an accepted report, already capped, by maximum. It clears the
// reminder flag also where nothing moves. keepMentions leaves the mention
// position alone.
func (p Position) MarkRead(seq Seq, keepMentions bool) Position {
	p.Read = Merge(p.Read, seq)
	p.Seen = Merge(p.Seen, seq)
	if !keepMentions {
		p.Mention = Merge(p.Mention, seq)
	}
	p.MarkedUnread = false
	return p
}

// MarkUnread goes back, so that the message at from counts again; at or beyond
// the read position + 1 nothing moves. The mention position goes back with it,
// what others saw stays. from must be at least 1.
func (p Position) MarkUnread(from Seq) Position {
	p.Read = min(p.Read, from-1)
	p.Mention = min(p.Mention, from-1)
	p.Revision++
	return p
}

// Remind sets the reminder flag.
func (p Position) Remind() Position {
	p.MarkedUnread = true
	p.Revision++
	return p
}
