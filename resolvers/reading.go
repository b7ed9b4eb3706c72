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
	if in.Revision != nil && *in.Revision < 0 {
		return nil, chat.BadInput("revision", "revision must be a readRevision that the server answered.")
	}
	results, err := m.store.MarkRead(ctx, []store.ReadReport{{User: d.UserID, Conversation: conv, Seq: in.Seq, Revision: in.Revision}})
	var r store.ReadResult
	if err == nil {
		r, err = results[0], results[0].Err
	}
	m.tell(r.Moved, err, hint.Hint{Reason: hint.Read, Conversation: conv, User: d.UserID,
		Position: r.Read, Revision: r.Revision, Device: d.ID, Origin: callerOf(ctx).hintOrigin()})
	if err != nil {
		return nil, err
	}
	c, err := viewOf(ctx).Conversation(ctx, conv)
	return &graph.ReadPayload{Conversation: c}, err
}

type readPayloadFields struct{}

func (readPayloadFields) Badge(ctx context.Context, _ *graph.ReadPayload) (*chat.Badge, error) {
	return viewOf(ctx).Badge(ctx)
}

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
	results, err := m.store.Ack(ctx, reports)
	if err != nil {
		return nil, err
	}
	out := &graph.AckPayload{Cursors: []*graph.DeviceCursor{}, Rejected: []*graph.CursorRejection{}}
	for i, r := range results {
		var refused *chat.Error
		switch {
		case r.Err == nil:
			out.Cursors = append(out.Cursors, &graph.DeviceCursor{ConversationID: reports[i].Conversation, Delivered: r.Delivered})
		case errors.As(r.Err, &refused) && (refused.Code == chat.NotMember || refused.Code == chat.CursorAhead):
			out.Rejected = append(out.Rejected, &graph.CursorRejection{ConversationID: in.Cursors[i].ConversationID,
				Seq: reports[i].Seq, Code: string(refused.Code), Message: refused.Message})
		default:
			return nil, r.Err
		}
	}
	return out, nil
}

// checkEpoch refuses a stale install where there is no cursor to refuse it with.
func checkEpoch(ctx context.Context, epoch int32) error {
	d, err := viewOf(ctx).Device(ctx)
	if err == nil && d.InstallEpoch != epoch {
		err = chat.ErrStaleInstall()
	}
	return err
}
