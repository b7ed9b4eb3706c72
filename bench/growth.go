package bench

import (
	"bytes"
	"context"
	"fmt"

	"tidemark/chat"
	"tidemark/store"
)

// curve is how times grow with one thing.
type curve struct {
	title, explained string
	columns          []string
	rows             [][]string
}

func (c curve) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n|", c.title, c.explained)
	for _, column := range c.columns {
		fmt.Fprintf(b, " %s |", column)
	}
	b.WriteString("\n|")
	for range c.columns {
		b.WriteString("---|")
	}
	for _, row := range c.rows {
		b.WriteString("\n|")
		for _, value := range row {
			fmt.Fprintf(b, " %s |", value)
		}
	}
	b.WriteString("\n")
}

// scene is a user with some conversations, of which the first is the one that grows.
type scene struct {
	name                                     string
	conversations, messages, members, unread int
}

// growth measures how long things take as conversations per user, messages,
// members and unread grow.
func (s *suite) growth(ctx context.Context) ([]curve, error) {
	usual := scene{conversations: 20, messages: 200, members: 2, unread: 50}
	with := func(change func(*scene, int), values ...int) (scenes []scene) {
		for _, v := range values {
			sc := usual
			change(&sc, v)
			scenes = append(scenes, sc)
		}
		return scenes
	}
	curves := []struct {
		curve
		scenes []scene
		value  func(scene) int
	}{
		{curve{title: "Growth with conversations per user", explained: "The page looks at each conversation once for its place in the order, a few microseconds each, and at twenty in detail; the badge adds up all of them. " +
			"Sending and reading touch one conversation, whatever else there is."},
			with(func(s *scene, v int) { s.conversations = v }, 10, 100, 1_000, 10_000), func(s scene) int { return s.conversations }},
		{curve{title: "Growth with messages per conversation", explained: "Nothing counts messages: each time is a few probes of indexes, which grow by a level now and then."},
			with(func(s *scene, v int) { s.messages = v }, 100, 1_000, 10_000, 100_000, 1_000_000), func(s scene) int { return s.messages }},
		{curve{title: "Growth with members", explained: "A message writes three rows whatever the size. A page of receipts looks at each member once for all of its messages; above 10,000 members it comes from memory for a second."},
			with(func(s *scene, v int) { s.members = v }, 2, 100, 1_000, 10_000, 100_000), func(s scene) int { return s.members }},
		{curve{title: "Growth with unread messages", explained: "Unread is a difference of ordinals: no message is looked at but the first unread one and the last."},
			with(func(s *scene, v int) { s.messages, s.unread = v+100, v }, 0, 100, 10_000, 1_000_000), func(s scene) int { return s.unread }},
	}
	sv, err := s.serve(ctx)
	if err != nil {
		return nil, err
	}
	defer sv.stop()
	var out []curve
	for k, c := range curves {
		c.columns = []string{"", "first page with badge", "first page", "send", "read", "receipts of 50"}
		for i, sc := range c.scenes {
			sc.name = fmt.Sprintf("g%d%d", k, i)
			row, err := s.grown(ctx, sv, sc)
			if err != nil {
				return nil, fmt.Errorf("%s at %d: %w", c.title, c.value(sc), err)
			}
			c.rows = append(c.rows, append([]string{fmt.Sprint(c.value(sc))}, row...))
			fmt.Fprintln(s.Out, c.title, c.rows[len(c.rows)-1])
		}
		out = append(out, c.curve)
	}
	return out, nil
}

// grown makes a scene and measures it, in milliseconds.
func (s *suite) grown(ctx context.Context, sv *server, sc scene) (row []string, err error) {
	if err := s.db.execute(ctx, sceneData(sc)...); err != nil {
		return nil, err
	}
	c, err := dial(sv.address, "token-of-"+sc.name)
	if err != nil {
		return nil, err
	}
	defer c.close()
	conv := chat.ConversationID(sc.name + "-1")
	sent, read := 0, chat.Seq(0)
	receipts := &receipts{store: sv.Store, viewer: "author", conversation: conv}
	for _, measure := range []func() error{
		func() error { _, err := c.post(listDocument, nil); return err },
		func() error { _, err := c.post(listWithoutBadge, nil); return err },
		func() error {
			sent++
			r, err := sv.Store.Append(ctx, conv, []store.Draft{{Sender: "author", ClientMessageID: fmt.Sprint("grown", sent), Body: "a message of a usual length, give or take"}})
			if err == nil {
				err = r[0].Err
			}
			return err
		},
		func() error {
			read++
			_, err := sv.Store.MarkRead(ctx, []store.ReadReport{{User: chat.UserID(sc.name), Conversation: conv, Seq: chat.Seq(sc.members+sc.messages) + read - 20}})
			return err
		},
	} {
		for range 7 { // by then prepared statements have the plan that they keep
			if err := measure(); err != nil {
				return nil, err
			}
		}
		ms, err := typical(15, measure)
		if err != nil {
			return nil, err
		}
		row = append(row, number("ms", ms)+" ms")
	}
	ms, err := receipts.page(ctx)
	return append(row, number("ms", ms)+" ms"), err
}
