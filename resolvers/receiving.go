package resolvers

import (
	"context"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/hint"
	"tidemark/store"
)

func (m mutation) Ack(ctx context.Context, in graph.AckInput) (*graph.AckPayload, error) {
	d, err := deviceOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := chat.CheckCount("cursors", len(in.Cursors), chat.MaxCursors); err != nil {
		return nil, err
	}
	if len(in.Cursors) == 0 {
		return &graph.AckPayload{Cursors: []*graph.DeviceCursor{}, Rejected: []*graph.CursorRejection{}}, checkEpoch(ctx, in.InstallEpoch)
	}
	reports := make([]store.AckReport, len(in.Cursors))
	for i, c := range in.Cursors {
		conv, err := conversationID("conversationId", c.ConversationID)
		if err != nil {
			return nil, err
		}
		reports[i] = store.AckReport{Device: d.ID, InstallEpoch: in.InstallEpoch, Conversation: conv, Seq: c.Seq}
	}
	results, err := m.lanes.acks.Do(ctx, struct{}{}, call[[]store.AckReport, []store.AckResult]{in: reports,
		hints: func(results []store.AckResult, err error) []hint.Hint {
			return deliveredHints(ctx, reports, results, err)
		}})
	if err != nil {
		return nil, err
	}
	out := &graph.AckPayload{Cursors: []*graph.DeviceCursor{}, Rejected: []*graph.CursorRejection{}}
	for i, r := range results {
		switch refusal := cursorRejection(reports[i].Conversation, reports[i].Seq, r.Err); {
		case refusal != nil:
			out.Rejected = append(out.Rejected, refusal)
		case r.Err != nil:
			return nil, r.Err
		default:
			out.Cursors = append(out.Cursors, &graph.DeviceCursor{ConversationID: reports[i].Conversation, Delivered: r.Delivered})
		}
	}
	return out, nil
}

// deliveredHints are for those who watch receipts.
func deliveredHints(ctx context.Context, reports []store.AckReport, results []store.AckResult, err error) []hint.Hint {
	var hints []hint.Hint
	for i, r := range reports {
		h := hint.Hint{Reason: hint.Delivered, Conversation: r.Conversation, User: callerOf(ctx).device.UserID, Shown: true, Origin: callerOf(ctx).hintOrigin()}
		if err == nil {
			if h.Previous, h.Position, h.Shown = results[i].Previous, results[i].Delivered, results[i].Shown; !results[i].Moved {
				continue
			}
		}
		if h.Shown {
			hints = append(hints, h)
		}
	}
	return worthTelling(true, err, hints...)
}

// checkEpoch refuses a stale install where there is no cursor to refuse it with.
func checkEpoch(ctx context.Context, epoch int32) error {
	d, err := viewOf(ctx).Device(ctx)
	if err == nil && d.InstallEpoch != epoch {
		err = chat.ErrStaleInstall()
	}
	return err
}
