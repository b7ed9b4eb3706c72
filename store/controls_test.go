package store_test

import (
	"fmt"
	"testing"

	"tidemark/chat"
	"tidemark/store"
)

// The controls show what would go wrong with simpler designs. Each holds a
// variant, built here for the purpose, against the truth.

// TestA09ControlReadFromDelivery: the largest delivered cursor taken as read
// answers 13 where the truth is 8.
func TestA09ControlReadFromDelivery(t *testing.T) {
	w := newWorld(t)
	w.users("ana", "ben")
	conv := w.group("c-ab", "ana", "ben")
	w.send(conv, "ana", 10)
	w.device("ben", "d1")
	w.must(w.read("ben", conv, 8).Err)
	w.send(conv, "ben", 1)
	w.must(w.ack("d1", 0, conv, 13).Err)
	var variant chat.Seq
	w.must(w.conn(t).QueryRow(w.ctx, `SELECT max(delivered_seq) FROM device_cursors JOIN devices USING (device_id) WHERE user_id = 'ben'`).Scan(&variant))
	if truth := w.see("ben", "", conv).Read; variant != 13 || truth != 8 {
		t.Errorf("variant %d, truth %d; want 13 and 8", variant, truth)
	}
}

// TestA10ControlLastWriteWins: a plain UPDATE puts read back to 5.
func TestA10ControlLastWriteWins(t *testing.T) {
	w := newWorld(t)
	w.users("ana", "ben")
	conv := w.group("c-ab", "ana", "ben")
	w.send(conv, "ana", 10)
	conn := w.conn(t)
	_, err := conn.Exec(w.ctx, `CREATE TABLE naive (user_id text PRIMARY KEY, read_seq bigint)`)
	w.must(err)
	var variant chat.Seq
	for _, seq := range []chat.Seq{8, 5} {
		w.must(w.read("ben", conv, seq).Err)
		w.must(conn.QueryRow(w.ctx, `INSERT INTO naive VALUES ('ben', $1) ON CONFLICT (user_id) DO UPDATE SET read_seq = excluded.read_seq RETURNING read_seq`, seq).Scan(&variant))
	}
	if truth := w.see("ben", "", conv).Read; variant != 5 || truth != 8 {
		t.Errorf("variant %d, truth %d; want 5 and 8", variant, truth)
	}
}

// TestA30A11ControlCounter: ten messages, three of them delivered twice; a
// counter per member says 13, the derived number 10.
func TestA30A11ControlCounter(t *testing.T) {
	w := newWorld(t)
	w.users("ana", "ben")
	conv := w.group("c-ab", "ana", "ben")
	counter := 0
	deliver := func(n int) {
		r, err := w.Append(w.ctx, conv, []store.Draft{{Sender: "ana", ClientMessageID: fmt.Sprint("m", n), Body: "x"}})
		w.must(err)
		w.must(r[0].Err)
		counter++ // what a consumer of notifications does that counts instead of looking
	}
	for n := range 10 {
		deliver(n)
	}
	for n := range 3 {
		deliver(n)
	}
	if truth := w.unread("ben", conv); counter != 13 || truth != 10 {
		t.Errorf("counter %d, truth %d; want 13 and 10", counter, truth)
	}
}

// TestA48ControlIdOrder: numbers from a sequence are given before the commit, so
// that a reader between two commits sees 2 without 1 and never asks for it again.
func TestA48ControlIdOrder(t *testing.T) {
	w := newWorld(t)
	first, second, reader := w.conn(t), w.conn(t), w.conn(t)
	_, err := reader.Exec(w.ctx, `CREATE TABLE naive (id bigserial PRIMARY KEY, body text)`)
	w.must(err)
	slow, err := first.Begin(w.ctx)
	w.must(err)
	_, err = slow.Exec(w.ctx, `INSERT INTO naive (body) VALUES ('one')`)
	w.must(err)
	_, err = second.Exec(w.ctx, `INSERT INTO naive (body) VALUES ('two')`)
	w.must(err)
	var cursor, lost int64
	w.must(reader.QueryRow(w.ctx, `SELECT max(id) FROM naive`).Scan(&cursor))
	w.must(slow.Commit(w.ctx))
	w.must(reader.QueryRow(w.ctx, `SELECT count(*) FROM naive WHERE id <= $1 AND body = 'one'`, cursor).Scan(&lost))
	if cursor != 2 || lost != 1 {
		t.Errorf("the reader stood at %d and lost %d messages; want 2 and 1", cursor, lost)
	}
}
