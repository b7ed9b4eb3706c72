package resolvers

import (
	"context"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/hint"
)

// root names the resolver of each type; their methods stand in the files of
// their nouns.
type root struct{ s *Server }

var _ graph.ResolverRoot = (*root)(nil)

func (r *root) Query() graph.QueryResolver               { return query{r.s} }
func (r *root) Mutation() graph.MutationResolver         { return mutation{r.s} }
func (r *root) Subscription() graph.SubscriptionResolver { return subscription{r.s} }

func (r *root) Viewer() graph.ViewerResolver             { return viewerFields{} }
func (r *root) Conversation() graph.ConversationResolver { return conversationFields{} }
func (r *root) ConversationConnection() graph.ConversationConnectionResolver {
	return connectionFields{}
}
func (r *root) ReadPayload() graph.ReadPayloadResolver { return readPayloadFields{} }
func (r *root) ConversationPayload() graph.ConversationPayloadResolver {
	return conversationPayloadFields{}
}
func (r *root) MarkAllReadPayload() graph.MarkAllReadPayloadResolver {
	return markAllReadPayloadFields{}
}
func (r *root) ChangePage() graph.ChangePageResolver     { return changePageFields{} }
func (r *root) Message() graph.MessageResolver           { return messageFields{} }
func (r *root) Receipt() graph.ReceiptResolver           { return receiptFields{} }
func (r *root) ReadChanged() graph.ReadChangedResolver   { return readChangedFields{} }
func (r *root) InboxChanged() graph.InboxChangedResolver { return inboxChangedFields{} }

// mutation has its methods in reading.go, receiving.go, talking.go, settings.go,
// devices.go, provisioning.go and moderation.go.
type mutation struct{ *Server }

// deviceIn is the device behind a call about one conversation, and which.
func deviceIn(ctx context.Context, id chat.ID) (*chat.Device, chat.ConversationID, error) {
	d, err := deviceOf(ctx)
	if err != nil {
		return nil, "", err
	}
	conv, err := conversationID("conversationId", id)
	return d, conv, err
}

// tell hints what a write changed.
func (m mutation) tell(changed bool, err error, hints ...hint.Hint) {
	m.relay.Tell(worthTelling(changed, err, hints...)...)
}
