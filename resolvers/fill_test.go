package resolvers_test

import (
	"context"
	"fmt"

	"tidemark/chat"
	"tidemark/store"
)

// fill appends n short messages to a conversation in batches, past the API.
func (w *world) fill(conv, sender string, n int) {
	w.t.Helper()
	w.fillWith(conv, sender, n, "x")
}

// fillWith appends n messages with this body.
func (w *world) fillWith(conv, sender string, n int, body string) {
	w.t.Helper()
	w.fillLike(conv, n, store.Draft{Sender: chat.UserID(sender), Body: body})
}

// fillMentioning appends n messages that mention everybody.
func (w *world) fillMentioning(conv, sender string, n int) {
	w.t.Helper()
	w.fillLike(conv, n, store.Draft{Sender: chat.UserID(sender), Body: "x", MentionsAll: true})
}

func (w *world) fillLike(conv string, n int, draft store.Draft) {
	w.t.Helper()
	for n > 0 {
		var drafts []store.Draft
		for range min(n, 500) {
			draft.ClientMessageID = fmt.Sprint("fill", w.ids.Add(1))
			drafts = append(drafts, draft)
		}
		results, err := w.main.store.Append(context.Background(), chat.ConversationID(conv), drafts)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil {
				w.t.Fatal(r.Err)
			}
		}
		n -= len(drafts)
	}
}
