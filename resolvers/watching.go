package resolvers

import (
	"context"
	"slices"
	"time"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/hint"
	"tidemark/store"
)

func (s subscription) ReceiptsChanged(ctx context.Context, id chat.ID) (<-chan *graph.ReceiptsChanged, error) {
	_, conv, err := deviceIn(ctx, id)
	if err != nil {
		return nil, err
	}
	w := &watch{Server: s.Server, viewer: callerOf(ctx).viewer(), conversation: conv}
	now, err := w.look(ctx, []chat.UserID{})
	if err != nil {
		return nil, err
	}
	if !now.Member {
		return nil, chat.ErrNotMember()
	}
	return subscribe(ctx, s.Server, hint.Receipts, conv, w.run)
}

// watch is one subscription to the receipts of a conversation. It knows what was
// shown last, so that nothing is told twice: in a conversation whose receipts
// have names there are few enough.
type watch struct {
	*Server
	viewer       store.Viewer
	conversation chat.ConversationID
	shown        map[chat.UserID]store.WatchedPosition
}

// run tells what moves until the viewer's membership ends.
func (w *watch) run(ctx context.Context, mailbox *hint.Mailbox, out chan<- *graph.ReceiptsChanged) {
	st := streamOf(ctx)
	for {
		hints, err := mailbox.Take(ctx)
		if err != nil {
			return
		}
		began := time.Now()
		now, err := w.judge(ctx, hints)
		if err != nil || !now.Member {
			return // ctx ended, or the membership
		}
		took := time.Since(began)
		for _, e := range w.events(ctx, hints, now) {
			e.ConversationID = w.conversation
			if _, ok := send(ctx, st, out, e); !ok {
				return
			}
		}
		pace := minPace
		if now.Detail == chat.DetailCounts {
			pace = w.receiptMerge
		}
		if !rest(ctx, began, max(pace, 10*took)) {
			return
		}
	}
}

// lookAgain is how long a watch waits while the database does not answer: what it
// was told of must not be forgotten.
const lookAgain = 500 * time.Millisecond

// judge reads what is true of those whom the hints are about, however often it takes.
func (w *watch) judge(ctx context.Context, hints []hint.Event) (store.Watched, error) {
	users := w.whom(hints)
	for {
		now, err := w.look(ctx, users)
		if err == nil || ctx.Err() != nil {
			return now, err
		}
		w.log.Warn("reading receipts for a subscription failed, trying again", "error", err.Error())
		if !rest(ctx, time.Now(), lookAgain) {
			return now, ctx.Err()
		}
	}
}

// whom names the users to look at; nil is everybody.
func (w *watch) whom(hints []hint.Event) []chat.UserID {
	users, all := movers(hints)
	if all || w.shown == nil {
		return nil
	}
	return users
}

// events makes events of hints from what is true now.
func (w *watch) events(ctx context.Context, hints []hint.Event, now store.Watched) (events []*graph.ReceiptsChanged) {
	users := w.whom(hints)
	_, all := movers(hints)
	visible := now.Policy.Shows(true, now.Shares)
	named := visible && now.Detail == chat.DetailNames
	switch known := w.shown != nil; {
	case hints[0].Reasons[0] == hint.Resync, all && named && !sharing(hints):
		events = []*graph.ReceiptsChanged{{Reason: graph.ReceiptsReasonResync}}
	case sharing(hints) && (visible || own(hints)):
		events = []*graph.ReceiptsChanged{{Reason: graph.ReceiptsReasonSharing}}
	case named && known:
		events = w.moved(users, now)
	case named:
		events = []*graph.ReceiptsChanged{{Reason: graph.ReceiptsReasonResync}}
	case visible:
		if concerned, err := w.concerned(ctx, now.Policy, hints); err != nil || concerned {
			events = []*graph.ReceiptsChanged{{Reason: graph.ReceiptsReasonCounts}}
		}
	}
	w.remember(users, now, named)
	return events
}

// moved tells whose position is another one than was shown last.
func (w *watch) moved(users []chat.UserID, now store.Watched) (events []*graph.ReceiptsChanged) {
	for _, u := range users {
		is, ok := now.Positions[u]
		was := w.shown[u]
		if !ok || is.Read == was.Read && is.Delivered == was.Delivered {
			continue
		}
		e := &graph.ReceiptsChanged{Reason: graph.ReceiptsReasonDelivered, User: is.User}
		if is.Read != was.Read {
			e.Reason = graph.ReceiptsReasonRead
		}
		if is.Read > 0 {
			e.Read = &is.Read
		}
		if is.Delivered > 0 {
			e.Delivered = &is.Delivered
		}
		events = append(events, e)
	}
	return events
}

// remember notes what is shown now: of users, or with nil of everybody.
func (w *watch) remember(users []chat.UserID, now store.Watched, named bool) {
	switch {
	case !named:
		w.shown = nil
	case users == nil:
		w.shown = now.Positions
	default:
		for _, u := range users {
			if p, ok := now.Positions[u]; ok {
				w.shown[u] = p
			} else {
				delete(w.shown, u)
			}
		}
	}
}

// concerned reports whether moves that are told as numbers concern the viewer:
// with policy SENDER only if they passed a message of theirs.
func (w *watch) concerned(ctx context.Context, policy chat.ReceiptPolicy, hints []hint.Event) (bool, error) {
	var from, to chat.Seq
	moves := false
	for _, e := range hints {
		if !slices.Contains(e.Reasons, hint.Read) && !slices.Contains(e.Reasons, hint.AllRead) && !slices.Contains(e.Reasons, hint.Delivered) {
			continue
		}
		if !moves || e.Previous < from {
			from = e.Previous
		}
		if e.Unknown {
			e.Position = chat.EndOfLog
		}
		to, moves = max(to, e.Position), true
	}
	if !moves || policy != chat.ReceiptsSender {
		return moves, nil
	}
	sn := w.store.HintSnapshot()
	defer sn.Close()
	return sn.View(w.viewer).SentWithin(ctx, w.conversation, from, to)
}

func (w *watch) look(ctx context.Context, users []chat.UserID) (store.Watched, error) {
	sn := w.store.HintSnapshot()
	defer sn.Close()
	return sn.View(w.viewer).Watched(ctx, w.conversation, users)
}

// movers are the users whose positions moved. all says that they cannot be told
// one by one, or that it is not only about positions.
func movers(hints []hint.Event) (users []chat.UserID, all bool) {
	users = []chat.UserID{}
	for _, e := range hints {
		if e.User != "" {
			users = append(users, e.User)
		} else if !slices.Equal(e.Reasons, []hint.Reason{hint.Membership}) {
			all = true
		}
	}
	return users, all
}

func sharing(hints []hint.Event) bool {
	return slices.ContainsFunc(hints, func(e hint.Event) bool { return slices.Contains(e.Reasons, hint.Sharing) })
}

func own(hints []hint.Event) bool {
	return slices.ContainsFunc(hints, func(e hint.Event) bool { return e.Own })
}
