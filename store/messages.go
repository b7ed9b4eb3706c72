package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
)

// Draft is a message that a member wants to append.
type Draft struct {
	Sender          chat.UserID
	ClientMessageID string
	Body            string
	// Mentions and MentionsAll are part of the content that a repeated
	// ClientMessageID is compared by.
	Mentions    []chat.UserID
	MentionsAll bool
}

// Appended is what became of a draft: its seq, or Err. Duplicate says that the
// client message id had been used before with the same content. After a lost
// connection it is false even if it was: an earlier attempt of this very call
// may have appended the message, and then nobody was told of it yet.
type Appended struct {
	Seq       chat.Seq
	Duplicate bool
	Err       error
}

// contentHash covers body, mentions and mentionsAll, each part with its length
// so that no two contents share an encoding.
func (d Draft) contentHash() []byte {
	h := sha256.New()
	part := func(s string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	part(d.Body)
	for _, m := range d.Mentions {
		part(string(m))
	}
	if d.MentionsAll {
		h.Write([]byte{1})
	}
	return h.Sum(nil)
}

// sqlLockForAppend takes the row lock that [sqlLockConversation] takes, and notes
// for the rest of the transaction that there was a row to lock: a conversation
// that is created between the two statements must not be written unlocked.
const sqlLockForAppend = `
SELECT set_config('tidemark.locked', conv_id, true) FROM conversations WHERE conv_id = $1 FOR NO KEY UPDATE`

// sqlLockConversation takes the row lock that makes the order of seqs the order
// of commits, and looks at nothing else: whatever is judged must be read by a
// later statement, whose snapshot is younger than the wait for this lock.
const sqlLockConversation = `SELECT kind FROM conversations WHERE conv_id = $1 FOR NO KEY UPDATE`

// sqlAppend numbers and inserts the drafts that are neither repeated nor by
// strangers, raises head and ordinals, and tells what became of each. Run under
// the conversation's lock. By primary key and events_client_message only; the
// rows it writes do not depend on the number of members.
// $1 conversation; $2 senders, $3 client message ids, $4 hashes, $5 bodies.
const sqlAppend = `
WITH input AS (
  SELECT * FROM unnest($2::text[], $3::text[], $4::bytea[], $5::text[]) WITH ORDINALITY AS t(sender, client_id, hash, body, i)),
judged AS MATERIALIZED (
  SELECT t.*, old.seq AS old_seq, old.content_hash IS DISTINCT FROM t.hash AS differs, m.user_id IS NOT NULL AS member, m.sent_ord
  FROM input t
  LEFT JOIN events old ON old.conv_id = $1 AND old.sender = t.sender AND old.client_message_id = t.client_id
  LEFT JOIN members m ON m.user_id = t.sender AND m.conv_id = $1 AND m.left_at IS NULL
    AND current_setting('tidemark.locked', true) = m.conv_id),
numbered AS MATERIALIZED (
  SELECT j.*, row_number() OVER (ORDER BY i) AS n, row_number() OVER (PARTITION BY sender ORDER BY i) AS own
  FROM judged j WHERE old_seq IS NULL AND member),
raised AS (
  UPDATE conversations c SET
    head = head + k.n, message_ord = message_ord + k.n, last_message_seq = head + k.n,
    last_activity_at = greatest(last_activity_at, k.now), changed_xid = pg_current_xact_id()
  FROM (SELECT count(*) AS n, clock_timestamp() AS now FROM numbered) k
  WHERE c.conv_id = $1 AND k.n > 0
  RETURNING c.head - k.n AS head, c.message_ord - k.n AS message_ord, c.last_activity_at AS at),
counted AS (
  UPDATE members m SET sent_ord = m.sent_ord + x.n, changed_xid = pg_current_xact_id()
  FROM (SELECT sender, count(*) AS n FROM numbered GROUP BY sender) x
  WHERE m.user_id = x.sender AND m.conv_id = $1),
inserted AS (
  INSERT INTO events (conv_id, seq, kind, sender, client_message_id, content_hash, body, message_ord, sender_ord, at)
  SELECT $1, r.head + n.n, 1, n.sender, n.client_id, n.hash, n.body, r.message_ord + n.n, n.sent_ord + n.own, r.at
  FROM numbered n, raised r
  RETURNING sender, client_message_id, seq)
SELECT j.i, coalesce(j.old_seq, ins.seq, 0), j.old_seq IS NOT NULL, j.differs
FROM judged j LEFT JOIN inserted ins ON ins.sender = j.sender AND ins.client_message_id = j.client_id ORDER BY j.i`

// Append appends the drafts to a conversation in their order, in one
// transaction and one round trip, and answers one result for each. A draft that
// is refused (NOT_MEMBER, IDEMPOTENCY_CONFLICT) does not spoil the others; the
// error of the call itself is the database's. ClientMessageID makes it safe to
// repeat, and a lost connection is retried within ctx.
func (s *Store) Append(ctx context.Context, conv chat.ConversationID, drafts []Draft) ([]Appended, error) {
	results := make([]Appended, len(drafts))
	first := map[draftKey]int{} // the first draft of each key is appended, the others are its duplicates
	var send []int
	for i, d := range drafts {
		key := draftKey{d.Sender, d.ClientMessageID}
		if _, repeated := first[key]; !repeated {
			first[key] = i
			send = append(send, i)
		}
	}
	repeated, err := s.repeat(ctx, "append", func() error { return s.appendOnce(ctx, conv, drafts, send, results) })
	if err != nil {
		return nil, err
	}
	for _, i := range send {
		results[i].Duplicate = results[i].Duplicate && !repeated
	}
	for i, d := range drafts {
		if of := first[draftKey{d.Sender, d.ClientMessageID}]; of != i {
			results[i] = foldDuplicate(drafts[of], d, results[of])
		}
	}
	return results, nil
}

type draftKey struct {
	sender   chat.UserID
	clientID string
}

// foldDuplicate answers a draft that repeats an earlier one of the same call.
func foldDuplicate(first, again Draft, result Appended) Appended {
	if result.Err == nil && string(first.contentHash()) != string(again.contentHash()) {
		return Appended{Err: errIdempotencyConflict()}
	}
	result.Duplicate = result.Err == nil
	return result
}

func (s *Store) appendOnce(ctx context.Context, conv chat.ConversationID, drafts []Draft, send []int, results []Appended) error {
	senders := make([]chat.UserID, len(send))
	ids := make([]string, len(send))
	hashes := make([][]byte, len(send))
	bodies := make([]string, len(send))
	for k, i := range send {
		d := drafts[i]
		senders[k], ids[k], hashes[k], bodies[k] = d.Sender, d.ClientMessageID, d.contentHash(), d.Body
	}
	var batch pgx.Batch
	batch.Queue(sqlLockForAppend, conv)
	batch.Queue(sqlAppend, conv, senders, ids, hashes, bodies).Query(func(rows pgx.Rows) error {
		var i int64
		var seq chat.Seq
		var duplicate, differs bool
		_, err := pgx.ForEachRow(rows, []any{&i, &seq, &duplicate, &differs}, func() error {
			r := Appended{Seq: seq, Duplicate: duplicate}
			switch {
			case duplicate && differs:
				r = Appended{Err: errIdempotencyConflict()}
			case seq == 0:
				r = Appended{Err: chat.ErrNotMember()}
			}
			results[send[i-1]] = r
			return nil
		})
		return err
	})
	return s.requests.SendBatch(ctx, &batch).Close()
}

// sqlRecallTarget judges a recall under the conversation's lock: is the caller
// a member, and is the seq a message they may see, and whose.
var sqlRecallTarget = `
SELECT c.head, e.seq IS NOT NULL, coalesce(e.sender = m.user_id, false), e.withdrawn_kind IS NOT NULL
FROM members m JOIN conversations c USING (conv_id)
LEFT JOIN events e ON e.conv_id = m.conv_id AND e.seq = $3 AND e.kind = 1 AND ` + visible("e.seq") + `
WHERE m.user_id = $1 AND m.conv_id = $2 AND m.left_at IS NULL`

// sqlRecall withdraws the message and appends the event that says so. Mentions
// go in the same transaction.
const sqlRecall = `
WITH gone AS (
  UPDATE events SET body = NULL, mention_ids = NULL, mentions_all = false, withdrawn_kind = 'RECALLED', withdrawn_xid = pg_current_xact_id()
  WHERE conv_id = $2 AND seq = $3),
unmentioned AS (DELETE FROM mentions WHERE conv_id = $2 AND seq = $3),
raised AS (
  UPDATE conversations SET head = head + 1, last_withdrawn_seq = greatest(last_withdrawn_seq, $3), changed_xid = pg_current_xact_id()
  WHERE conv_id = $2 RETURNING head, message_ord)
INSERT INTO events (conv_id, seq, kind, sender, target_seq, message_ord, at)
SELECT $2, head, 4, $1, $3, message_ord, clock_timestamp() FROM raised`

// Recall withdraws the caller's own message at seq and appends a
// MessageRecalled event; done before, it changes nothing and answers false.
// Someone who is not a member is NOT_MEMBER, a seq that is no message that they
// may see NOT_FOUND (below 0 CURSOR_AHEAD), somebody else's message FORBIDDEN.
// Safe to repeat.
func (s *Store) Recall(ctx context.Context, user chat.UserID, conv chat.ConversationID, seq chat.Seq) (changed bool, err error) {
	repeated, err := s.repeat(ctx, "recall", func() error {
		return s.write(ctx, func(tx pgx.Tx) error {
			changed = false
			if _, err := lockConversation(ctx, tx, conv); err == pgx.ErrNoRows {
				return chat.ErrNotMember()
			} else if err != nil {
				return err
			}
			var head chat.Seq
			var found, own, withdrawn bool
			err := tx.QueryRow(ctx, sqlRecallTarget, user, conv, seq).Scan(&head, &found, &own, &withdrawn)
			switch {
			case err == pgx.ErrNoRows:
				return chat.ErrNotMember()
			case err != nil:
				return err
			case seq < 0:
				return chat.ErrCursorAhead(head)
			case !found:
				return &chat.Error{Code: chat.NotFound, Field: "seq", Message: "There is no message at this seq that you may see."}
			case !own:
				return &chat.Error{Code: chat.Forbidden, Message: "Only the sender of a message may recall it."}
			case withdrawn:
				return nil
			}
			changed = true
			_, err = tx.Exec(ctx, sqlRecall, user, conv, seq)
			return err
		})
	})
	return changed || repeated && err == nil, err
}
