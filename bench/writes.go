package bench

import (
	"context"
	"fmt"
	"sync/atomic"

	"tidemark/chat"
	"tidemark/store"
)

const (
	writers = 64 // callers at once
	// readable is how many conversations each of them reads, readableMessages how
	// many messages each of those has: a report that moves nothing measures nothing.
	readable, readableMessages = 400, 200
)

// What everyone else pays for a report: one upsert by primary key in one
// transaction, on a table of the same shape, merging by maximum.
const upsertScript = `
\set user :client_id + 1
\set conv random(1, 400)
\set seq :seq + 1
INSERT INTO floor_positions AS r (user_id, conv_id, read_seq, read_ord, read_own, mention_seq, seen_seq, seen_at)
VALUES ('writer' || :user, 'read' || :conv, :seq, :seq, 0, :seq, :seq, now())
ON CONFLICT (user_id, conv_id) DO UPDATE SET read_seq = greatest(r.read_seq, excluded.read_seq), read_ord = greatest(r.read_ord, excluded.read_ord),
  mention_seq = greatest(r.mention_seq, excluded.mention_seq), seen_seq = greatest(r.seen_seq, excluded.seen_seq), seen_at = excluded.seen_at, changed_xid = pg_current_xact_id()
WHERE excluded.read_seq > r.read_seq;
`

// The same for fifty cursors in one transaction.
const cursorsScript = `
\set seq :seq + 1
BEGIN;
%sCOMMIT;
`

// And for a message: the conversation's row gives the number, the log and the
// sender's row are written, in one statement and one transaction.
const appendScript = `
\set user random(1, 64)
\set id random(1, 1000000000000)
WITH c AS (UPDATE floor_conversations SET head = head + 1, message_ord = message_ord + 1, last_message_seq = head + 1, last_activity_seq = head + 1,
    last_activity_at = now(), changed_xid = pg_current_xact_id() WHERE conv_id = 'hot' RETURNING head, message_ord),
  m AS (UPDATE floor_members SET sent_ord = sent_ord + 1, changed_xid = pg_current_xact_id() WHERE user_id = 'writer' || :user AND conv_id = 'hot' RETURNING sent_ord)
INSERT INTO floor_events (conv_id, seq, kind, sender, client_message_id, content_hash, body, message_ord, sender_ord, at)
SELECT 'hot', c.head, 1, 'writer' || :user, :client_id || '-' || :id, '\x00', 'a message of a usual length, give or take', c.message_ord, m.sent_ord, now() FROM c, m;
`

const markReadDocument = `mutation ($in: MarkReadInput!) { markRead(input: $in) { conversation { id read readRevision unread } } }`

const sendDocument = `mutation ($in: SendMessageInput!) { sendMessage(input: $in) { message { seq } } }`

// writes: small writes and a hot conversation against floors that pgbench finds.
func (s *suite) writes(ctx context.Context) ([]trial, func(), error) {
	if err := s.db.execute(ctx, writesData()...); err != nil {
		return nil, nil, err
	}
	sv, err := s.serve(ctx)
	if err != nil {
		return nil, nil, err
	}
	clients, err := s.dialWriters(sv.address)
	if err != nil {
		sv.stop()
		return nil, nil, err
	}
	w := &writing{suite: s, server: sv, clients: clients}
	lanes := sv.Store.ForLanes()
	w.reads = store.NewLanes(store.LaneOptions[struct{}, store.ReadReport, store.ReadResult]{Overlap: store.WorthOverlap,
		Carry: func(ctx context.Context, _ struct{}, reports []store.ReadReport) ([]store.ReadResult, error) {
			return lanes.MarkRead(ctx, reports)
		}})
	w.sends = store.NewLanes(store.LaneOptions[chat.ConversationID, store.Draft, store.Appended]{Carry: sv.Store.Append})
	stop := func() {
		for _, c := range clients {
			c.close()
		}
		w.reads.Wait()
		w.sends.Wait()
		sv.stop()
	}
	upserts, appends := s.floor(upsertScript), s.floor(appendScript)
	const floor = "pgbench, best of 1, 16, 64 clients"
	return []trial{
		{name: "markRead in process, 64 callers", against: "one upsert a transaction, " + floor, unit: "calls/s", rate: true, target: 2, ours: w.markRead, reference: upserts},
		{name: "markRead over HTTP with its conversation, 64 clients", against: "one upsert a transaction, " + floor, unit: "calls/s", rate: true, target: 1.2, ours: w.markReadHTTP, reference: upserts},
		{name: "ack of 50 cursors, one client", against: "50 upserts in one transaction, pgbench", unit: "ms", target: 2, ours: w.ack, reference: w.cursors},
		{name: "sendMessage into one hot conversation in process, 64 callers", against: "one append a transaction, " + floor, unit: "messages/s", rate: true, target: 5, ours: w.send, reference: appends},
		{name: "sendMessage into one hot conversation over HTTP, 64 clients", against: "one append a transaction, " + floor, unit: "messages/s", rate: true, target: 1.5, ours: w.sendHTTP, reference: appends},
		{name: "sendMessage into a group of 100,000", against: "into a group of 2", unit: "ms", atMost: true, target: 1.1,
			prepare: func(ctx context.Context) error { return w.equalRows(ctx, "huge", "pair") },
			ours:    func(ctx context.Context) (float64, error) { return w.sendTo(ctx, "huge") }, reference: func(ctx context.Context) (float64, error) { return w.sendTo(ctx, "pair") },
			note: func() string { return w.rows }},
	}, stop, nil
}

func (s *suite) dialWriters(address string) (clients []*client, err error) {
	for n := range writers {
		c, err := dial(address, writerToken(n))
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func writerToken(n int) string { return fmt.Sprintf("token-of-writer-%d", n+1) }

// writing is the load of these rows.
type writing struct {
	*suite
	server  *server
	clients []*client
	reads   *store.Lanes[struct{}, store.ReadReport, store.ReadResult]
	sends   *store.Lanes[chat.ConversationID, store.Draft, store.Appended]
	// moves is how often each writer has read.
	moves [writers]int
	ids   atomic.Int64
	rows  string
}

// nextRead is a report that moves something: one message further in one
// conversation after the other.
func (w *writing) nextRead(n int) (conv chat.ConversationID, seq chat.Seq) {
	move := w.moves[n]
	w.moves[n]++
	return chat.ConversationID(fmt.Sprintf("read%d", move%readable+1)), chat.Seq(move/readable%readableMessages + 2)
}

// restart forgets what was read, where a run has read most of it.
func (w *writing) restart(ctx context.Context) error {
	for n := range w.moves {
		if w.moves[n] > readable*readableMessages/2 {
			w.moves = [writers]int{}
			return w.db.execute(ctx, `TRUNCATE read_positions`)
		}
	}
	return nil
}

func (w *writing) markRead(ctx context.Context) (float64, error) {
	if err := w.restart(ctx); err != nil {
		return 0, err
	}
	return rate(ctx, writers, w.seconds(), func(ctx context.Context, n int) error {
		conv, seq := w.nextRead(n)
		r, err := w.reads.Do(ctx, struct{}{}, store.ReadReport{User: writer(n), Conversation: conv, Seq: seq})
		if err == nil {
			err = r.Err
		}
		if err == nil && !r.Moved {
			err = fmt.Errorf("a report of %s at %d moved nothing", conv, seq)
		}
		return err
	})
}

func (w *writing) markReadHTTP(ctx context.Context) (float64, error) {
	if err := w.restart(ctx); err != nil {
		return 0, err
	}
	return rate(ctx, writers, w.seconds(), func(ctx context.Context, n int) error {
		conv, seq := w.nextRead(n)
		_, err := w.clients[n].post(markReadDocument, map[string]any{"in": map[string]any{"conversationId": conv, "seq": seq}})
		return err
	})
}

func writer(n int) chat.UserID { return chat.UserID(fmt.Sprintf("writer%d", n+1)) }

const ackedConversations = 50

func (w *writing) ack(ctx context.Context) (float64, error) {
	if err := w.db.execute(ctx, `TRUNCATE device_cursors`); err != nil {
		return 0, err
	}
	acked := chat.Seq(0)
	further := func() error {
		acked++
		reports := make([]store.AckReport, ackedConversations)
		for i := range reports {
			reports[i] = store.AckReport{Device: "acker", Conversation: chat.ConversationID(fmt.Sprintf("read%d", i+1)), Seq: acked}
		}
		results, err := w.server.Store.Ack(ctx, reports)
		for _, r := range results {
			if err == nil && !r.Moved {
				err = fmt.Errorf("an ack at %d moved nothing: %v", acked, r.Err)
			}
		}
		return err
	}
	if err := further(); err != nil { // the rows are there when it is measured, as in the reference
		return 0, err
	}
	return typical(w.times(), further)
}

// times is how often a call of one client is measured: a conversation's head is further than that.
func (w *writing) times() int {
	if w.Quick {
		return readableMessages / 2
	}
	return readableMessages
}

// cursors is the time of one transaction with fifty upserts, in milliseconds.
func (w *writing) cursors(ctx context.Context) (float64, error) {
	var upserts []byte
	for i := range ackedConversations {
		upserts = fmt.Appendf(upserts, `INSERT INTO floor_cursors AS r (device_id, conv_id, install_epoch, delivered_seq) VALUES ('acker', 'read%d', 0, :seq)
ON CONFLICT (device_id, conv_id) DO UPDATE SET delivered_seq = greatest(r.delivered_seq, excluded.delivered_seq), changed_xid = pg_current_xact_id() WHERE excluded.delivered_seq > r.delivered_seq;
`, i+1)
	}
	tps, err := w.db.runPgbench(ctx, fmt.Sprintf(cursorsScript, upserts), 1, w.seconds())
	return 1000 / tps, err
}

func (w *writing) draft(n int) store.Draft {
	return store.Draft{Sender: writer(n), ClientMessageID: fmt.Sprint("bench-", w.ids.Add(1)), Body: "a message of a usual length, give or take"}
}

func (w *writing) send(ctx context.Context) (float64, error) {
	return rate(ctx, writers, w.seconds(), func(ctx context.Context, n int) error {
		r, err := w.sends.Do(ctx, "hot", w.draft(n))
		if err == nil {
			err = r.Err
		}
		return err
	})
}

func (w *writing) sendHTTP(ctx context.Context) (float64, error) {
	return rate(ctx, writers, w.seconds(), func(ctx context.Context, n int) error {
		d := w.draft(n)
		_, err := w.clients[n].post(sendDocument, map[string]any{"in": map[string]any{"conversationId": "hot", "clientMessageId": d.ClientMessageID, "body": d.Body}})
		return err
	})
}

func (w *writing) sendTo(ctx context.Context, conv chat.ConversationID) (float64, error) {
	return typical(w.times(), func() error {
		results, err := w.server.Store.Append(ctx, conv, []store.Draft{w.draft(0)})
		if err == nil {
			err = results[0].Err
		}
		return err
	})
}

// equalRows sends one message into each and compares how many rows that wrote.
func (w *writing) equalRows(ctx context.Context, a, b chat.ConversationID) error {
	rows := map[chat.ConversationID]float64{}
	for _, conv := range []chat.ConversationID{a, b} {
		if _, err := w.server.Store.Append(ctx, conv, []store.Draft{w.draft(0)}); err != nil {
			return err
		}
		n, err := w.db.value(ctx, `SELECT (SELECT count(*) FROM events x WHERE x.xmin = c.xmin) + (SELECT count(*) FROM members x WHERE x.xmin = c.xmin)
			+ (SELECT count(*) FROM mentions x WHERE x.xmin = c.xmin) + (SELECT count(*) FROM read_positions x WHERE x.xmin = c.xmin)
			+ (SELECT count(*) FROM conversations x WHERE x.xmin = c.xmin) FROM conversations c WHERE conv_id = $1`, conv)
		if err != nil {
			return err
		}
		rows[conv] = n
	}
	w.rows = fmt.Sprintf("; rows written: %.0f and %.0f", rows[a], rows[b])
	if rows[a] != rows[b] {
		return fmt.Errorf("rows differ%s", w.rows)
	}
	return nil
}
