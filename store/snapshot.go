package store

import (
	"context"
	"errors"
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

// Snapshot is one state of the database: everything read through it comes from
// the same REPEATABLE READ transaction, which opens with the first read. It is
// safe for concurrent use; reads take turns. It holds one connection from its
// first read to [Snapshot.Close].
type Snapshot struct {
	store *Store
	pool  *pgxpool.Pool
	limit time.Duration // for one read; 0: as long as its context

	mu      sync.Mutex
	tx      pgx.Tx
	version chat.Version
	opened  time.Time
	closed  bool
}

// View is a snapshot with the eyes of one viewer.
//
// A view remembers the page that each conversation and each message was handed
// out with. A part of one that is asked for (its last message, its receipt) is
// loaded for the whole page in one statement.
type View struct {
	sn     *Snapshot
	viewer Viewer
	held   Found // read before, see [View.Hold]

	// Guarded by the snapshot's mutex.
	pages         pages[chat.ConversationID]
	rows          map[chat.ConversationID]*chat.Conversation
	lastMessages  part[struct{}, chat.ConversationID, *chat.Message]
	firstUnreads  part[struct{}, chat.ConversationID, *chat.Message]
	firstMentions part[struct{}, chat.ConversationID, *chat.Message]
	eventPages    part[EventRange, chat.ConversationID, *EventPage]
	memberPages   part[MemberRange, chat.ConversationID, *MemberPage]
	messagePages  pages[chat.MessageKey]
	receipts      part[position, chat.MessageKey, *receiptCount]
	readerPages   part[ReaderRange, chat.MessageKey, *ReaderPage]
	badge         *chat.Badge
	sync          *syncState
}

// Snapshot prepares a snapshot for a query or a mutation's answer. The caller
// must close it.
func (s *Store) Snapshot() *Snapshot { return &Snapshot{store: s, pool: s.requests} }

// HintSnapshot prepares a snapshot for the evaluation of a subscription event,
// on connections of its own. The caller must close it.
func (s *Store) HintSnapshot() *Snapshot {
	return &Snapshot{store: s, pool: s.hints, limit: hintReadTimeout}
}

// hintReadTimeout is how long one read for a hint may take: a subscription's
// context lasts as long as its socket.
const hintReadTimeout = 10 * time.Second

// View looks at the snapshot as viewer sees it.
func (sn *Snapshot) View(v Viewer) *View { return &View{sn: sn, viewer: v} }

// Close ends the transaction and gives the connection back. Reads after it
// fail. It returns for how long the transaction was open; 0 if nothing was read.
func (sn *Snapshot) Close() time.Duration {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	sn.closed = true
	if sn.tx == nil {
		return 0
	}
	// The request's context may be over already; the connection must go back all the same.
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	_ = sn.tx.Rollback(ctx) // a failed rollback closes the connection, which is all we need
	sn.tx = nil
	return time.Since(sn.opened)
}

// sqlIncarnate begins a new incarnation: PostgreSQL has recovered from a crash.
const sqlIncarnate = `INSERT INTO incarnation DEFAULT VALUES ON CONFLICT DO NOTHING`

// sqlVersion numbers the snapshot by the transactions that it sees finished. For
// a later snapshot it is never smaller, and larger once anything was committed
// between: xmax only grows, and a transaction leaves the list when it ends.
// sqlOpening also tells whether there is an incarnation: connections to a pooler
// outlive a crash.
const (
	sqlVersion = versionOf + ` FROM pg_current_snapshot() s`
	sqlOpening = versionOf + `, EXISTS (SELECT FROM incarnation) FROM pg_current_snapshot() s`
	versionOf  = `
SELECT pg_snapshot_xmax(s)::text::bigint - (SELECT count(*) FROM pg_snapshot_xip(s))`
)

// read opens the transaction if need be and runs do in it, alone. A connection
// that is lost before anything was read is replaced.
func (sn *Snapshot) read(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	if sn.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sn.limit)
		defer cancel()
	}
	if err := sn.open(ctx); err != nil {
		return err
	}
	return domainError(do(ctx, sn.tx))
}

func (sn *Snapshot) open(ctx context.Context) error {
	if sn.closed {
		return pgx.ErrTxClosed
	}
	if sn.tx != nil {
		return nil
	}
	_, err := sn.store.repeat(ctx, "open snapshot", func() error {
		err := sn.begin(ctx)
		if err != errNoIncarnation {
			return err
		}
		if _, err := sn.pool.Exec(ctx, sqlIncarnate); err != nil {
			return err
		}
		return sn.begin(ctx)
	})
	return err
}

var errNoIncarnation = errors.New("PostgreSQL has no incarnation")

func (sn *Snapshot) begin(ctx context.Context) error {
	var incarnated bool
	var batch pgx.Batch
	batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	batch.Queue(sqlOpening).QueryRow(func(row pgx.Row) error { return row.Scan(&sn.version, &incarnated) })
	results := sn.pool.SendBatch(ctx, &batch)
	tx := results.Tx()
	err := results.Close()
	if err == nil && !incarnated {
		err = errNoIncarnation
	}
	if err != nil {
		if tx != nil {
			_ = tx.Rollback(ctx)
		}
		return err
	}
	sn.tx, sn.opened = tx, time.Now() // without the wait for a connection
	return nil
}

// pages remembers, for each thing that was handed out, what it was handed out with.
type pages[ID comparable] map[ID][]ID

// of is the page of id; alone if it was handed out otherwise.
func (p pages[ID]) of(id ID) []ID {
	if page, ok := p[id]; ok {
		return page
	}
	return []ID{id}
}

// remember notes a page; of several with the same thing the largest counts.
func (p *pages[ID]) remember(page []ID) {
	if *p == nil {
		*p = pages[ID]{}
	}
	for _, id := range page {
		if len((*p)[id]) <= len(page) {
			(*p)[id] = page
		}
	}
}

// part is what has been loaded of one part of things, by its arguments.
type part[K, ID comparable, V any] map[K]map[ID]V

// loadPart answers a part of the thing id. If it was not loaded yet, load is
// called for the page that id was handed out with.
func loadPart[K, ID comparable, V any](ctx context.Context, vw *View, p *part[K, ID, V], of *pages[ID], key K, id ID,
	load func(ctx context.Context, tx pgx.Tx, page []ID) (map[ID]V, error)) (v V, err error) {
	err = vw.sn.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		loaded, ok := (*p)[key]
		if ok {
			if v, ok = loaded[id]; ok {
				return nil
			}
		}
		page := of.of(id)
		more, err := load(ctx, tx, page)
		if err != nil {
			return err
		}
		if *p == nil {
			*p = part[K, ID, V]{}
		}
		if loaded == nil {
			loaded = map[ID]V{}
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
func (vw *View) remember(page []*chat.Conversation) {
	if vw.rows == nil {
		vw.rows = map[chat.ConversationID]*chat.Conversation{}
	}
	ids := make([]chat.ConversationID, len(page))
	for i, c := range page {
		ids[i] = c.ID
		vw.rows[c.ID] = c
	}
	vw.pages.remember(ids)
}

// rememberMessages notes the page that messages are handed out with, those that
// an event is about included.
func (vw *View) rememberMessages(page []chat.Event) {
	var keys []chat.MessageKey
	for _, e := range page {
		switch e := e.(type) {
		case *chat.Message:
			keys = append(keys, e.Key())
		case *chat.MessageRecalled:
			keys = append(keys, e.Message.Key())
		case *chat.MessageEdited:
			keys = append(keys, e.Message.Key())
		}
	}
	vw.messagePages.remember(distinct(keys))
}
