package bench

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// server is a Tidemark server of the run's own, on loopback.
type server struct {
	Backend
	address string
	http    *http.Server
	serving sync.WaitGroup
}

func (s *suite) serve(ctx context.Context) (*server, error) {
	backend, err := s.Backend(ctx, s.db.url)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		backend.Stop()
		return nil, err
	}
	sv := &server{Backend: backend, address: "http://" + listener.Addr().String(), http: &http.Server{Handler: backend.Handler}}
	sv.serving.Go(func() { _ = sv.http.Serve(listener) })
	return sv, nil
}

func (sv *server) stop() {
	_ = sv.http.Close()
	sv.serving.Wait()
	sv.Stop()
}
