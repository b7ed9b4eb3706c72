package store

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tidemark/chat"
)

// Viewer is whose eyes a snapshot sees with.
type Viewer struct {
	User   chat.UserID
	Device chat.DeviceID
}

// Snapshot is one state of the database as one viewer sees it: everything read
// through it comes from the same REPEATABLE READ transaction, which opens with
// the first read. It is safe for concurrent use; reads take turns. It holds one
// connection from its first read to [Snapshot.Close].
//
// A snapshot remembers the page that each conversation was handed out with.
// A part of a conversation that is asked for (its last message, say) is loaded
// for the whole page in one statement.
type Snapshot struct {
	viewer Viewer
	pool   *pgxpool.Pool
	repeat func(ctx context.Context, what string, do func() error) (bool, error)

	mu      sync.Mutex
	tx      pgx.Tx
	version chat.Version
	closed  bool

	pages        map[chat.ConversationID][]chat.ConversationID
	rows         map[chat.ConversationID]*chat.Conversation
	lastMessages part[struct{}, *chat.Message]
	firstUnreads part[struct{}, *chat.Message]
	eventPages   part[EventRange, *EventPage]
	memberPages  part[MemberRange, *MemberPage]
	badge        *chat.Badge
}

// Snapshot prepares a snapshot for a query or a mutation's answer. The caller
// must close it.
func (s *Store) Snapshot(v Viewer) *Snapshot { return s.snapshot(v, s.requests) }

// HintSnapshot prepares a snapshot for the evaluation of a subscription event,
// on connections of its own. The caller must close it.
func (s *Store) HintSnapshot(v Viewer) *Snapshot { return s.snapshot(v, s.hints) }

func (s *Store) snapshot(v Viewer, pool *pgxpool.Pool) *Snapshot {
	return &Snapshot{viewer: v, pool: pool, repeat: s.repeat}
}

// Close ends the transaction and gives the connection back. Reads after it fail.
func (sn *Snapshot) Close() {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	sn.closed = true
	if sn.tx != nil {
		// The request's context may be over already; the connection must go back all the same.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = sn.tx.Rollback(ctx) // a failed rollback closes the connection, which is all we need
		sn.tx = nil
	}
}

// sqlVersion numbers the snapshot by the transactions that it sees finished. For
// a later snapshot it is never smaller, and larger once anything was committed
// between: xmax only grows, and a transaction leaves the list when it ends.
const sqlVersion = `
SELECT pg_snapshot_xmax(s)::text::bigint - (SELECT count(*) FROM pg_snapshot_xip(s)) FROM pg_current_snapshot() s`

// read opens the transaction if need be and runs do in it, alone. A connection
// that is lost before anything was read is replaced.
func (sn *Snapshot) read(ctx context.Context, do func(tx pgx.Tx) error) error {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	if err := sn.open(ctx); err != nil {
		return err
	}
	return domainError(do(sn.tx))
}

func (sn *Snapshot) open(ctx context.Context) error {
	if sn.closed {
		return pgx.ErrTxClosed
	}
	if sn.tx != nil {
		return nil
	}
	_, err := sn.repeat(ctx, "open snapshot", func() error {
		var batch pgx.Batch
		batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		batch.Queue(sqlVersion).QueryRow(func(row pgx.Row) error { return row.Scan(&sn.version) })
		results := sn.pool.SendBatch(ctx, &batch)
		tx := results.Tx()
		if err := results.Close(); err != nil {
			if tx != nil {
				_ = tx.Rollback(ctx)
			}
			return err
		}
		sn.tx = tx
		return nil
	})
	return err
}

// part is what has been loaded of one part of conversations, by its arguments.
type part[K comparable, V any] map[K]map[chat.ConversationID]V

// loadPart answers a part of conversation id. If it was not loaded yet, load
// is called for the conversations of the page that id was handed out with.
func loadPart[K comparable, V any](ctx context.Context, sn *Snapshot, p *part[K, V], key K, id chat.ConversationID,
	load func(tx pgx.Tx, page []chat.ConversationID) (map[chat.ConversationID]V, error)) (v V, err error) {
	err = sn.read(ctx, func(tx pgx.Tx) error {
		loaded, ok := (*p)[key]
		if ok {
			if v, ok = loaded[id]; ok {
				return nil
			}
		}
		page, ok := sn.pages[id]
		if !ok {
			page = []chat.ConversationID{id}
		}
		more, err := load(tx, page)
		if err != nil {
			return err
		}
		if *p == nil {
			*p = part[K, V]{}
		}
		if loaded == nil {
			loaded = map[chat.ConversationID]V{}
			(*p)[key] = loaded
		}
		for _, c := range page {
			loaded[c] = more[c] // the zero value says that there is none, and is not asked for again
		}
		v = loaded[id]
		return nil
	})
	return v, err
}

// remember notes the page that conversations are handed out with.
func (sn *Snapshot) remember(page []*chat.Conversation) {
	if sn.pages == nil {
		sn.pages = map[chat.ConversationID][]chat.ConversationID{}
		sn.rows = map[chat.ConversationID]*chat.Conversation{}
	}
	ids := make([]chat.ConversationID, len(page))
	for i, c := range page {
		ids[i] = c.ID
	}
	for _, c := range page {
		if len(sn.pages[c.ID]) <= len(ids) {
			sn.pages[c.ID] = ids
		}
		sn.rows[c.ID] = c
	}
}
