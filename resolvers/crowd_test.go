package resolvers_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/chat"
)

// TestA41ACrowdThatSelectsBadge: a message that 500 online sessions hear of, each
// of which selects its badge. Requests of others are served meanwhile, after the last
// message every badge is right, and the badges of many sessions are one statement.
// How soon, and at what cost, is measured by tidemark bench.
func TestA41ACrowdThatSelectsBadge(t *testing.T) {
	const messages = 20
	w := newWorld(t)
	a := w.device("A", "a1")
	others := w.bigGroup("big", 500)
	bystander := w.device("Z", "z1")
	w.group("quiet", "A", "Z")
	streams := make([]*stream, len(others))
	for n, u := range others {
		_, token, err := w.main.store.CreateDevice(t.Context(), u, chat.DeviceID(fmt.Sprint("crowd", n)), nil)
		if err != nil {
			t.Fatal(err)
		}
		streams[n] = (&client{p: w.main, token: token}).socket().subscribe(`subscription { inboxChanged { reasons conversationId badge { unread version } } }`)
	}
	for _, s := range streams {
		s.resync()
	}
	var served atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			bystander.must(`{ badge { unread } conversations(first: 5) { nodes { id unread } } }`, nil)
			served.Add(1)
		}
	}()
	statements := w.main.sent(func() {
		for range messages {
			a.send("big", 1)
			time.Sleep(100 * time.Millisecond) // the pace of the messages, not a wait for anything
		}
		close(stop)
		<-stopped
		for n, s := range streams {
			last := badge{}
			for last.Unread != messages {
				if b := s.next().Badge; b != nil && b.Version > last.Version {
					last = *b
				}
			}
			if last.Unread != messages {
				t.Fatalf("the badge of %s is %d", others[n], last.Unread)
			}
		}
	})
	if served.Load() < messages {
		t.Errorf("the bystander was served %d times while %d messages were sent", served.Load(), messages)
	}
	badges := 0
	for _, sql := range statements {
		if strings.Contains(sql, "WITH ORDINALITY AS k(u, i) CROSS JOIN LATERAL") {
			badges++
		}
	}
	if alone := int(served.Load()); badges-alone > messages*len(others)/10 {
		t.Errorf("%d statements for the badges of %d sessions and %d messages", badges-alone, len(others), messages)
	}
}
