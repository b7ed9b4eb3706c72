package resolvers

import (
	"context"
	"errors"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/hint"
	"tidemark/store"
)

func (m mutation) MarkRead(ctx context.Context, in graph.MarkReadInput) (*graph.ReadPayload, error) {
	d, conv, err := deviceIn(ctx, in.ConversationID)
	if err != nil {
		return nil, err
	}
	if err := checkRevision("revision", in.Revision); err != nil {
		return nil, err
	}
	results, err := m.lanes.reads.Do(ctx, struct{}{}, call[[]store.ReadReport, []store.ReadResult]{
		in: []store.ReadReport{{User: d.UserID, Conversation: conv, Seq: in.Seq, Revision: in.Revision}},
		hints: func(results []store.ReadResult, err error) []hint.Hint {
			r, err := onlyRead(results, err)
			return worthTelling(r.Moved, err, readHint(ctx, conv, r))
		}})
	if _, err := onlyRead(results, err); err != nil {
		return nil, err
	}
	c, _, err := m.look(ctx, conv, 0)
	return &graph.ReadPayload{Conversation: c}, err
}

// onlyRead is the result of a call with a single report.
func onlyRead(results []store.ReadResult, err error) (store.ReadResult, error) {
	if err != nil {
		return store.ReadResult{}, err
	}
	return results[0], results[0].Err
}

// readHint tells of a move of the caller's position. A result that is not known
// is shown to everybody whom it may concern: they read what is true.
func readHint(ctx context.Context, conv chat.ConversationID, r store.ReadResult) hint.Hint {
	d := callerOf(ctx).device
	return hint.Hint{Reason: hint.Read, Conversation: conv, User: d.UserID, Position: r.Read, Revision: r.Revision, Device: d.ID,
		Previous: r.Seen.Previous, Shown: r == store.ReadResult{} || r.Seen.Shown && r.Seen.Seen > r.Seen.Previous, Origin: callerOf(ctx).hintOrigin()}
}

func checkRevision(field string, revision *int32) error {
	if revision != nil && *revision < 0 {
		return chat.BadInput(field, field+" must be a readRevision that the server answered.")
	}
	return nil
}

type readPayloadFields struct{}

func (readPayloadFields) Badge(ctx context.Context, _ *graph.ReadPayload) (*chat.Badge, error) {
	return viewOf(ctx).Badge(ctx)
}

func (m mutation) MarkUnread(ctx context.Context, in graph.MarkUnreadInput) (*graph.ReadPayload, error) {
	d, conv, err := deviceIn(ctx, in.ConversationID)
	if err != nil {
		return nil, err
	}
	u := store.Unreading{From: in.Seq}
	if in.Seq != nil {
		switch {
		case *in.Seq == 0:
			return nil, chat.BadInput("seq", "seq must be the first message that shall be unread again; leave it out to set the reminder only.")
		case in.ExpectedRead == nil:
			return nil, chat.BadInput("expectedRead", "expectedRead is required with seq: the read position that the client sees.")
		}
		u.Expected = *in.ExpectedRead
	}
	after, err := m.store.MarkUnread(ctx, d.UserID, conv, u)
	m.tell(err == nil, err, hint.Hint{Reason: hint.MarkedUnread, Conversation: conv, User: d.UserID,
		Position: after.Read, Revision: after.Revision, Device: d.ID, Origin: callerOf(ctx).hintOrigin()})
	if err != nil {
		return nil, err
	}
	c, _, err := m.look(ctx, conv, 0)
	return &graph.ReadPayload{Conversation: c}, err
}

func (m mutation) MarkAllRead(ctx context.Context, in graph.MarkAllReadInput) (*graph.MarkAllReadPayload, error) {
	d, err := deviceOf(ctx)
	if err != nil {
		return nil, err
	}
	mentions := in.IncludeMentions != nil && *in.IncludeMentions
	if in.UpTo != nil {
		return m.readUpTo(ctx, d.UserID, in.UpTo, mentions)
	}
	changed, err := m.store.ReadEverything(ctx, d.UserID, mentions)
	if err != nil {
		m.tell(false, err, hint.Hint{Reason: hint.Resync, User: d.UserID}) // any of them may have been read
		return nil, err
	}
	m.tell(len(changed) > 0, nil, allReadHints(ctx, changed)...)
	return &graph.MarkAllReadPayload{Changed: chat.Count(int64(len(changed))), Rejected: []*graph.CursorRejection{}}, nil
}

// readUpTo reports a list of positions, each judged by itself.
func (m mutation) readUpTo(ctx context.Context, user chat.UserID, upTo []*graph.ReadCursorInput, mentions bool) (*graph.MarkAllReadPayload, error) {
	if err := chat.CheckCount("upTo", len(upTo), chat.MaxCursors); err != nil {
		return nil, err
	}
	reports := make([]store.ReadReport, len(upTo))
	for i, c := range upTo {
		conv, err := conversationID("conversationId", c.ConversationID)
		if err != nil {
			return nil, err
		}
		if err := checkRevision("revision", c.Revision); err != nil {
			return nil, err
		}
		reports[i] = store.ReadReport{User: user, Conversation: conv, Seq: c.Seq, Revision: c.Revision, KeepMentions: !mentions}
	}
	results, err := m.lanes.reads.Do(ctx, struct{}{}, call[[]store.ReadReport, []store.ReadResult]{in: reports,
		hints: func(results []store.ReadResult, err error) []hint.Hint {
			return readUpToHints(ctx, reports, results, err)
		}})
	if err != nil {
		return nil, err
	}
	rejected := []*graph.CursorRejection{}
	for i, r := range results {
		if refusal := cursorRejection(reports[i].Conversation, reports[i].Seq, r.Err); refusal != nil {
			rejected = append(rejected, refusal)
		} else if r.Err != nil {
			return nil, r.Err
		}
	}
	return &graph.MarkAllReadPayload{Changed: chat.Count(int64(len(movedBy(reports, results)))), Rejected: rejected}, nil
}

// movedBy names each conversation once in which a report moved anything.
func movedBy(reports []store.ReadReport, results []store.ReadResult) (moved []store.ConversationRead) {
	known := map[chat.ConversationID]bool{}
	for i, r := range results {
		if conv := reports[i].Conversation; r.Err == nil && r.Moved && !known[conv] {
			known[conv] = true
			moved = append(moved, store.ConversationRead{Conversation: conv, Seen: r.Seen})
		}
	}
	return moved
}

// readUpToHints tells of what moved; of everything if that is not known.
func readUpToHints(ctx context.Context, reports []store.ReadReport, results []store.ReadResult, err error) []hint.Hint {
	for _, r := range results {
		if err == nil && r.Err != nil && !errors.As(r.Err, new(*chat.Error)) {
			err = r.Err // it may have moved
		}
	}
	if err == nil {
		moved := movedBy(reports, results)
		return worthTelling(len(moved) > 0, nil, allReadHints(ctx, moved)...)
	}
	user := callerOf(ctx).device.UserID
	hints := []hint.Hint{{Reason: hint.Resync, User: user}}
	for _, r := range reports {
		hints = append(hints, hint.Hint{Reason: hint.AllRead, Conversation: r.Conversation, User: user, Shown: true})
	}
	return worthTelling(false, err, hints...)
}

// cursorRejection is a refusal that belongs to one position of a list; nil for
// any other error, and for none.
func cursorRejection(conv chat.ConversationID, seq chat.Seq, err error) *graph.CursorRejection {
	var refused *chat.Error
	if !errors.As(err, &refused) || refused.Code != chat.NotMember && refused.Code != chat.CursorAhead {
		return nil
	}
	return &graph.CursorRejection{ConversationID: chat.ID(conv), Seq: seq, Code: string(refused.Code), Message: refused.Message}
}

// allReadHints tells once that everything may have been read, and where it was.
func allReadHints(ctx context.Context, changed []store.ConversationRead) []hint.Hint {
	d, origin := callerOf(ctx).device, callerOf(ctx).hintOrigin()
	hints := []hint.Hint{{Reason: hint.AllRead, User: d.UserID, Device: d.ID, Origin: origin}}
	for _, c := range changed {
		hints = append(hints, hint.Hint{Reason: hint.AllRead, Conversation: c.Conversation, User: d.UserID, Device: d.ID,
			Position: c.Seen.Seen, Previous: c.Seen.Previous, Shown: c.Seen.Shown && (c.Seen.Seen == 0 || c.Seen.Seen != c.Seen.Previous), Origin: origin})
	}
	return hints
}

type markAllReadPayloadFields struct{}

func (markAllReadPayloadFields) Badge(ctx context.Context, _ *graph.MarkAllReadPayload) (*chat.Badge, error) {
	return viewOf(ctx).Badge(ctx)
}
