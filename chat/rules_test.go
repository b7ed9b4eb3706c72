package chat

import (
	"testing"

	"pgregory.net/rapid"
)

// TestPositionKeepsItsOrder: whatever is read and marked unread, mention <= read
// <= seen, seen never goes back, the revision counts what marks unread, and no
// stale report is accepted.
func TestPositionKeepsItsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Position
		marks := int32(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			before := p
			seq := Seq(rapid.IntRange(1, 50).Draw(t, "seq"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				p = p.MarkUnread(seq)
				marks++
				if p.Read != min(before.Read, seq-1) || p.MarkedUnread != before.MarkedUnread {
					t.Fatalf("unread from %d: %+v after %+v", seq, p, before)
				}
			case 1:
				p = p.Remind()
				marks++
				if !p.MarkedUnread || p.Read != before.Read || p.Mention != before.Mention {
					t.Fatalf("reminder: %+v after %+v", p, before)
				}
			default:
				keep := rapid.Bool().Draw(t, "keep mentions")
				p = p.MarkRead(seq, keep)
				if p.Read != max(before.Read, seq) || p.MarkedUnread || keep && p.Mention != before.Mention || !keep && p.Mention != max(before.Mention, seq) {
					t.Fatalf("read %d: %+v after %+v", seq, p, before)
				}
			}
			if p.Mention > p.Read || p.Read > p.Seen || p.Seen < before.Seen || p.Revision != marks {
				t.Fatalf("%+v after %+v and %d marks", p, before, marks)
			}
		}
		older, present, newer := p.Revision-1, p.Revision, p.Revision+1
		if p.Accepts(&older) || !p.Accepts(&present) || !p.Accepts(&newer) || !p.Accepts(nil) {
			t.Fatalf("the fence of %+v", p)
		}
	})
}

// TestBadgeIsTheSumOfItsRows: row by row, in any order; a muted row adds its
// mentions at most, and asks for attention by them only.
func TestBadgeIsTheSumOfItsRows(t *testing.T) {
	row := rapid.Custom(func(t *rapid.T) Counts {
		return Counts{Unread: int64(rapid.IntRange(0, 5).Draw(t, "unread")), Mentions: int64(rapid.IntRange(0, 5).Draw(t, "mentions")),
			Muted: rapid.Bool().Draw(t, "muted"), MarkedUnread: rapid.Bool().Draw(t, "marked")}
	})
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOf(row).Draw(t, "rows")
		var sum Badge
		for _, c := range rows {
			one := SumBadge([]Counts{c})
			if c.Muted && (int64(one.Unread) > c.Mentions || int64(one.MutedUnread) != c.Unread || (one.Conversations == 1) != (c.Mentions > 0)) {
				t.Fatalf("muted %+v: %+v", c, one)
			}
			if !c.Muted && (int64(one.Unread) != c.Unread || one.MutedUnread != 0 || (one.Conversations == 1) != (c.Unread+c.Mentions > 0 || c.MarkedUnread)) {
				t.Fatalf("%+v: %+v", c, one)
			}
			sum = sum.Plus(one)
		}
		if got := SumBadge(rapid.Permutation(rows).Draw(t, "order")); got != sum {
			t.Fatalf("%+v, row by row %+v", got, sum)
		}
	})
}

// TestBadgesAddUpToTheLargestNumber: what two parts of a list cannot say in 32 bits
// together, neither can the whole.
func TestBadgesAddUpToTheLargestNumber(t *testing.T) {
	many := Counts{Unread: 1 << 40, Mentions: 1 << 40, Muted: true}
	if part, whole := SumBadge([]Counts{many}), SumBadge([]Counts{many, many}); part.Plus(Badge{Conversations: 1}) != whole || part.Plus(part).Unread != 1<<31-1 {
		t.Errorf("%+v and %+v", part, whole)
	}
}

// TestReadersAreOfTheAudience: for every log and position, and reading on says
// nothing about what a return has hidden.
func TestReadersAreOfTheAudience(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, periods := logs(t)
		for i := range periods {
			if p := &periods[i]; p.Hidden {
				p.SeenCap = Seq(rapid.IntRange(0, int(p.To)).Draw(t, "cap"))
			}
		}
		seen := Seq(rapid.IntRange(0, len(log)).Draw(t, "seen"))
		for i := range log {
			seq := Seq(i + 1)
			in, read := InAudience(periods, seq), HasRead(periods, seen, seq)
			if read && !in || Sees(periods, seq) && !in {
				t.Fatalf("%d: reads %v, in the audience %v", seq, read, in)
			}
			if in && Sees(periods, seq) && read != (seq <= seen) {
				t.Fatalf("%d: visible, seen %d, reads %v", seq, seen, read)
			}
			if in && !Sees(periods, seq) && HasRead(periods, 0, seq) != HasRead(periods, EndOfLog, seq) {
				t.Fatalf("%d is hidden: reading on changes it", seq)
			}
		}
	})
}

// TestReceiptPolicies: who sees the receipt of a message.
func TestReceiptPolicies(t *testing.T) {
	for policy, want := range map[ReceiptPolicy][4]bool{ // sent and shares; sent; shares; neither
		ReceiptsSender: {true, false, false, false}, ReceiptsMembers: {true, false, true, false},
		ReceiptsRequired: {true, true, true, true}, ReceiptsOff: {}, "NEW": {},
	} {
		if got := [4]bool{policy.Shows(true, true), policy.Shows(true, false), policy.Shows(false, true), policy.Shows(false, false)}; got != want {
			t.Errorf("%s: %v, want %v", policy, got, want)
		}
	}
	if Detail(199, 200) != DetailNames || Detail(200, 200) != DetailCounts || Fanout(500, 500) != Push || Fanout(501, 500) != Pull {
		t.Error("a limit is off by one")
	}
	if (&Receipt{}).AllRead() || !(&Receipt{Audience: 2, ReadCount: 2}).AllRead() || (&Receipt{Audience: 2, ReadCount: 1}).AllRead() {
		t.Error("all have read if there is anybody, and all of them have")
	}
}

// TestMentionsAndArchives: what ends an archive, and what counts as a mention.
func TestMentionsAndArchives(t *testing.T) {
	log := []LogEntry{{}, {}, {Message: true, Sender: "you", Mentions: []UserID{"me"}}, {Message: true, Sender: "me", MentionsAll: true},
		{Message: true, Sender: "you", MentionsAll: true, Since: map[UserID]Seq{"": 7}}, {Message: true, Sender: "you", Mentions: []UserID{"me"}, Withdrawn: true}, {}}
	present, left := []Period{{From: 2}}, []Period{{From: 2, To: 6}}
	for _, c := range []struct {
		periods []Period
		after   Seq
		n       int64
		first   Seq
	}{{present, 0, 2, 3}, {present, 3, 1, 5}, {present, 5, 0, 0}, {left, 0, 1, 3}, {left, 3, 0, 0}, {[]Period{{From: 4}}, 0, 1, 5}} {
		if n, first := UnreadMentions(log, c.periods, "me", c.after); n != c.n || first != c.first {
			t.Errorf("%v after %d: %d from %d, want %d from %d", c.periods, c.after, n, first, c.n, c.first)
		}
	}
	if ArchiveLasts(log, present, "me", 4) || !ArchiveLasts(log, present, "me", 6) || !ArchiveLasts(log[:4], present, "me", 3) || !ArchiveLasts(log, []Period{{From: 1, To: 2}}, "me", 1) {
		t.Error("an archive ends with another's message while one is there, and with nothing else")
	}
}
