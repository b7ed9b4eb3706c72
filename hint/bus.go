package hint

import "context"

// Bus carries payloads between the processes of one deployment. It may lose
// them: the relay notices.
type Bus interface {
	// Publish sends a payload of at most MaxPayload bytes to every process, this
	// one included. It is called by one goroutine at a time.
	Publish(ctx context.Context, payload []byte) error
	// MaxPayload is the size in bytes of the largest payload.
	MaxPayload() int
	// Listen calls deliver for each payload, in order, until ctx ends, and
	// reconnects by itself. It calls connected each time it begins to hear: what
	// was published before is lost.
	Listen(ctx context.Context, connected func(), deliver func(payload []byte))
}
