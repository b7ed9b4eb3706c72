package resolvers

import (
	"context"

	"tidemark/chat"
	"tidemark/graph"
)

func (query) Changes(ctx context.Context, since string, first *int32) (*graph.ChangePage, error) {
	if _, err := deviceOf(ctx); err != nil {
		return nil, err
	}
	rows, err := pageRows("first", first, 100)
	if err != nil {
		return nil, err
	}
	page, err := viewOf(ctx).Changes(ctx, since, rows)
	if err != nil {
		return nil, err
	}
	out := &graph.ChangePage{Changed: page.Changed, Withdrawn: []*graph.MessageRef{}, HasMore: page.More, SyncToken: page.SyncToken, Resync: page.Resync}
	if out.Changed == nil {
		out.Changed = []*chat.Conversation{}
	}
	for _, key := range page.Withdrawn {
		out.Withdrawn = append(out.Withdrawn, &graph.MessageRef{ConversationID: key.Conversation, Seq: key.Seq})
	}
	return out, nil
}

type changePageFields struct{}

func (changePageFields) Badge(ctx context.Context, _ *graph.ChangePage) (*chat.Badge, error) {
	return viewOf(ctx).Badge(ctx)
}
