package resolvers

import (
	"sync"

	"tidemark/chat"
)

// maxSockets is how many sockets one device may have open: some tabs, and some
// dead connections that were not noticed yet.
const maxSockets = 32

var errTooManySockets = &chat.Error{Code: chat.RateLimited, RetryAfterMs: 1000,
	Message: "This device has too many connections open. Close some first."}

// sockets are the open sockets of this process.
type sockets struct {
	mu       sync.Mutex
	open     map[*socket]chat.DeviceID // no device before connection_init
	devices  map[chat.DeviceID]int
	draining bool
}

func (s *sockets) add(one *socket) {
	s.mu.Lock()
	draining := s.draining
	if s.open == nil {
		s.open, s.devices = map[*socket]chat.DeviceID{}, map[chat.DeviceID]int{}
	}
	s.open[one] = ""
	s.mu.Unlock()
	if draining {
		one.drain()
	}
}

// claim counts a socket as its device's; false if the device has too many.
func (s *sockets) claim(one *socket, d chat.DeviceID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.devices[d] >= maxSockets {
		return false
	}
	s.devices[d]++
	s.open[one] = d
	return true
}

func (s *sockets) remove(one *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.open[one]
	delete(s.open, one)
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
