package resolvers

import (
	"sync"

	"tidemark/chat"
)

// maxSockets is how many sockets and streams one device may have open: some tabs,
// and some dead connections that were not noticed yet.
const maxSockets = 32

var errTooManySockets = &chat.Error{Code: chat.RateLimited, RetryAfterMs: 1000,
	Message: "This device has too many connections open. Close some first."}

// sockets are the open sockets of this process, and how many connections each
// device has: sockets and streams.
type sockets struct {
	mu       sync.Mutex
	open     map[*socket]struct{}
	devices  map[chat.DeviceID]int
	draining bool
}

func (s *sockets) add(one *socket) {
	s.mu.Lock()
	draining := s.draining
	if s.open == nil {
		s.open = map[*socket]struct{}{}
	}
	s.open[one] = struct{}{}
	s.mu.Unlock()
	if draining {
		one.drain()
	}
}

func (s *sockets) remove(one *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, one)
}

// claim counts a connection as a device's; false if the device has too many.
func (s *sockets) claim(d chat.DeviceID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.devices[d] >= maxSockets {
		return false
	}
	if s.devices == nil {
		s.devices = map[chat.DeviceID]int{}
	}
	s.devices[d]++
	return true
}

// release gives a claimed connection back; no device is none.
func (s *sockets) release(d chat.DeviceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d == "" {
		return
	}
	if s.devices[d]--; s.devices[d] == 0 {
		delete(s.devices, d)
	}
}

// drain lets each socket finish what it runs and then ends it.
func (s *sockets) drain() {
	for _, one := range s.all() {
		one.drain()
	}
}

// endAll ends what is left.
func (s *sockets) endAll() {
	for _, one := range s.all() {
		one.end(closeGoingAway, "Going away")
	}
}

func (s *sockets) all() (list []*socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for one := range s.open {
		list = append(list, one)
	}
	return list
}
