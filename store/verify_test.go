package store_test

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"tidemark/chat"
	"tidemark/store"
)

// TestVerifyFindsWhatDeviates: each kind of damage is named by its rule, and
// repair puts the ordinals right.
func TestVerifyFindsWhatDeviates(t *testing.T) {
	for name, damage := range map[string]struct {
		sql        string
		rule       string
		repairable bool
	}{
		"an event's ordinal":          {`UPDATE events SET message_ord = message_ord + 1 WHERE conv_id = 'c' AND seq = 5`, "ordinals", true},
		"a sender's ordinal":          {`UPDATE events SET sender_ord = 1 WHERE conv_id = 'c' AND seq = 6`, "ordinals", true},
		"the conversation's":          {`UPDATE conversations SET message_ord = message_ord + 1 WHERE conv_id = 'c'`, "ordinals", true},
		"the last withdrawal":         {`UPDATE conversations SET last_withdrawn_seq = 0 WHERE conv_id = 'c'`, "ordinals", true},
		"a member's":                  {`UPDATE members SET sent_ord = sent_ord + 3 WHERE user_id = 'b' AND conv_id = 'c'`, "ordinals", true},
		"a period's start":            {`UPDATE members SET from_ord = from_ord + 1 WHERE user_id = 'b' AND conv_id = 'c'`, "ordinals", true},
		"a former period's end":       {`UPDATE membership_periods SET to_ord = to_ord + 1`, "ordinals", true},
		"the number of periods":       {`UPDATE members SET former_periods = 0 WHERE former_periods > 0`, "ordinals", true},
		"a read position's":           {`UPDATE read_positions SET read_ord = read_ord - 1`, "ordinals", true},
		"the number of members":       {`UPDATE conversations SET member_count = 7 WHERE conv_id = 'c'`, "ordinals", true},
		"a lost event":                {`DELETE FROM events WHERE conv_id = 'c' AND seq = 6`, "M6", false},
		"a head beyond the log":       {`UPDATE conversations SET head = head + 1 WHERE conv_id = 'c'`, "M6", false},
		"a delivered beyond head":     {`UPDATE device_cursors SET delivered_seq = 1000`, "M1", false},
		"a read position too far":     {`UPDATE read_positions SET read_seq = 900, seen_seq = 900`, "M2", false},
		"unread that does not add up": {`UPDATE read_positions SET read_ord = 1`, "M4", true},
		"a cursor from the future":    {`UPDATE device_cursors SET install_epoch = 3`, "M5", false},
		"a mention that was lost":     {`DELETE FROM mentions WHERE user_id = 'b'`, "mentions", true},
		"a mention too much":          {`INSERT INTO mentions (conv_id, user_id, seq, sender, since) VALUES ('c', 'b', 4, 'a', 4)`, "mentions", true},
		"a wrong mention":             {`UPDATE mentions SET covered_by = CASE WHEN covered_by IS NULL THEN since END`, "mentions", true},
		"unread mentions":             {`DELETE FROM mentions WHERE user_id = ''`, "M4", true},
		"the last mention":            {`UPDATE conversations SET last_mention_seq = 0 WHERE conv_id = 'c'`, "mentions", true},
		"rows for every member":       {`INSERT INTO mentions (conv_id, user_id, seq, sender, since) SELECT 'c', 'u' || i, 5, 'a', 5 FROM generate_series(1, 60) i`, "M9", true},
		"the last activity":           {`UPDATE conversations SET last_activity_seq = 1 WHERE conv_id = 'c'`, "ordinals", true},
		"the time of it":              {`UPDATE conversations SET last_activity_at = last_activity_at - interval '1 day' WHERE conv_id = 'c'`, "ordinals", true},
		"a leaver's activity":         {`UPDATE members SET past_activity_at = NULL WHERE user_id = 'b' AND conv_id = 'c'`, "ordinals", true},
		"an archive that ended":       {`UPDATE members SET archived_ord = 1000 WHERE user_id = 'a' AND conv_id = 'c'`, "archive", false},
		"a stray position":            {`INSERT INTO read_positions (user_id, conv_id, read_seq, read_ord, read_own, seen_seq) VALUES ('x', 'c', 1, 0, 0, 1)`, "M2", false},
		"a stray cursor":              {`INSERT INTO device_cursors (device_id, conv_id, install_epoch, delivered_seq) VALUES ('x', 'c', 0, 1)`, "M1", false},
		"a log without its row":       {`INSERT INTO events (conv_id, seq, kind, message_ord, at) VALUES ('c0', 1, 6, 0, now())`, "M6", false},
		"what an erasure left":        {`UPDATE users SET erased_at = now() WHERE user_id = 'b'`, "erasure", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.users("a", "b")
			conv := w.group("c", "a", "b")
			w.group("untouched", "a", "b")
			w.device("b", "b1")
			w.send(conv, "a", 6)
			w.send(conv, "b", 1)
			yes := true
			_, err := w.UpdateSettings(w.ctx, "a", conv, store.Settings{Archived: &yes})
			w.must(err)
			_, err = w.Append(w.ctx, conv, []store.Draft{{Sender: "a", ClientMessageID: "mention", Body: "x", Mentions: []chat.UserID{"b"}, MentionsAll: true}})
			w.must(err)
			_, err = w.Edit(w.ctx, "a", conv, 3, store.Edit{Body: "edited", Mentions: &[]chat.UserID{"b"}, MentionsAll: &yes})
			w.must(err)
			_, err = w.Recall(w.ctx, "a", conv, 4)
			w.must(err)
			w.must(w.read("b", conv, 6).Err)
			w.must(w.ack("b1", 0, conv, 6).Err)
			_, err = w.Leave(w.ctx, "b", conv)
			w.must(err)
			_, err = w.AddMembers(w.ctx, conv, []chat.UserID{"b"}, chat.HistoryMembership)
			w.must(err)
			w.noDeviations(t)

			_, err = w.conn(t).Exec(w.ctx, damage.sql)
			w.must(err)
			var rules []string
			looked, err := w.Verify(w.ctx, func(d store.Deviation) {
				if d.Conversation != conv && d.Conversation != "c0" && d.Rule != "erasure" && d.Rule != "M7" || d.Subject == "" || d.Found == "" || d.String() == "" {
					t.Errorf("an unclear deviation: %+v", d)
				}
				rules = append(rules, d.Rule)
			})
			w.must(err)
			found := false
			for _, r := range rules {
				found = found || r == damage.rule
			}
			if looked != 2 || !found {
				t.Errorf("looked at %d conversations, found %v, want %s", looked, rules, damage.rule)
			}
			if damage.repairable {
				w.must(w.Repair(w.ctx, conv))
				w.noDeviations(t)
			}
		})
	}
}

// TestP3OrderAndRepetitionDoNotMatter: any order and repetition of the same
// reports ends in the same rows, in whatever batches they come.
func TestP3OrderAndRepetitionDoNotMatter(t *testing.T) {
	w := newWorld(t)
	w.users("a", "b", "c")
	w.device("b", "b1")
	w.device("c", "c1")
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		p := &world{w.Store, rt, w.url, ctx, w.ids, nil}
		var convs []chat.ConversationID
		for range 2 {
			conv := p.group(chat.ConversationID(fmt.Sprint("p3-", p.ids.Add(1))), "a", "b", "c")
			p.send(conv, "a", 6)
			convs = append(convs, conv)
		}
		type report struct {
			user chat.UserID
			seq  chat.Seq
			ack  bool
		}
		reports := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) report {
			return report{rapid.SampledFrom([]chat.UserID{"b", "c"}).Draw(t, "user"),
				chat.Seq(rapid.IntRange(0, 11).Draw(t, "seq")), rapid.Bool().Draw(t, "ack")}
		}), 1, 12).Draw(rt, "reports")
		// The first conversation gets them one by one as drawn, the second shuffled, repeated and in batches.
		apply := func(conv chat.ConversationID, batch []report) {
			var reads []store.ReadReport
			var acks []store.AckReport
			for _, r := range batch {
				if r.ack {
					acks = append(acks, store.AckReport{Device: chat.DeviceID(r.user + "1"), Conversation: conv, Seq: r.seq})
				} else {
					reads = append(reads, store.ReadReport{User: r.user, Conversation: conv, Seq: r.seq})
				}
			}
			_, err := p.MarkRead(ctx, reads)
			p.must(err)
			_, err = p.Ack(ctx, acks)
			p.must(err)
		}
		for _, r := range reports {
			apply(convs[0], []report{r})
		}
		again := rapid.Permutation(append(append([]report{}, reports...), reports...)).Draw(rt, "again")
		for len(again) > 0 {
			n := rapid.IntRange(1, len(again)).Draw(rt, "batch")
			apply(convs[1], again[:n])
			again = again[n:]
		}
		for _, u := range []chat.UserID{"b", "c"} {
			one, two := p.see(u, chat.DeviceID(u+"1"), convs[0]), p.see(u, chat.DeviceID(u+"1"), convs[1])
			if one.Read != two.Read || one.Delivered != two.Delivered || one.UnreadMessages != two.UnreadMessages {
				rt.Fatalf("%s: %d/%d/%d one by one, %d/%d/%d shuffled", u, one.Read, one.Delivered, one.UnreadMessages, two.Read, two.Delivered, two.UnreadMessages)
			}
		}
	})
	w.noDeviations(t)
}
