package resolvers

import (
	"context"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidemark/chat"
	"tidemark/store"
)

// reading is the one snapshot that an operation reads from.
type reading struct {
	sn   *store.Snapshot
	view *store.View // with the caller's eyes
}

type readingKey struct{}

func withReading(ctx context.Context, sn *store.Snapshot) context.Context {
	return context.WithValue(ctx, readingKey{}, &reading{sn, sn.View(callerOf(ctx).viewer())})
}

// viewOf is what resolvers read through.
func viewOf(ctx context.Context) *store.View { return ctx.Value(readingKey{}).(*reading).view }

func snapshotOf(ctx context.Context) *store.Snapshot { return ctx.Value(readingKey{}).(*reading).sn }

// aroundOperation gives an operation its place in the log, and a query or a
// mutation its deadline and its place among what a shutdown waits for.
func (s *Server) aroundOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	ctx = withFailures(ctx)
	if graphql.GetOperationContext(ctx).Operation.Operation == ast.Subscription {
		return next(withStream(ctx))
	}
	if !s.running.enter() {
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{present(ctx, errShuttingDown)}})
	}
	if graphql.GetOperationContext(ctx).Operation.Operation == ast.Mutation {
		// A client that hangs up does not undo what is being committed: the rest,
		// the hints above all, must follow.
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	handler := next(ctx)
	var once bool
	return func(ctx context.Context) *graphql.Response {
		if once {
			return nil
		}
		once = true
		defer s.running.leave()
		defer cancel()
		return handler(ctx)
	}
}

var errShuttingDown = &chat.Error{Code: chat.RateLimited, RetryAfterMs: 1000, Message: "The server is shutting down. Try again in a moment."}

// aroundRootField gives each field of a mutation a snapshot of its own, opened
// after its commit and closed before the next field, so that its payload shows
// what it wrote and no operation holds two connections.
func (s *Server) aroundRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	if graphql.GetOperationContext(ctx).Operation.Operation != ast.Mutation {
		return next(ctx)
	}
	sn := s.store.Snapshot()
	defer sn.Close()
	return next(withReading(ctx, sn))
}

// aroundResponse gives a query, and each event of a subscription, its snapshot;
// cuts off errors beyond the tenth; and writes the line of a failed request.
func (s *Server) aroundResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	var response *graphql.Response
	switch operationKind(ctx) {
	case ast.Query:
		sn := s.store.Snapshot()
		defer sn.Close()
		response = next(withReading(ctx, sn))
	case ast.Subscription:
		sn := s.store.HintSnapshot()
		defer func() { streamOf(ctx).evaluated(sn.Close()) }()
		response = next(withReading(ctx, sn))
	default:
		response = next(ctx)
	}
	if response != nil && len(response.Errors) > maxErrors {
		response.Errors = response.Errors[:maxErrors]
	}
	failuresOf(ctx).log(ctx, s.log)
	return response
}

// operationKind is empty for a document that was refused.
func operationKind(ctx context.Context) ast.Operation {
	if !graphql.HasOperationContext(ctx) || graphql.GetOperationContext(ctx).Operation == nil {
		return ""
	}
	return graphql.GetOperationContext(ctx).Operation.Operation
}

// stream paces the events of one subscription. The producer sends an event,
// waits until it was evaluated, and so never runs ahead.
type stream struct {
	// badge says whether the event on its way may evaluate a badge. This and what
	// follows is written before the event is sent and read while it is resolved.
	badge bool
	// held is what was read for the event together with others', err why it could not be.
	held store.Found
	err  error
	done chan time.Duration
}

type streamKey struct{}

func withStream(ctx context.Context) context.Context {
	return context.WithValue(ctx, streamKey{}, &stream{done: make(chan time.Duration, 1)})
}

func streamOf(ctx context.Context) *stream {
	if st, ok := ctx.Value(streamKey{}).(*stream); ok {
		return st
	}
	return &stream{done: make(chan time.Duration, 1)} // of a subscription that was refused
}

// evaluated tells the producer how long the database was busy with its event.
func (st *stream) evaluated(took time.Duration) {
	select {
	case st.done <- took:
	default:
	}
}
