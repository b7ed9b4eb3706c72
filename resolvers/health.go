package resolvers

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// healthz says that the process serves.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeHealth(w, http.StatusOK, map[string]string{"process": "ok"})
}

// readyz says whether requests would succeed: the database answers, its
// migrations have run, and hints travel.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	state := map[string]string{"database": "ok", "bus": "ok"}
	status := http.StatusOK
	if err := s.store.Ready(ctx); err != nil {
		s.log.Warn("not ready", "error", err.Error())
		state["database"], status = "not available", http.StatusServiceUnavailable
	}
	if !s.relay.Healthy() {
		state["bus"], status = "not available", http.StatusServiceUnavailable
	}
	writeHealth(w, status, state)
}

func writeHealth(w http.ResponseWriter, status int, state map[string]string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(state)
}
