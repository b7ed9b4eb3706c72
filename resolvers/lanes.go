package resolvers

import (
	"context"
	"errors"
	"slices"
	"time"

	"tidemark/chat"
	"tidemark/hint"
	"tidemark/store"
)

// lanes are what requests do together with others of their kind. Whatever
// arrives while the last batch is under way is one statement, and its hints are
// one message on the bus.
type lanes struct {
	credentials *lane[store.TokenHash, *chat.Device]
	reads       *lane[call[[]store.ReadReport, []store.ReadResult], []store.ReadResult]
	acks        *lane[call[[]store.AckReport, []store.AckResult], []store.AckResult]
	sends       *store.Lanes[chat.ConversationID, call[store.Draft, store.Appended], store.Appended]
	// payloads reads what mutations answer, events what subscriptions tell.
	payloads *lane[store.Want, store.Found]
	// By store.EventLane.
	events *store.Lanes[int, []store.Want, []store.Found]
}

// lane is one for the whole process.
type lane[In, Out any] = store.Lanes[struct{}, In, Out]

// call is a write and the hints that it causes, given what became of it.
type call[In, Out any] struct {
	in    In
	hints func(Out, error) []hint.Hint
}

// readLimit is how long a batch of reads may take, so that its halves may still be
// answered in time.
const readLimit = 3 * time.Second

// badgeWeight is what a badge counts for in a batch: it looks at all of its
// viewer's conversations.
const badgeWeight = 16

func weightOf(w store.Want) int {
	if w.Badge {
		return badgeWeight
	}
	return 1
}

func newLanes(s *store.Store, relay *hint.Relay) lanes {
	shared, hints := s.ForLanes(), s.ForHints()
	return lanes{
		credentials: store.NewLanes(store.LaneOptions[struct{}, store.TokenHash, *chat.Device]{Carry: whole(shared.Authenticate), Divide: store.ReadFailed, Limit: readLimit}),
		reads: store.NewLanes(store.LaneOptions[struct{}, call[[]store.ReadReport, []store.ReadResult], []store.ReadResult]{
			Carry: joined(shared.MarkRead), Alone: joined(s.MarkRead), Divide: store.RefusedOrLocked, Settled: telling[[]store.ReadReport, []store.ReadResult](relay),
			Weight: listed[store.ReadReport, []store.ReadResult], Overlap: store.WorthOverlap}),
		acks: store.NewLanes(store.LaneOptions[struct{}, call[[]store.AckReport, []store.AckResult], []store.AckResult]{
			Carry: joined(shared.Ack), Alone: joined(s.Ack), Divide: store.RefusedOrLocked, Settled: telling[[]store.AckReport, []store.AckResult](relay),
			Weight: listed[store.AckReport, []store.AckResult], Overlap: store.WorthOverlap}),
		// All of a batch wait for the same lock, their conversation's, so that halving
		// it would not help.
		sends: store.NewLanes(store.LaneOptions[chat.ConversationID, call[store.Draft, store.Appended], store.Appended]{
			Carry: func(ctx context.Context, conv chat.ConversationID, calls []call[store.Draft, store.Appended]) ([]store.Appended, error) {
				drafts := make([]store.Draft, len(calls))
				for i, c := range calls {
					drafts[i] = c.in
				}
				return s.Append(ctx, conv, drafts)
			}, Settled: telling[store.Draft, store.Appended](relay)}),
		payloads: store.NewLanes(store.LaneOptions[struct{}, store.Want, store.Found]{Carry: whole(shared.See), Divide: store.ReadFailed, Limit: readLimit, Weight: weightOf}),
		events: store.NewLanes(store.LaneOptions[int, []store.Want, []store.Found]{
			Carry: lists[int](hints.See), Divide: store.ReadFailed, Limit: readLimit, Rest: restOfEvents, Batch: eventBatch, Weight: func(wants []store.Want) int { return len(wants) }}),
	}
}

// wait waits for what runs.
func (l *lanes) wait() {
	l.credentials.Wait()
	l.reads.Wait()
	l.acks.Wait()
	l.sends.Wait()
	l.payloads.Wait()
	l.events.Wait()
}

// whole carries calls as they are.
func whole[In, Out any](do func(context.Context, []In) ([]Out, error)) func(context.Context, struct{}, []In) ([]Out, error) {
	return func(ctx context.Context, _ struct{}, batch []In) ([]Out, error) { return do(ctx, batch) }
}

// lists carries lists as one list.
func lists[K, In, Out any](do func(context.Context, []In) ([]Out, error)) func(context.Context, K, [][]In) ([][]Out, error) {
	return func(ctx context.Context, _ K, batch [][]In) ([][]Out, error) {
		outs, err := do(ctx, slices.Concat(batch...))
		if err != nil {
			return nil, err
		}
		results := make([][]Out, len(batch))
		for i, list := range batch {
			results[i], outs = outs[:len(list):len(list)], outs[len(list):]
		}
		return results, nil
	}
}

// joined carries calls with a list each as one list.
func joined[In, Out any](write func(context.Context, []In) ([]Out, error)) func(context.Context, struct{}, []call[[]In, []Out]) ([][]Out, error) {
	carry := lists[struct{}](write)
	return func(ctx context.Context, key struct{}, calls []call[[]In, []Out]) ([][]Out, error) {
		ins := make([][]In, len(calls))
		for i, c := range calls {
			ins[i] = c.in
		}
		return carry(ctx, key, ins)
	}
}

// listed is the length of a call's list.
func listed[In, Out any](c call[[]In, Out]) int { return len(c.in) }

// telling gives the hints of a batch to the relay at once.
func telling[In, Out any](relay *hint.Relay) func([]call[In, Out], []Out, error) {
	return func(calls []call[In, Out], outs []Out, err error) {
		var hints []hint.Hint
		for i, c := range calls {
			var out Out
			if err == nil {
				out = outs[i]
			}
			hints = append(hints, c.hints(out, err)...)
		}
		relay.Tell(hints...)
	}
}

// worthTelling are the hints of a write that changed something. One that failed
// for no reason of the domain may have been committed all the same, its answer
// lost: then it is hinted, too, since a repeated call would find nothing left to change.
func worthTelling(changed bool, err error, hints ...hint.Hint) []hint.Hint {
	if err == nil && changed || err != nil && !errors.As(err, new(*chat.Error)) {
		return hints
	}
	return nil
}
