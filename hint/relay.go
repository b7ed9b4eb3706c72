package hint

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"time"
)

// HelloEvery is how often a process says that it lives and how many messages it
// has sent. After three periods of silence it counts as gone.
const HelloEvery = 2 * time.Second

const (
	silence = 3 * HelloEvery
	// maxQueue is how many hints may wait for the bus. More are dropped, and the
	// other processes are told to look at everything.
	maxQueue = 10_000
)

// Relay joins the hub of this process with those of the others. Each message
// carries the process and a running number; whoever sees a gap, or a peer
// vanish, or does not hear itself, resyncs its own sessions.
type Relay struct {
	hub     *Hub
	bus     Bus
	log     *slog.Logger
	process string

	mu       sync.Mutex
	queue    []Hint
	overflow bool
	wake     chan struct{}
	peers    map[string]*peer
	began    time.Time
	heard    time.Time // when something of our own last came back
	deaf     bool      // that is overdue, and was acted on
	relisten func()    // ends the present listening, so that it begins anew
	hearing  time.Time // since when the bus is heard

	windows windows
}

type peer struct {
	last  int64
	heard time.Time
}

// message is what travels on the bus.
type message struct {
	Process string `json:"p"`
	Number  int64  `json:"n"`
	Hints   []Hint `json:"h,omitempty"`
	// Lost says that the sender dropped hints.
	Lost bool `json:"lost,omitempty"`
	// Bye says that the sender ends and sends no more.
	Bye bool `json:"bye,omitempty"`
}

// NewRelay makes a relay; [Relay.Run] must run for hints to leave the process.
func NewRelay(hub *Hub, bus Bus, log *slog.Logger) *Relay {
	return &Relay{hub: hub, bus: bus, log: log, process: rand.Text(), wake: make(chan struct{}, 1), peers: map[string]*peer{}, relisten: func() {}, windows: newWindows()}
}

// Tell delivers hints to this process's sessions and queues them for the other
// processes. It is called after the commit and never blocks.
func (r *Relay) Tell(hints ...Hint) { r.tell(r.windows.admit(hints, time.Now())) }

func (r *Relay) tell(hints []Hint) {
	if len(hints) == 0 {
		return
	}
	r.hub.Deliver(hints)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue)+len(hints) > maxQueue {
		r.queue, r.overflow = nil, true
	} else {
		r.queue = append(r.queue, hints...)
	}
	r.signal()
}

func (r *Relay) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Healthy reports whether hints travel: our own hello came back lately.
func (r *Relay) Healthy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.heard) < silence
}

// Run listens and publishes until ctx ends, then says goodbye.
func (r *Relay) Run(ctx context.Context) {
	r.mu.Lock()
	r.began = time.Now()
	r.mu.Unlock()
	var running sync.WaitGroup
	running.Go(func() { r.listen(ctx) })
	released := make(chan struct{})
	running.Go(func() {
		defer close(released)
		r.windows.run(ctx, r.tell)
	})
	r.publish(ctx, released)
	running.Wait()
}

// listen keeps listening. A connection that is dead without having ended would
// keep us deaf for as long as TCP believes in it: it is given up from outside.
func (r *Relay) listen(ctx context.Context) {
	for ctx.Err() == nil {
		once, cancel := context.WithCancel(ctx)
		r.mu.Lock()
		r.relisten = cancel
		r.mu.Unlock()
		r.bus.Listen(once, r.connected, r.receive)
		cancel()
	}
}

// publish is the only caller of the bus's Publish. A message that failed has
// used up its number, so that the others see a gap once we are back. When ctx has
// ended it waits for the last hints that were held back.
func (r *Relay) publish(ctx context.Context, released <-chan struct{}) {
	hello := time.NewTicker(HelloEvery)
	defer hello.Stop()
	number := int64(0)
	send := func(ctx context.Context, m message) {
		sending, cancel := context.WithTimeout(ctx, silence)
		defer cancel()
		m.Process, m.Number = r.process, number
		payload, err := json.Marshal(m)
		if err == nil {
			err = r.bus.Publish(sending, payload)
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("publishing hints failed; other processes will resync", "error", err.Error())
		}
	}
	sendQueue := func(ctx context.Context) (sent bool) {
		hints, lost := r.takeQueue()
		if lost {
			number++
			send(ctx, message{Lost: true})
		}
		for _, part := range split(hints, r.bus.MaxPayload()-envelope) {
			number++
			send(ctx, message{Hints: part})
		}
		return lost || len(hints) > 0
	}
	for {
		select {
		case <-ctx.Done():
			<-released
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			sendQueue(last)
			send(last, message{Bye: true})
			return
		case <-hello.C:
			send(ctx, message{})
			r.checkSilence(time.Now())
		case <-r.wake:
			if !sendQueue(ctx) {
				send(ctx, message{}) // we have just begun to hear: are we heard?
			}
		}
	}
}

func (r *Relay) takeQueue() (hints []Hint, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hints, lost = r.queue, r.overflow
	r.queue, r.overflow = nil, false
	return hints, lost
}

// connected is called when the bus begins to hear: all that was said before is
// lost to us.
func (r *Relay) connected() {
	r.mu.Lock()
	clear(r.peers)
	r.hearing = time.Now()
	r.mu.Unlock()
	r.hub.ResyncAll()
	r.signal()
}

// receive handles one payload of the bus.
func (r *Relay) receive(payload []byte) {
	var m message
	if err := json.Unmarshal(payload, &m); err != nil {
		r.log.Warn("a payload on the bus cannot be read; resyncing", "error", err.Error())
		r.hub.ResyncAll()
		return
	}
	if m.Process == r.process {
		r.mu.Lock()
		r.heard, r.deaf = time.Now(), false
		r.mu.Unlock()
		return
	}
	if r.missed(m) {
		r.hub.ResyncAll()
	}
	r.hub.Deliver(m.Hints)
}

// missed notes a peer's message and tells whether one before it is missing. A
// hello repeats the number of the last message. A peer that nobody knows has
// either just begun, or it spoke before we listened, or it was given up and is
// back: in the last case there is a gap, however long ago it vanished.
func (r *Relay) missed(m message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.peers[m.Process]
	known := p != nil
	if !known {
		p = &peer{}
		r.peers[m.Process] = p
	}
	expected := p.last
	if len(m.Hints) > 0 || m.Lost {
		expected++
	}
	gap := m.Number != expected && (known || time.Since(r.hearing) > silence)
	p.last, p.heard = m.Number, time.Now()
	if m.Bye {
		delete(r.peers, m.Process)
	}
	return m.Lost || gap
}

// checkSilence resyncs once for each peer that vanished without goodbye, and once
// each time we stop hearing ourselves. Then it has us listen anew.
func (r *Relay) checkSilence(now time.Time) {
	r.mu.Lock()
	lost := false
	for id, p := range r.peers {
		if now.Sub(p.heard) > silence {
			delete(r.peers, id)
			lost = true
		}
	}
	if now.Sub(later(r.heard, r.began)) > silence {
		lost = lost || !r.deaf
		r.deaf, r.began = true, now // and again after another three periods
		r.relisten()
	}
	r.mu.Unlock()
	if lost {
		r.hub.ResyncAll()
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
