package resolvers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"tidemark/chat"
	"tidemark/hint"
)

// countingBus keeps what is published on it.
type countingBus struct{ published chan []byte }

func (b *countingBus) MaxPayload() int { return 100_000 }

func (b *countingBus) Publish(_ context.Context, payload []byte) error {
	b.published <- payload
	return nil
}

func (b *countingBus) Listen(ctx context.Context, connected func(), _ func([]byte)) { <-ctx.Done() }

// TestABatchIsOneMessageOnTheBus: the hints of sixty-four calls that were written
// together travel together, those that changed nothing none, and those of a batch whose
// outcome is not known all of them.
func TestABatchIsOneMessageOnTheBus(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	bus := &countingBus{make(chan []byte, 1000)}
	relay := hint.NewRelay(hint.NewHub(nil, log), bus, log)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { relay.Run(ctx) })
	defer running.Wait()
	defer stop()
	var calls []call[int, bool]
	var moved []bool
	for n := range 64 {
		moved = append(moved, n%2 == 0)
		calls = append(calls, call[int, bool]{in: n, hints: func(moved bool, err error) []hint.Hint {
			return worthTelling(moved, err, hint.Hint{Reason: hint.Read, Conversation: chat.ConversationID(fmt.Sprint("c", n)), User: "u"})
		}})
	}
	for name, outcome := range map[string]struct {
		err  error
		want int
	}{"committed": {nil, 32}, "refused": {chat.ErrNotMember(), 0}, "not known": {errors.New("lost"), 64}} {
		telling[int, bool](relay)(calls, moved, outcome.err)
		if outcome.want == 0 {
			continue // what comes next would show it
		}
		payload := <-bus.published
		for !bytes.Contains(payload, []byte(`"h":`)) { // a hello
			payload = <-bus.published
		}
		if got := bytes.Count(payload, []byte(`"r":"READ"`)); got != outcome.want {
			t.Errorf("%s: one message has %d hints, want %d", name, got, outcome.want)
		}
	}
}
