package bench

import "fmt"

// writesData: 64 writers who are members of everything here, with a device each.
func writesData() []string {
	return []string{
		fmt.Sprintf(`INSERT INTO users (user_id, name) SELECT 'writer' || i, 'Writer ' || i FROM generate_series(1, %d) i`, writers),
		fmt.Sprintf(`INSERT INTO devices (device_id, user_id, token_sha256) SELECT 'writer' || i, 'writer' || i, sha256(('token-of-writer-' || i)::bytea) FROM generate_series(1, %d) i`, writers),
		`INSERT INTO devices (device_id, user_id, token_sha256) VALUES ('acker', 'writer1', sha256('token-of-acker'))`,
		groups("read", readable, writers, "writer"),
		joins("read", readable, writers, "writer"),
		messages("read", readable, writers, readableMessages, "writer1"),
		groups("hot", 0, writers, "writer"),
		joins("hot", 0, writers, "writer"),
		groups("pair", 0, 2, "writer"),
		joins("pair", 0, 2, "writer"),
		`INSERT INTO users (user_id) SELECT 'crowd' || i FROM generate_series(1, 99936) i`,
		`ANALYZE users`, // or the checks of foreign keys go on reading it as a whole
		groups("huge", 0, 100_000, "writer"),
		joins("huge", 0, writers, "writer"),
		`INSERT INTO members (user_id, conv_id, joined_at, from_seq, from_ord, from_own) SELECT 'crowd' || i, 'huge', now(), i + 64, 0, 0 FROM generate_series(1, 99936) i`,
		`CREATE TABLE floor_positions (LIKE read_positions INCLUDING ALL) WITH (fillfactor = 80)`,
		`CREATE TABLE floor_cursors (LIKE device_cursors INCLUDING ALL) WITH (fillfactor = 80)`,
		`CREATE TABLE floor_conversations (LIKE conversations INCLUDING ALL) WITH (fillfactor = 70)`,
		`CREATE TABLE floor_members (LIKE members INCLUDING ALL) WITH (fillfactor = 80)`,
		`CREATE TABLE floor_events (LIKE events INCLUDING ALL)`,
		`INSERT INTO floor_conversations SELECT * FROM conversations WHERE conv_id = 'hot'`,
		`INSERT INTO floor_members SELECT * FROM members WHERE conv_id = 'hot'`,
		`VACUUM ANALYZE`,
	}
}

// groups makes conversations prefix1 to prefixn, or one named prefix for n = 0,
// of members with seqs 1 to members, without their rows.
func groups(prefix string, n, members int, owner string) string {
	return fmt.Sprintf(`INSERT INTO conversations (conv_id, kind, title, head, member_count, last_activity_at)
		SELECT %s, 'GROUP', 'Group ' || i, %d, %d, now() - i * interval '1 minute' FROM generate_series(1, %d) i`, name(prefix, n), members, members, max(n, 1))
}

// joins makes the members owner1 to ownerk of them, with the events of their joining.
func joins(prefix string, n, members int, owner string) string {
	return fmt.Sprintf(`WITH m AS (
		INSERT INTO members (user_id, conv_id, joined_at, from_seq, from_ord, from_own)
		SELECT '%s' || k, %s, now(), k, 0, 0 FROM generate_series(1, %d) i, generate_series(1, %d) k RETURNING user_id, conv_id, from_seq)
		INSERT INTO events (conv_id, seq, kind, subject, message_ord, at) SELECT conv_id, from_seq, 2, user_id, 0, now() FROM m`, owner, name(prefix, n), max(n, 1), members)
}

// messages appends count messages of sender to each of them, behind head.
func messages(prefix string, n, head, count int, sender string) string {
	return fmt.Sprintf(`WITH k AS MATERIALIZED (SELECT %[1]s AS conv_id FROM generate_series(1, %[2]d) i),
		e AS (
			INSERT INTO events (conv_id, seq, kind, sender, client_message_id, content_hash, body, message_ord, sender_ord, at)
			SELECT conv_id, %[3]d + x, 1, '%[4]s', 'fill' || x, '\x00', 'a message of a usual length, give or take', x, x, now() FROM k, generate_series(1, %[5]d) x),
		m AS (UPDATE members m SET sent_ord = %[5]d FROM k WHERE m.user_id = '%[4]s' AND m.conv_id = k.conv_id)
		UPDATE conversations c SET head = %[6]d, message_ord = %[5]d, last_message_seq = %[6]d, last_activity_seq = %[6]d FROM k WHERE c.conv_id = k.conv_id`,
		name(prefix, n), max(n, 1), head, sender, count, head+count)
}

func name(prefix string, n int) string {
	if n == 0 {
		return fmt.Sprintf("'%s'", prefix)
	}
	return fmt.Sprintf("'%s' || i", prefix)
}

// author is who writes to the others.
const author = `INSERT INTO users (user_id, name) VALUES ('author', 'Author') ON CONFLICT DO NOTHING`

// inboxData: "many" with 200 conversations of unread messages each and mentions in
// two of them, "few" with a thousandth of both, and "collector" with 5,000
// conversations among 20,000.
func inboxData(unread int) []string {
	list := []string{author,
		`INSERT INTO users (user_id, name) SELECT n, initcap(n) FROM unnest(ARRAY['many', 'few', 'collector']) n`,
		`INSERT INTO devices (device_id, user_id, token_sha256) SELECT n, n, sha256(('token-of-' || n)::bytea) FROM unnest(ARRAY['many', 'few', 'collector']) n`,
	}
	for _, x := range []struct {
		user, prefix           string
		convs, read, unread    int
		mentioned, mentionEach int
	}{
		{"many", "many", inboxConversations, 20, unread, 2, min(unread, 1_000)},
		{"few", "few", inboxConversations, 20, unread / 1000, 2, 1},
		{"collector", "big", 5_000, 20, 5, 5, 1},
		{"", "other", 15_000, 5, 0, 0, 0},
	} {
		total := x.read + x.unread
		list = append(list, groups(x.prefix, x.convs, 2, ""),
			fmt.Sprintf(`INSERT INTO members (user_id, conv_id, joined_at, from_seq, from_ord, from_own) SELECT 'author', %s, now(), 1, 0, 0 FROM generate_series(1, %d) i`, name(x.prefix, x.convs), x.convs),
			messages(x.prefix, x.convs, 2, total, "author"))
		if x.user == "" {
			continue
		}
		list = append(list,
			fmt.Sprintf(`INSERT INTO members (user_id, conv_id, joined_at, from_seq, from_ord, from_own) SELECT '%s', %s, now(), 2, 0, 0 FROM generate_series(1, %d) i`, x.user, name(x.prefix, x.convs), x.convs),
			fmt.Sprintf(`INSERT INTO read_positions (user_id, conv_id, read_seq, read_ord, read_own, mention_seq, seen_seq) SELECT '%s', %s, %d, %d, 0, %d, %d FROM generate_series(1, %d) i`,
				x.user, name(x.prefix, x.convs), x.read+2, x.read, x.read+2, x.read+2, x.convs),
			fmt.Sprintf(`INSERT INTO device_cursors (device_id, conv_id, install_epoch, delivered_seq) SELECT '%s', %s, 0, %d FROM generate_series(1, %d) i`, x.user, name(x.prefix, x.convs), x.read+2, x.convs),
			fmt.Sprintf(`INSERT INTO mentions (conv_id, user_id, seq, sender, since) SELECT %s, '%s', %d - k, 'author', %d - k FROM generate_series(1, %d) i, generate_series(1, %d) k`,
				name(x.prefix, x.convs), x.user, total+3, total+3, x.mentioned, x.mentionEach),
			fmt.Sprintf(`UPDATE conversations c SET last_mention_seq = %d FROM generate_series(1, %d) i WHERE c.conv_id = %s`, total+2, x.mentioned, name(x.prefix, x.convs)))
	}
	return append(list, `VACUUM ANALYZE`)
}

// crowdUnread is how much each fan has unread before anything is sent.
const crowdUnread = 5 * (crowdConversations - 1)

// crowdData: 500 fans who are all in one group, and in 99 others each, which have
// five messages that they have not read.
func crowdData() []string {
	const others = 2_000
	return []string{author,
		fmt.Sprintf(`INSERT INTO users (user_id) SELECT 'fan' || k FROM generate_series(1, %d) k`, crowdSessions),
		fmt.Sprintf(`INSERT INTO devices (device_id, user_id, token_sha256) SELECT 'fan' || k, 'fan' || k, sha256(('token-of-fan-' || k)::bytea) FROM generate_series(1, %d) k`, crowdSessions),
		groups("fans", 0, crowdSessions, ""), joins("fans", 0, crowdSessions, "fan"),
		groups("club", others, 51, ""),
		fmt.Sprintf(`INSERT INTO members (user_id, conv_id, joined_at, from_seq, from_ord, from_own)
			SELECT 'author', 'club' || i, now(), 1, 0, 0 FROM generate_series(1, %d) i`, others),
		fmt.Sprintf(`INSERT INTO members (user_id, conv_id, joined_at, from_seq, from_ord, from_own)
			SELECT 'fan' || k, 'club' || ((k * 37 + j * 10) %% %d + 1), now(), 2, 0, 0 FROM generate_series(1, %d) k, generate_series(1, %d) j`, others, crowdSessions, crowdConversations-1),
		messages("club", others, 51, 15, "author"),
		`INSERT INTO read_positions (user_id, conv_id, read_seq, read_ord, read_own, mention_seq, seen_seq)
			SELECT user_id, conv_id, 61, 10, 0, 61, 61 FROM members WHERE user_id LIKE 'fan%' AND conv_id LIKE 'club%'`,
		`VACUUM ANALYZE`,
	}
}

const receiptMembers, receiptPage = 500, 50

// receiptsData: a group of 500 among some 100,000 users, in which each has read up
// to somewhere in the last fifty messages.
func receiptsData() []string {
	return []string{
		`INSERT INTO users (user_id) SELECT 'crowd' || i FROM generate_series(1, 99936) i ON CONFLICT DO NOTHING`,
		fmt.Sprintf(`INSERT INTO users (user_id) SELECT 'reader' || k FROM generate_series(1, %d) k`, receiptMembers),
		groups("forum", 0, receiptMembers, ""), joins("forum", 0, receiptMembers, "reader"),
		messages("forum", 0, receiptMembers, 200, "reader1"),
		fmt.Sprintf(`INSERT INTO read_positions (user_id, conv_id, read_seq, read_ord, read_own, mention_seq, seen_seq)
			SELECT 'reader' || k, 'forum', %[1]d - k %% 60, 200 - k %% 60, CASE k WHEN 1 THEN 200 - k %% 60 ELSE 0 END, %[1]d - k %% 60, %[1]d - k %% 60 FROM generate_series(1, %[2]d) k`, receiptMembers+200, receiptMembers),
		`VACUUM ANALYZE`,
	}
}

// sceneData makes the user of a scene with their conversations, all of the author's.
func sceneData(sc scene) []string {
	const others = 25 // messages in each of the other conversations, five of them unread
	first := func(ofFirst, ofOthers int) string {
		return fmt.Sprintf("CASE i WHEN 1 THEN %d ELSE %d END", ofFirst, ofOthers)
	}
	convs := fmt.Sprintf("generate_series(1, %d) i", sc.conversations)
	id := fmt.Sprintf("'%s-' || i", sc.name)
	head, count := first(sc.members+sc.messages, 2+others), first(sc.messages, others)
	return []string{author,
		fmt.Sprintf(`INSERT INTO users (user_id) VALUES ('%s')`, sc.name),
		fmt.Sprintf(`INSERT INTO devices (device_id, user_id, token_sha256) VALUES ('%[1]s', '%[1]s', sha256('token-of-%[1]s'))`, sc.name),
		fmt.Sprintf(`INSERT INTO conversations (conv_id, kind, title, head, message_ord, last_message_seq, last_activity_seq, member_count, last_activity_at)
			SELECT %[1]s, 'GROUP', 'Group ' || i, %[2]s, %[3]s, %[2]s, %[2]s, %[4]s, now() - i * interval '1 minute' FROM %[5]s`, id, head, count, first(sc.members, 2), convs),
		fmt.Sprintf(`INSERT INTO members (user_id, conv_id, sent_ord, joined_at, from_seq, from_ord, from_own)
			SELECT 'author', %[1]s, %[2]s, now(), 1, 0, 0 FROM %[3]s UNION ALL SELECT '%[4]s', %[1]s, 0, now(), 2, 0, 0 FROM %[3]s`, id, count, convs, sc.name),
		fmt.Sprintf(`INSERT INTO users (user_id) SELECT 'extra' || k FROM generate_series(3, %d) k ON CONFLICT DO NOTHING`, sc.members),
		`ANALYZE users`,
		fmt.Sprintf(`INSERT INTO members (user_id, conv_id, joined_at, from_seq, from_ord, from_own) SELECT 'extra' || k, '%s-1', now(), k, 0, 0 FROM generate_series(3, %d) k`, sc.name, sc.members),
		fmt.Sprintf(`INSERT INTO read_positions (user_id, conv_id, read_seq, read_ord, read_own, mention_seq, seen_seq)
			SELECT 'extra' || k, '%[1]s-1', %[2]d - k %% 50, %[3]d - k %% 50, 0, %[2]d - k %% 50, %[2]d - k %% 50 FROM generate_series(3, %[4]d) k`, sc.name, sc.members+sc.messages, sc.messages, sc.members),
		fmt.Sprintf(`INSERT INTO events (conv_id, seq, kind, sender, client_message_id, content_hash, body, message_ord, sender_ord, at)
			SELECT %s, %s + k, 1, 'author', 'fill' || k, '\x00', 'a message of a usual length, give or take', k, k, now() FROM %s, generate_series(1, %s) k`, id, first(sc.members, 2), convs, count),
		fmt.Sprintf(`INSERT INTO read_positions (user_id, conv_id, read_seq, read_ord, read_own, mention_seq, seen_seq)
			SELECT '%[1]s', %[2]s, %[3]s - u.n, %[4]s - u.n, 0, %[3]s - u.n, %[3]s - u.n FROM %[5]s CROSS JOIN LATERAL (SELECT %[6]s AS n) u`, sc.name, id, head, count, convs, first(sc.unread, 5)),
		`VACUUM ANALYZE`,
	}
}
