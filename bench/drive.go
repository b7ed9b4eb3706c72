package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// DriveOptions say which running server to drive, and how.
type DriveOptions struct {
	// Address is where the server is, as http://host:port; ServiceKey is its own.
	Address, ServiceKey string
	// Load is one of [Loads].
	Load string
	// Clients are how many call at once, or how many sockets are opened; Length is
	// for how long.
	Clients int
	Length  time.Duration
	Out     io.Writer
}

// Loads are what a server can be driven with.
var Loads = []string{"inbox", "mark-read", "send", "hint", "burst", "sessions"}

// Drive puts a load on a running server, over its API alone, and prints how it
// went. It makes users and conversations with fresh ids, which stay. Any error of
// the server fails the run.
func Drive(ctx context.Context, o DriveOptions) error {
	d := &drive{DriveOptions: o, prefix: "bench-" + rand.Text()[:6]}
	load := map[string]func(context.Context) error{"inbox": d.inbox, "mark-read": d.markRead, "send": d.send,
		"hint": d.hint, "burst": d.burst, "sessions": d.sessions}[o.Load]
	if load == nil {
		return fmt.Errorf("there is no load %q; choose one of %v", o.Load, Loads)
	}
	if o.Clients < 1 || o.Length <= 0 {
		return errors.New("clients and duration must be more than nothing")
	}
	var err error
	if d.service, err = dial(o.Address, o.ServiceKey); err != nil {
		return err
	}
	defer d.service.close()
	return load(ctx)
}

type drive struct {
	DriveOptions
	prefix  string
	service *client
}

// user makes a user with a device and returns its token.
func (d *drive) user(id string) (token string, err error) {
	if _, err := d.service.post(`mutation ($id: ID!) { putUser(input: { id: $id }) { user { id } } }`, map[string]any{"id": id}); err != nil {
		return "", err
	}
	var out struct{ CreateDevice struct{ Token string } }
	err = d.service.query(`mutation ($id: ID!) { createDevice(input: { userId: $id }) { token } }`, map[string]any{"id": id}, &out)
	return out.CreateDevice.Token, err
}

// users makes n users and opens a connection for each.
func (d *drive) users(n int) (ids []string, clients []*client, err error) {
	for i := range n {
		id := fmt.Sprintf("%s-u%d", d.prefix, i)
		token, err := d.user(id)
		if err != nil {
			return nil, nil, err
		}
		c, err := dial(d.Address, token)
		if err != nil {
			return nil, nil, err
		}
		ids, clients = append(ids, id), append(clients, c)
	}
	return ids, clients, nil
}

// conversation makes a group of these users with a number of messages of the first.
func (d *drive) conversation(name string, ids []string, sender *client, messages int) (conv string, head int, err error) {
	conv = d.prefix + "-" + name
	if _, err := d.service.post(`mutation ($in: CreateConversationInput!) { createConversation(input: $in) { conversation { id } } }`,
		map[string]any{"in": map[string]any{"id": conv, "kind": "GROUP", "memberIds": ids}}); err != nil {
		return "", 0, err
	}
	for n := range messages {
		if _, err := sender.post(sendDocument, sendInput(conv, fmt.Sprint("fill", n))); err != nil {
			return "", 0, err
		}
	}
	return conv, len(ids) + messages, nil
}

func sendInput(conv, id string) map[string]any {
	return map[string]any{"in": map[string]any{"conversationId": conv, "clientMessageId": id, "body": "a message of a usual length, give or take"}}
}

func readInput(conv string, seq int) map[string]any {
	return map[string]any{"in": map[string]any{"conversationId": conv, "seq": seq}}
}

// members are the users of a load in one conversation with 200 messages.
func (d *drive) members(n int) (conv string, head int, clients []*client, err error) {
	ids, clients, err := d.users(n)
	if err == nil {
		conv, head, err = d.conversation("group", ids, clients[0], 200)
	}
	return conv, head, clients, err
}

func (d *drive) report(format string, args ...any) error {
	_, err := fmt.Fprintf(d.Out, d.Load+": "+format+"\n", args...)
	return err
}

func (d *drive) inbox(ctx context.Context) error {
	_, _, clients, err := d.members(d.Clients)
	if err != nil {
		return err
	}
	perSecond, err := rate(ctx, d.Clients, d.Length, func(_ context.Context, n int) error {
		_, err := clients[n].post(listDocument, nil)
		return err
	})
	if err != nil {
		return err
	}
	return d.report("%.0f pages a second with %d clients", perSecond, d.Clients)
}

// markRead moves each user's position by one message at a time, and begins anew by
// marking unread when it has come to the end.
func (d *drive) markRead(ctx context.Context) error {
	conv, head, clients, err := d.members(d.Clients)
	if err != nil {
		return err
	}
	at := make([]int, d.Clients)
	perSecond, err := rate(ctx, d.Clients, d.Length, func(_ context.Context, n int) error {
		if at[n] == head {
			at[n] = 0
			_, err := clients[n].post(`mutation ($in: MarkUnreadInput!) { markUnread(input: $in) { conversation { read } } }`,
				map[string]any{"in": map[string]any{"conversationId": conv, "seq": 1, "expectedRead": head}})
			return err
		}
		at[n]++
		_, err := clients[n].post(markReadDocument, readInput(conv, at[n]))
		return err
	})
	if err != nil {
		return err
	}
	return d.report("%.0f reports a second with %d clients", perSecond, d.Clients)
}

func (d *drive) send(ctx context.Context) error {
	conv, _, clients, err := d.members(d.Clients)
	if err != nil {
		return err
	}
	sent := make([]int, d.Clients)
	perSecond, err := rate(ctx, d.Clients, d.Length, func(_ context.Context, n int) error {
		sent[n]++
		_, err := clients[n].post(sendDocument, sendInput(conv, fmt.Sprintf("%d-%d", n, sent[n])))
		return err
	})
	if err != nil {
		return err
	}
	return d.report("%.0f messages a second into one conversation with %d clients", perSecond, d.Clients)
}

// hint is how long after its answer a report reaches the user's other session.
func (d *drive) hint(ctx context.Context) error {
	conv, head, clients, err := d.members(1)
	if err != nil {
		return err
	}
	s, err := open(ctx, d.Address, clients[0].token)
	if err != nil {
		return err
	}
	defer s.conn.CloseNow()
	if err := s.start(ctx, "1", `subscription { readChanged { reason read } }`, nil); err != nil {
		return err
	}
	if _, err := s.next(ctx); err != nil { // RESYNC
		return err
	}
	var late []float64
	for seq := 2; seq <= head; seq++ {
		if _, err := clients[0].post(markReadDocument, readInput(conv, seq)); err != nil {
			return err
		}
		answered := time.Now()
		if _, err := s.next(ctx); err != nil {
			return err
		}
		late = append(late, float64(time.Since(answered).Microseconds())/1000)
	}
	spread := spreadOf(late)
	return d.report("answer to event in %.2f ms (median of %d; %.2f to %.2f)", spread.median, len(late), spread.min, spread.max)
}

// burst sends 600 reports on one socket without waiting for their answers.
func (d *drive) burst(ctx context.Context) error {
	const reports = 600
	ids, clients, err := d.users(1)
	if err != nil {
		return err
	}
	conv, head, err := d.conversation("burst", ids, clients[0], reports)
	if err != nil {
		return err
	}
	s, err := open(ctx, d.Address, clients[0].token)
	if err != nil {
		return err
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	defer s.conn.CloseNow()
	began := time.Now()
	var sendErr error
	sending.Go(func() {
		for n := range reports {
			if sendErr = s.start(ctx, fmt.Sprint(n), markReadDocument, readInput(conv, head-reports+1+n)); sendErr != nil {
				return
			}
		}
	})
	answered, furthest := 0, 0
	for answered < reports {
		f, err := s.next(ctx)
		if err != nil {
			return err
		}
		var answer struct {
			Data struct {
				MarkRead *struct{ Conversation struct{ Read int } }
			}
			Errors []any
		}
		if f.Type == "complete" {
			continue
		}
		if f.Type != "next" || json.Unmarshal(f.Payload, &answer) != nil || answer.Data.MarkRead == nil {
			return fmt.Errorf("a report was answered with %s %s", f.Type, f.Payload)
		}
		answered, furthest = answered+1, max(furthest, answer.Data.MarkRead.Conversation.Read)
	}
	sending.Wait()
	if sendErr != nil || furthest != head {
		return fmt.Errorf("the position ended at %d, not at %d: %w", furthest, head, errors.Join(sendErr, errors.New("the burst failed")))
	}
	return d.report("each of %d reports on one socket was answered, %.0f ms in all", reports, float64(time.Since(began).Milliseconds()))
}

// sessions opens sockets with one subscription each and holds them for a while.
func (d *drive) sessions(ctx context.Context) error {
	const perDevice = 32 // the server's own limit
	var tokens []string
	for n := 0; n*perDevice < d.Clients; n++ {
		token, err := d.user(fmt.Sprintf("%s-s%d", d.prefix, n))
		if err != nil {
			return err
		}
		tokens = append(tokens, token)
	}
	began := time.Now()
	var sockets []*socket
	defer func() {
		for _, s := range sockets {
			_ = s.conn.CloseNow()
		}
	}()
	for n := range d.Clients {
		s, err := open(ctx, d.Address, tokens[n/perDevice])
		if err != nil {
			return err
		}
		sockets = append(sockets, s)
		if err := s.start(ctx, "1", `subscription { inboxChanged { reasons } }`, nil); err != nil {
			return err
		}
		if _, err := s.next(ctx); err != nil {
			return err
		}
	}
	if err := d.report("%d sessions with a subscription each connected in %.1f s", d.Clients, time.Since(began).Seconds()); err != nil {
		return err
	}
	select {
	case <-time.After(d.Length):
	case <-ctx.Done():
	}
	return nil
}
