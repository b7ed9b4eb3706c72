package store_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"tidemark/chat"
	"tidemark/migrations"
	"tidemark/store"
	"tidemark/storetest"
)

// oldLife is a conversation as the first schema had it: a, b and c join, a sends,
// b leaves and comes back, c leaves, comes back with what was before hidden, and
// leaves again; one message was recalled.
const oldLife = `
INSERT INTO users (user_id) VALUES ('a'), ('b'), ('c');
INSERT INTO conversations (conv_id, kind, title, head, message_ord, last_message_seq, last_withdrawn_seq, member_count, last_activity_at)
  VALUES ('c1', 'GROUP', 'old', 13, 4, 12, 5, 2, '2026-01-12');
INSERT INTO events (conv_id, seq, kind, sender, subject, client_message_id, content_hash, body, message_ord, sender_ord, target_seq, withdrawn_kind, withdrawn_xid, at) VALUES
  ('c1', 1, 2, NULL, 'a', NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, '2026-01-01'),
  ('c1', 2, 2, NULL, 'b', NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, '2026-01-02'),
  ('c1', 3, 2, NULL, 'c', NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, '2026-01-03'),
  ('c1', 4, 1, 'a', NULL, 'old1', '', 'one', 1, 1, NULL, NULL, NULL, '2026-01-04'),
  ('c1', 5, 1, 'a', NULL, 'old2', '', NULL, 2, 2, NULL, 'RECALLED', pg_current_xact_id(), '2026-01-05'),
  ('c1', 6, 4, 'a', NULL, NULL, NULL, NULL, 2, NULL, 5, NULL, NULL, '2026-01-06'),
  ('c1', 7, 3, 'b', 'b', NULL, NULL, NULL, 2, NULL, NULL, NULL, NULL, '2026-01-07'),
  ('c1', 8, 3, 'c', 'c', NULL, NULL, NULL, 2, NULL, NULL, NULL, NULL, '2026-01-08'),
  ('c1', 9, 2, NULL, 'b', NULL, NULL, NULL, 2, NULL, NULL, NULL, NULL, '2026-01-09'),
  ('c1', 10, 2, NULL, 'c', NULL, NULL, NULL, 2, NULL, NULL, NULL, NULL, '2026-01-10'),
  ('c1', 11, 1, 'b', NULL, 'old3', '', 'three', 3, 1, NULL, NULL, NULL, '2026-01-11'),
  ('c1', 12, 1, 'a', NULL, 'old4', '', 'four', 4, 3, NULL, NULL, NULL, '2026-01-12'),
  ('c1', 13, 3, 'c', 'c', NULL, NULL, NULL, 4, NULL, NULL, NULL, NULL, '2026-01-13');
INSERT INTO members (user_id, conv_id, sent_ord, joined_at, left_at, from_seq, from_ord, from_own, to_seq, to_ord, to_own, former_periods) VALUES
  ('a', 'c1', 3, '2026-01-01', NULL, 1, 0, 0, NULL, NULL, NULL, 0),
  ('b', 'c1', 1, '2026-01-09', NULL, 9, 2, 0, NULL, NULL, NULL, 1),
  ('c', 'c1', 0, '2026-01-10', '2026-01-13', 10, 2, 0, 13, 4, 0, 1);
INSERT INTO membership_periods (user_id, conv_id, from_seq, to_seq, hidden, seen_cap, from_ord, from_own, to_ord, to_own) VALUES
  ('b', 'c1', 2, 7, false, NULL, 0, 0, 2, 0),
  ('c', 'c1', 3, 8, true, 4, 0, 0, 2, 0);
INSERT INTO read_positions (user_id, conv_id, read_seq, read_ord, read_own, mention_seq, seen_seq) VALUES ('b', 'c1', 4, 1, 0, 4, 4);`

// TestMigrationOfAnOlderDatabase: what the first schema stored is whole under
// this one: nothing deviates, and everyone sees what they saw.
func TestMigrationOfAnOlderDatabase(t *testing.T) {
	ctx := context.Background()
	url := storetest.EmptyURL(t)
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, oldLife); err != nil {
		t.Fatal(err)
	}
	if err := store.Migrate(ctx, url); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.Store, w.url = storetest.OpenURL(t, url), url
	w.noDeviations(t)
	for user, want := range map[string]struct {
		unread int64
		day    int
	}{"a": {1, 12}, "b": {1, 12}, "c": {2, 12}} {
		c := w.see(chat.UserID(user), "", "c1")
		if c.UnreadMessages != want.unread || c.LastActivityAt.Day() != want.day || *c.Title != "old" {
			t.Errorf("%s: unread %d, activity %v, title %q", user, c.UnreadMessages, c.LastActivityAt, *c.Title)
		}
	}
	w.send("c1", "a", 1)
	w.noDeviations(t)
}
