package resolvers

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"tidemark/chat"
	"tidemark/hint"
	"tidemark/store"
)

// caller is who made a request. Exactly one of service, device and err is set.
type caller struct {
	service bool
	device  *chat.Device
	hash    store.TokenHash
	// err is why there is nobody: a bad credential, or a database that did not
	// answer. Whoever reaches a field that needs a caller is told.
	err error

	// session is the socket that carried the request; nil over plain HTTP.
	session *hint.Session
	// origin names the session that needs no hint about this request.
	origin string
}

type callerKey struct{}

func withCaller(ctx context.Context, c *caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(ctx context.Context) *caller {
	if c, ok := ctx.Value(callerKey{}).(*caller); ok {
		return c
	}
	return &caller{err: chat.ErrUnauthenticated()}
}

// deviceOf is the device behind a request. The service key is FORBIDDEN where a
// device is needed.
func deviceOf(ctx context.Context) (*chat.Device, error) {
	c := callerOf(ctx)
	switch {
	case c.err != nil:
		return nil, c.err
	case c.service:
		return nil, &chat.Error{Code: chat.Forbidden, Message: "This field needs a device's token; the service key has no device."}
	}
	return c.device, nil
}

// requireService passes the service key only.
func requireService(ctx context.Context) error {
	c := callerOf(ctx)
	switch {
	case c.err != nil:
		return c.err
	case !c.service:
		return &chat.Error{Code: chat.Forbidden, Message: "Only the service key may call this field."}
	}
	return nil
}

func (c *caller) viewer() store.Viewer {
	if c.device == nil {
		return store.Viewer{}
	}
	return store.Viewer{User: c.device.UserID, Device: c.device.ID}
}

func (c *caller) hintOrigin() hint.Origin {
	if c.device == nil || c.origin == "" {
		return hint.Origin{}
	}
	return hint.Origin{User: c.device.UserID, Session: c.origin}
}

// identify finds out who holds an Authorization value. It fails only through caller.err.
func (s *Server) identify(ctx context.Context, authorization string) *caller {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return &caller{err: chat.ErrUnauthenticated()}
	}
	hash := store.HashToken(token)
	if s.serviceKey != nil && subtle.ConstantTimeCompare(hash[:], s.serviceKey[:]) == 1 {
		return &caller{service: true}
	}
	d, err := s.lanes.credentials.Do(ctx, struct{}{}, hash)
	if err == nil && d == nil {
		err = chat.ErrUnauthenticated()
	}
	if err != nil {
		return &caller{err: err}
	}
	return &caller{device: d, hash: hash}
}

// identifyRequest puts the caller of an HTTP request into its context. A header
// Tidemark-Session names the socket that needs no hint about it.
func (s *Server) identifyRequest(r *http.Request) context.Context {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	c := s.identify(ctx, r.Header.Get("Authorization"))
	if session := r.Header.Get("Tidemark-Session"); len(session) <= maxSessionID {
		c.origin = session
	}
	return withCaller(r.Context(), c)
}

// maxSessionID is longer than any id of ours.
const maxSessionID = 64

// hashServiceKey is nil for no key: then nobody is the service.
func hashServiceKey(key string) *[sha256.Size]byte {
	if key == "" {
		return nil
	}
	hash := sha256.Sum256([]byte(key))
	return &hash
}

// isUnauthenticated tells a bad credential from a database that did not answer.
func isUnauthenticated(err error) bool {
	return errors.Is(err, &chat.Error{Code: chat.Unauthenticated})
}
