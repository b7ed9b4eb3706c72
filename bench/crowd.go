package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

const (
	crowdSessions = 500
	// crowdConversations is how many each of them has: their badge is a sum over these.
	crowdConversations = 100
	// crowdPace is ten messages a second.
	crowdPace = 100 * time.Millisecond
	// badgeDelay is how late after the last message every badge must be right.
	badgeDelay = time.Second
)

const watchDocument = `subscription { inboxChanged { reasons conversationId badge { unread version } } }`

// crowd: a message that five hundred online sessions hear of, each of which
// selects its badge.
func (s *suite) crowd(ctx context.Context) ([]trial, func(), error) {
	if err := s.db.execute(ctx, crowdData()...); err != nil {
		return nil, nil, err
	}
	sv, err := s.serve(ctx)
	if err != nil {
		return nil, nil, err
	}
	listening, cancel := context.WithCancel(ctx)
	c := &crowd{suite: s, server: sv, badges: make([]badge, crowdSessions), changed: make(chan struct{}, 1)}
	stop := func() {
		cancel()
		c.listening.Wait()
		if c.sender != nil {
			c.sender.close()
		}
		sv.stop()
	}
	if err := c.connect(listening, sv.address); err != nil {
		stop()
		return nil, nil, err
	}
	return []trial{{name: fmt.Sprintf("message into a group with %d online sessions that select badge (%d conversations each), 10 a second", crowdSessions, crowdConversations),
		against: "a budget; every badge right within 1 s of the last", unit: "ms of database time a message", single: true, target: 100,
		ours: c.run, note: c.note}}, stop, nil
}

type badge struct{ Unread, Version int64 }

type crowd struct {
	*suite
	server    *server
	sender    *client
	sent      int64
	slowest   time.Duration
	listening sync.WaitGroup

	mu      sync.Mutex
	badges  []badge
	events  int
	err     error
	changed chan struct{}
}

// connect opens the sessions; the first one is the sender's own.
func (c *crowd) connect(ctx context.Context, address string) (err error) {
	if c.sender, err = dial(address, "token-of-fan-1"); err != nil {
		return err
	}
	for n := range crowdSessions {
		s, err := open(ctx, address, fmt.Sprintf("token-of-fan-%d", n+1))
		if err == nil {
			err = s.start(ctx, "1", watchDocument, nil)
		}
		if err != nil {
			return err
		}
		c.listening.Go(func() { c.listen(ctx, s, n) })
	}
	return c.settled(ctx, 30*time.Second)
}

// listen keeps the newest badge that session n was told.
func (c *crowd) listen(ctx context.Context, s *socket, n int) {
	defer s.conn.CloseNow()
	for {
		f, err := s.next(ctx)
		var event struct {
			Data struct{ InboxChanged struct{ Badge *badge } }
		}
		if err == nil && f.Type == "next" {
			err = json.Unmarshal(f.Payload, &event)
		} else if err == nil {
			err = fmt.Errorf("a session was told %s: %s", f.Type, f.Payload)
		}
		c.mu.Lock()
		if b := event.Data.InboxChanged.Badge; b != nil && b.Version >= c.badges[n].Version {
			c.badges[n] = *b
		}
		c.events++
		if err != nil && ctx.Err() == nil && c.err == nil {
			c.err = err
		}
		c.mu.Unlock()
		select {
		case c.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// settled waits until every badge counts every message that was sent.
func (c *crowd) settled(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		wrong, err := c.wrong()
		if wrong == 0 || err != nil {
			return err
		}
		select {
		case <-c.changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d badges were not right within %s", wrong, crowdSessions, within)
		}
	}
}

func (c *crowd) wrong() (wrong int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, b := range c.badges {
		want := int64(crowdUnread)
		if n > 0 { // one's own messages do not count
			want += c.sent
		}
		if b.Version == 0 || b.Unread != want {
			wrong++
		}
	}
	return wrong, c.err
}

// run sends for a while and answers how long the database was busy for each message.
func (c *crowd) run(ctx context.Context) (float64, error) {
	messages := 50
	if c.Quick {
		messages = 20
	}
	before := c.server.Busy()
	tick := time.NewTicker(crowdPace)
	defer tick.Stop()
	for range messages {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		c.mu.Lock()
		c.sent++
		id := c.sent
		c.mu.Unlock()
		if _, err := c.sender.post(sendDocument, map[string]any{"in": map[string]any{"conversationId": "fans", "clientMessageId": fmt.Sprint("fan", id), "body": "hello, all of you"}}); err != nil {
			return 0, err
		}
	}
	last := time.Now()
	if err := c.settled(ctx, badgeDelay); err != nil {
		return 0, err
	}
	c.slowest = max(c.slowest, time.Since(last))
	return float64((c.server.Busy() - before).Microseconds()) / 1000 / float64(messages), nil
}

func (c *crowd) note() string {
	return fmt.Sprintf("; the last badge came %d ms after the last message", c.slowest.Milliseconds())
}
