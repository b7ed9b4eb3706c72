package resolvers

import (
	"context"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/store"
)

type messageFields struct{}

func (messageFields) Receipt(ctx context.Context, m *chat.Message) (*chat.Receipt, error) {
	return viewOf(ctx).Receipt(ctx, m)
}

type receiptFields struct{}

func (receiptFields) DeliveredCount(ctx context.Context, r *chat.Receipt) (int32, error) {
	return viewOf(ctx).DeliveredCount(ctx, r)
}

func (receiptFields) Readers(ctx context.Context, r *chat.Receipt, first *int32, after *string) (*graph.ReaderConnection, error) {
	return readers(ctx, r, false, first, after)
}

func (receiptFields) Pending(ctx context.Context, r *chat.Receipt, first *int32, after *string) (*graph.ReaderConnection, error) {
	return readers(ctx, r, true, first, after)
}

func readers(ctx context.Context, r *chat.Receipt, pending bool, first *int32, after *string) (*graph.ReaderConnection, error) {
	rows, err := pageRows("first", first, 50)
	if err != nil {
		return nil, err
	}
	from, err := parseReaderCursor(after, r.Message, pending)
	if err != nil {
		return nil, err
	}
	page, err := viewOf(ctx).Readers(ctx, r, store.ReaderRange{Pending: pending, After: from, Limit: rows})
	if page == nil || err != nil {
		return nil, err
	}
	out := &graph.ReaderConnection{Edges: []*graph.ReaderEdge{}, Nodes: []*chat.Reader{},
		PageInfo: &graph.PageInfo{HasNextPage: page.More, HasPreviousPage: after != nil}}
	for _, reader := range page.Readers {
		out.Nodes = append(out.Nodes, reader)
		out.Edges = append(out.Edges, &graph.ReaderEdge{Cursor: readerCursor(r.Message, pending, reader.User.ID), Node: reader})
	}
	if n := len(out.Edges); n > 0 {
		out.PageInfo.StartCursor, out.PageInfo.EndCursor = &out.Edges[0].Cursor, &out.Edges[n-1].Cursor
	}
	return out, nil
}
