package store

import (
	"context"
	"sync"
	"time"

	"tidemark/chat"
)

// receiptCache keeps the counts of large conversations for at most a second, so
// that thousands who look at one message cost one pass over its members. Counts
// do not depend on who looks: whether they may look is asked anew each time.
type receiptCache struct {
	mu       sync.Mutex
	counted  map[countKey]counted
	counting map[chat.ConversationID]chan struct{} // closed when the pass is over
}

type countKey struct {
	position position
	message  chat.MessageKey
}

type counted struct {
	receiptCount
	at time.Time
}

const (
	receiptCacheAge  = time.Second
	receiptCacheSize = 10_000
)

func newReceiptCache() *receiptCache {
	return &receiptCache{counted: map[countKey]counted{}, counting: map[chat.ConversationID]chan struct{}{}}
}

// counts answers for each of the messages, one conversation after the other.
// What is not known is counted by count, by one caller at a time, from a snapshot
// that was opened at seen: that is how old the counts are.
func (c *receiptCache) counts(ctx context.Context, p position, keys []chat.MessageKey, seen time.Time, count func([]chat.MessageKey) (map[chat.MessageKey]*receiptCount, error)) (map[chat.MessageKey]*receiptCount, error) {
	byConversation := map[chat.ConversationID][]chat.MessageKey{}
	for _, key := range keys {
		byConversation[key.Conversation] = append(byConversation[key.Conversation], key)
	}
	all := map[chat.MessageKey]*receiptCount{}
	for conv, keys := range byConversation {
		missing, done, err := c.lookUp(ctx, p, conv, keys, seen, all)
		if err != nil {
			return nil, err
		}
		if len(missing) == 0 {
			continue
		}
		found, err := c.fill(p, conv, done, seen, func() (map[chat.MessageKey]*receiptCount, error) { return count(missing) })
		if err != nil {
			return nil, err
		}
		for key, n := range found {
			all[key] = n
		}
	}
	return all, nil
}

// fill counts and keeps, and lets the next caller in whatever happens.
func (c *receiptCache) fill(p position, conv chat.ConversationID, done chan struct{}, seen time.Time, count func() (map[chat.MessageKey]*receiptCount, error)) (found map[chat.MessageKey]*receiptCount, err error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.counting, conv)
		close(done)
	}()
	if found, err = count(); err == nil {
		c.keep(p, found, seen)
	}
	return found, err
}

// lookUp takes what is known into all, of at most a second before the caller's snapshot. If anything is missing, the caller must
// fill it in; whoever else misses something waits for that.
func (c *receiptCache) lookUp(ctx context.Context, p position, conv chat.ConversationID, keys []chat.MessageKey, seen time.Time, all map[chat.MessageKey]*receiptCount) (missing []chat.MessageKey, done chan struct{}, err error) {
	for {
		c.mu.Lock()
		missing = nil
		for _, key := range keys {
			if known, ok := c.counted[countKey{p, key}]; ok && seen.Sub(known.at) < receiptCacheAge {
				n := known.receiptCount
				all[key] = &n
			} else {
				missing = append(missing, key)
			}
		}
		busy := c.counting[conv]
		if len(missing) > 0 && busy == nil {
			done = make(chan struct{})
			c.counting[conv] = done
		}
		c.mu.Unlock()
		if len(missing) == 0 || busy == nil {
			return missing, done, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// keep stores what was counted. Everything is forgotten when there is too much of it.
func (c *receiptCache) keep(p position, found map[chat.MessageKey]*receiptCount, seen time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.counted)+len(found) > receiptCacheSize {
		clear(c.counted)
	}
	for key, n := range found {
		if k := (countKey{p, key}); c.counted[k].at.Before(seen) {
			c.counted[k] = counted{*n, seen}
		}
	}
}
