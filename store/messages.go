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
	// ClientMessageID is compared by. Those who are not members are left out.
	Mentions    []chat.UserID
	MentionsAll bool
	// ReadUpTo, if set, is a read report of the sender in the same transaction,
	// with ReadRevision as in [ReadReport]. It is judged against head before the message.
	ReadUpTo     *chat.Seq
	ReadRevision *int32
}

// Appended is what became of a draft: its seq, or Err. Duplicate says that the
// client message id had been used before with the same content. After a lost
// connection it is false even if it was: an earlier attempt of this very call
// may have appended the message, and then nobody was told of it yet.
type Appended struct {
	Seq       chat.Seq
	Duplicate bool
	// Read is what became of ReadUpTo; it is not applied for a duplicate.
	Read ReadResult
	// Mode is how the members are to be told.
	Mode chat.FanoutMode
	Err  error
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

// sqlAppend numbers and inserts the drafts that are neither repeated nor refused,
// raises head and ordinals, reads up to where their senders say, and tells what
// became of each. Run under the conversation's lock. By primary keys and
// events_client_message only; the rows it writes do not depend on the number of
// members: event, conversation, the sender's member row, and one for each name mentioned.
// counted names the senders twice, so that it never looks at other members, which
// seems as cheap while the table is empty.
// $1 conversation; $2 senders, $3 client message ids, $4 hashes, $5 bodies, $6 mention all, $7 read up to, $8 revision;
// $9 and $10 which draft mentions whom.
var sqlAppend = `
WITH input AS (
  SELECT * FROM unnest($2::text[], $3::text[], $4::bytea[], $5::text[], $6::boolean[], $7::bigint[], $8::int[])
    WITH ORDINALITY AS t(sender, client_id, hash, body, mention_all, up_to, rev, i)),
judged AS MATERIALIZED (
  SELECT t.*, old.seq AS old_seq, old.content_hash IS DISTINCT FROM t.hash AS differs, m.user_id IS NOT NULL AS member, m.sent_ord,
         coalesce(t.up_to < 0 OR t.up_to > c.head, false) AS ahead, c.head, c.member_count,
         coalesce(rp.read_seq, 0) AS read_seq, coalesce(rp.mention_seq, 0) AS mention_seq, coalesce(rp.seen_seq, 0) AS seen_seq,
         coalesce(rp.revision, 0) AS revision, coalesce(rp.marked_unread, false) AS marked, ` + sqlShown("x", "c") + ` AS shown
  FROM input t
  LEFT JOIN LATERAL (SELECT * FROM events old WHERE old.conv_id = $1 AND old.sender = t.sender AND old.client_message_id = t.client_id OFFSET 0) old ON true
  LEFT JOIN LATERAL (SELECT * FROM members m WHERE m.user_id = t.sender AND m.conv_id = $1 AND m.left_at IS NULL
    AND current_setting('tidemark.locked', true) = m.conv_id LIMIT 1) m ON true
  LEFT JOIN LATERAL (SELECT * FROM conversations c WHERE c.conv_id = m.conv_id OFFSET 0) c ON true
  LEFT JOIN LATERAL (SELECT * FROM users x WHERE x.user_id = m.user_id AND t.up_to IS NOT NULL OFFSET 0) x ON true
  LEFT JOIN LATERAL (SELECT * FROM read_positions rp WHERE rp.user_id = m.user_id AND rp.conv_id = m.conv_id AND t.up_to IS NOT NULL OFFSET 0) rp ON true),
numbered AS MATERIALIZED (
  SELECT j.*, row_number() OVER (ORDER BY i) AS n, row_number() OVER (PARTITION BY sender ORDER BY i) AS own
  FROM judged j WHERE old_seq IS NULL AND member AND NOT ahead),
named AS MATERIALIZED (
  SELECT x.i, x.user_id, min(x.k) AS k FROM unnest($9::bigint[], $10::text[]) WITH ORDINALITY AS x(i, user_id, k)
  CROSS JOIN LATERAL (SELECT FROM members m WHERE m.user_id = x.user_id AND m.conv_id = $1 AND m.left_at IS NULL OFFSET 0) m GROUP BY 1, 2),
raised AS (
  UPDATE conversations c SET
    head = head + k.n, message_ord = message_ord + k.n, last_message_seq = head + k.n, last_activity_seq = head + k.n,
    last_activity_at = greatest(last_activity_at, k.now), last_mention_seq = greatest(last_mention_seq, head + k.mentioning),
    changed_xid = pg_current_xact_id()
  FROM (SELECT count(*) AS n, clock_timestamp() AS now,
          max(n) FILTER (WHERE mention_all OR EXISTS (SELECT FROM named x WHERE x.i = numbered.i)) AS mentioning FROM numbered) k
  WHERE c.conv_id = $1 AND k.n > 0
  RETURNING c.head - k.n AS head, c.message_ord - k.n AS message_ord, c.last_activity_at AS at),
counted AS (
  UPDATE members m SET sent_ord = m.sent_ord + x.n, changed_xid = pg_current_xact_id()
  FROM (SELECT sender, count(*) AS n FROM numbered GROUP BY sender) x
  WHERE m.user_id = ANY($2) AND m.user_id = x.sender AND m.conv_id = $1),
inserted AS (
  INSERT INTO events (conv_id, seq, kind, sender, client_message_id, content_hash, body, mention_ids, mentions_all, message_ord, sender_ord, at)
  SELECT $1, r.head + n.n, 1, n.sender, n.client_id, n.hash, n.body,
         (SELECT array_agg(x.user_id ORDER BY x.k) FROM named x WHERE x.i = n.i), n.mention_all, r.message_ord + n.n, n.sent_ord + n.own, r.at
  FROM numbered n, raised r
  RETURNING sender, client_message_id, seq),
mentioned AS (
  INSERT INTO mentions (conv_id, user_id, seq, sender, since, covered_by)
  SELECT $1, x.user_id, r.head + n.n, n.sender, r.head + n.n, CASE WHEN n.mention_all THEN r.head + n.n END FROM named x JOIN numbered n USING (i), raised r
  UNION ALL
  SELECT $1, '', r.head + n.n, n.sender, r.head + n.n, NULL FROM numbered n, raised r WHERE n.mention_all),
wanted AS MATERIALIZED (
  SELECT sender AS u, $1 AS c, max(up_to) AS v, min(sent_ord) AS sent_ord, max(up_to) AS mention_v,
         CASE WHEN max(up_to) FILTER (WHERE rev IS NULL) = max(up_to) THEN NULL ELSE min(rev) END AS rev
  FROM numbered WHERE up_to IS NOT NULL AND (rev IS NULL OR rev >= revision)
  GROUP BY sender HAVING max(up_to) > min(read_seq) OR max(up_to) > min(mention_seq) OR bool_or(marked)),` + sqlMovePositions + `
SELECT j.i, coalesce(j.old_seq, ins.seq, 0), j.old_seq IS NOT NULL, j.differs, j.member AND j.ahead, coalesce(j.head, 0), coalesce(j.member_count, 0),
       coalesce(n.read_seq, j.read_seq), coalesce(n.revision, j.revision), ins.seq IS NOT NULL AND n.user_id IS NOT NULL,
       j.seen_seq, coalesce(n.seen_seq, j.seen_seq), coalesce(j.shown, false)
FROM judged j LEFT JOIN inserted ins ON ins.sender = j.sender AND ins.client_message_id = j.client_id
LEFT JOIN moved n ON n.user_id = j.sender AND j.up_to IS NOT NULL ORDER BY j.i`

// Append appends the drafts to a conversation in their order, in one
// transaction and one round trip, and answers one result for each. A draft that is
// refused (NOT_MEMBER, IDEMPOTENCY_CONFLICT, CURSOR_AHEAD of its ReadUpTo) does not spoil the others, not even
// one with the same ClientMessageID; the error of the call itself is the database's. ClientMessageID makes it safe to
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
	var again []int // whose first was refused for something that they do not share, such as its ReadUpTo
	for i, d := range drafts {
		switch of := first[draftKey{d.Sender, d.ClientMessageID}]; {
		case of == i:
		case results[of].Err != nil:
			again = append(again, i)
		default:
			results[i] = foldDuplicate(drafts[of], d, results[of])
		}
	}
	if len(again) > 0 {
		second, err := s.Append(ctx, conv, columnOf(again, func(i int) Draft { return drafts[i] }))
		for k, i := range again {
			if results[i] = (Appended{Err: err}); err == nil {
				results[i] = second[k]
			}
		}
	}
	return results, nil
}

type draftKey struct {
	sender   chat.UserID
	clientID string
}

// foldDuplicate answers a draft that repeats an earlier one of the same call,
// which was appended or is a duplicate itself.
func foldDuplicate(first, again Draft, result Appended) Appended {
	if string(first.contentHash()) != string(again.contentHash()) {
		return Appended{Err: errIdempotencyConflict()}
	}
	result.Duplicate, result.Read = true, ReadResult{}
	return result
}

func (s *Store) appendOnce(ctx context.Context, conv chat.ConversationID, drafts []Draft, send []int, results []Appended) error {
	senders := make([]chat.UserID, len(send))
	ids := make([]string, len(send))
	hashes := make([][]byte, len(send))
	bodies := make([]string, len(send))
	all := make([]bool, len(send))
	upTo := make([]*chat.Seq, len(send))
	revisions := make([]*int32, len(send))
	var mentioning []int
	var mentioned []chat.UserID
	for k, i := range send {
		d := drafts[i]
		senders[k], ids[k], hashes[k], bodies[k] = d.Sender, d.ClientMessageID, d.contentHash(), d.Body
		all[k], upTo[k], revisions[k] = d.MentionsAll, d.ReadUpTo, d.ReadRevision
		for _, u := range d.Mentions {
			mentioning, mentioned = append(mentioning, k+1), append(mentioned, u)
		}
	}
	var batch pgx.Batch
	batch.Queue(sqlLockForAppend, conv)
	batch.Queue(sqlAppend, conv, senders, ids, hashes, bodies, all, upTo, revisions, mentioning, mentioned).Query(func(rows pgx.Rows) error {
		var i int64
		var seq, head chat.Seq
		var duplicate, differs, ahead bool
		var members int32
		var read ReadResult
		_, err := pgx.ForEachRow(rows, []any{&i, &seq, &duplicate, &differs, &ahead, &head, &members,
			&read.Read, &read.Revision, &read.Moved, &read.Seen.Previous, &read.Seen.Seen, &read.Seen.Shown}, func() error {
			r := Appended{Seq: seq, Duplicate: duplicate, Read: read, Mode: chat.Fanout(members, s.pullAbove)}
			switch {
			case duplicate && differs:
				r = Appended{Err: errIdempotencyConflict()}
			case ahead && !duplicate:
				r = Appended{Err: chat.ErrCursorAhead(head)}
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
