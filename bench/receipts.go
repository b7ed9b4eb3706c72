package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"tidemark/chat"
	"tidemark/store"
)

// countReaders is what everyone else does for each message: count those who were
// there when it was sent, did not send it, and have read as far. It need not know of
// those who have left.
const countReaders = `
SELECT count(*) FILTER (WHERE r.seen_seq >= $2), count(*) FROM members m JOIN users u ON u.user_id = m.user_id AND u.shares_reads AND u.erased_at IS NULL
LEFT JOIN read_positions r ON r.user_id = m.user_id AND r.conv_id = m.conv_id
WHERE m.conv_id = $1 AND m.left_at IS NULL AND m.from_seq <= $2 AND m.user_id <> $3`

// receipts: who has read a page of messages, against counting them for each.
func (s *suite) receipts(ctx context.Context) ([]trial, func(), error) {
	if err := s.db.execute(ctx, receiptsData()...); err != nil {
		return nil, nil, err
	}
	backend, err := s.Backend(ctx, s.db.url)
	if err != nil {
		return nil, nil, err
	}
	r := &receipts{store: backend.Store, viewer: "reader1", conversation: "forum"}
	stop := func() {
		for _, conn := range r.conns {
			_ = conn.Close(context.Background())
		}
		backend.Stop()
	}
	for _, settings := range [][]string{
		{`SET jit = off`},
		// Left alone it may read all users for each message, since there are
		// conversations in which nearly all are members.
		{`SET jit = off`, `SET enable_seqscan = off`, `SET plan_cache_mode = force_custom_plan`},
		{`SET jit = off`, `SET enable_seqscan = off`, `SET plan_cache_mode = force_generic_plan`},
		{`SET jit = off`, `SET enable_seqscan = off`, `SET plan_cache_mode = force_generic_plan`, `SET enable_memoize = off`, `SET enable_bitmapscan = off`},
	} {
		conn, err := s.connect(ctx, settings...)
		if err != nil {
			stop()
			return nil, nil, err
		}
		r.conns = append(r.conns, conn)
	}
	return []trial{{name: fmt.Sprintf("receipts of a page of %d messages, %d members", receiptPage, receiptMembers),
		against: fmt.Sprintf("%d counting queries, fairest (the best of %d ways to plan them, prepared, no JIT)", receiptPage, len(r.conns)), unit: "ms", target: 20, ours: r.page, reference: r.counting}}, stop, nil
}

type receipts struct {
	store        *store.Store
	viewer       chat.UserID
	conversation chat.ConversationID
	// conns count, each by other plans.
	conns []*pgx.Conn
	// read is the sum of what the last page showed: both must show the same.
	read int64
}

// page reads the receipts of a page of messages that were read before, through
// a view each, since a view reads them once.
func (r *receipts) page(ctx context.Context) (float64, error) {
	took := make([]float64, 15)
	for i := range took {
		if err := r.pageOnce(ctx, &took[i]); err != nil {
			return 0, err
		}
	}
	return spreadOf(took).median, nil
}

func (r *receipts) pageOnce(ctx context.Context, ms *float64) error {
	sn := r.store.Snapshot()
	defer sn.Close()
	view := sn.View(store.Viewer{User: r.viewer})
	c, err := view.Conversation(ctx, r.conversation)
	if err != nil {
		return err
	}
	page, err := view.Events(ctx, c, store.EventRange{Before: chat.EndOfLog, Limit: receiptPage, Backwards: true})
	if err != nil {
		return err
	}
	r.read = 0
	began := time.Now()
	for _, e := range page.Events {
		receipt, err := view.Receipt(ctx, e.(*chat.Message))
		if err != nil {
			return err
		}
		r.read += int64(receipt.ReadCount)
	}
	*ms = float64(time.Since(began).Microseconds()) / 1000
	return nil
}

// counting is the time of the fastest way to count.
func (r *receipts) counting(ctx context.Context) (float64, error) {
	fastest := math.Inf(1)
	for _, conn := range r.conns {
		took, err := typical(3, func() error { return r.count(ctx, conn) })
		if err != nil {
			return 0, err
		}
		fastest = min(fastest, took)
	}
	return fastest, nil
}

func (r *receipts) count(ctx context.Context, conn *pgx.Conn) error {
	var sum int64
	for seq := receiptMembers + 200 - receiptPage + 1; seq <= receiptMembers+200; seq++ {
		var read, audience int64
		if err := conn.QueryRow(ctx, countReaders, "forum", seq, "reader1").Scan(&read, &audience); err != nil {
			return err
		}
		sum += read
	}
	if sum != r.read {
		return fmt.Errorf("counting finds %d, the page showed %d", sum, r.read)
	}
	return nil
}
