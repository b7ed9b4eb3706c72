package resolvers_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestEveryArgumentIsChecked: each malformed argument gets its code and names
// its field, and nothing changes.
func TestEveryArgumentIsChecked(t *testing.T) {
	g := newTrio(t)
	g.a.send(g.conv, 3)
	stranger := g.device("E", "e1")
	before := g.everything()

	long, huge := strings.Repeat("x", 129), strings.Repeat("x", 200_000)
	badIDs := map[string]string{"empty": "", "129 bytes": long, "200 KB": huge, "NUL": "a\x00b", "newline": "a\nb", "C1 control": "a\u0085b", "DEL": "a\x7fb"}
	manyIDs := make([]string, 1001)
	for i := range manyIDs {
		manyIDs[i] = fmt.Sprint("u", i)
	}

	// id arguments: a document with one variable $x, and the field at fault.
	service := g.service()
	for _, probe := range []struct {
		who        *client
		doc, field string
		also       vars
	}{
		{g.b1, `query($x: ID!) { conversation(id: $x) { id } }`, "id", nil},
		{service, `query($x: ID!) { userBadge(userId: $x) { unread } }`, "userId", nil},
		{service, `query($x: ID!) { userDevices(userId: $x) { id } }`, "userId", nil},
		{service, `query($x: ID!) { conversationRef(id: $x) { id } }`, "id", nil},
		{g.b1, `mutation($x: ID!) { markRead(input: {conversationId: $x, seq: 1}) { badge { unread } } }`, "conversationId", nil},
		{g.b1, `mutation($x: ID!) { ack(input: {installEpoch: 0, cursors: [{conversationId: $x, seq: 1}]}) { cursors { delivered } } }`, "conversationId", nil},
		{g.b1, `mutation($x: ID!) { registerInstall(input: {installId: $x}) { reinstalled } }`, "installId", nil},
		{g.b1, `mutation($x: ID!) { sendMessage(input: {conversationId: $x, clientMessageId: "m", body: "b"}) { duplicate } }`, "conversationId", nil},
		{g.b1, `mutation($x: ID!) { sendMessage(input: {conversationId: "c1", clientMessageId: $x, body: "b"}) { duplicate } }`, "clientMessageId", nil},
		{g.b1, `mutation($x: ID!) { recallMessage(input: {conversationId: $x, seq: 1}) { message { seq } } }`, "conversationId", nil},
		{g.b1, `mutation($x: ID!) { leaveConversation(input: {conversationId: $x}) { badge { unread } } }`, "conversationId", nil},
		{g.b1, `mutation($x: ID!) { revokeDevice(input: {deviceId: $x}) { deviceId } }`, "deviceId", nil},
		{service, `mutation($x: ID!) { putUser(input: {id: $x}) { user { id } } }`, "id", nil},
		{service, `mutation($x: ID!) { createDevice(input: {userId: $x}) { token } }`, "userId", nil},
		{service, `mutation($x: ID!) { createDevice(input: {userId: "A", id: $x}) { token } }`, "id", nil},
		{service, `mutation($x: ID!) { rotateDeviceToken(input: {deviceId: $x}) { token } }`, "deviceId", nil},
		{service, `mutation($x: ID!) { createConversation(input: {id: $x, kind: GROUP, memberIds: []}) { conversation { id } } }`, "id", nil},
		{service, `mutation($x: ID!) { createConversation(input: {kind: GROUP, memberIds: [$x]}) { conversation { id } } }`, "memberIds", nil},
		{service, `mutation($x: ID!) { addMembers(input: {conversationId: $x, userIds: ["A"]}) { conversation { id } } }`, "conversationId", nil},
		{service, `mutation($x: ID!) { addMembers(input: {conversationId: "c1", userIds: ["E", $x]}) { conversation { id } } }`, "userIds", nil},
		{service, `mutation($x: ID!) { removeMembers(input: {conversationId: $x, userIds: ["A"]}) { conversation { id } } }`, "conversationId", nil},
		{service, `mutation($x: ID!) { removeMembers(input: {conversationId: "c1", userIds: ["A", $x]}) { conversation { id } } }`, "userIds", nil},
		{g.b1, `mutation($x: ID!) { markUnread(input: {conversationId: $x}) { badge { unread } } }`, "conversationId", nil},
		{g.b1, `mutation($x: ID!) { markAllRead(input: {upTo: [{conversationId: $x, seq: 1}]}) { changed } }`, "conversationId", nil},
		{g.b1, `mutation($x: ID!) { sendMessage(input: {conversationId: "c1", clientMessageId: "m", body: "b", mentions: [$x]}) { duplicate } }`, "mentions", nil},
		{g.b1, `mutation($x: ID!) { editMessage(input: {conversationId: $x, seq: 4, body: "b"}) { duplicate } }`, "conversationId", nil},
		{g.a, `mutation($x: ID!) { editMessage(input: {conversationId: "c1", seq: 4, body: "b", mentions: ["A", $x]}) { duplicate } }`, "mentions", nil},
		{g.b1, `mutation($x: ID!) { updateConversationSettings(input: {conversationId: $x, muted: true}) { badge { unread } } }`, "conversationId", nil},
		{service, `mutation($x: ID!) { updateConversation(input: {conversationId: $x, title: "t"}) { conversation { id } } }`, "conversationId", nil},
		{service, `mutation($x: ID!) { postNotice(input: {conversationId: $x, text: "t"}) { conversation { id } } }`, "conversationId", nil},
		{service, `mutation($x: ID!) { postNotice(input: {conversationId: "c1", text: "t", noticeId: $x}) { conversation { id } } }`, "noticeId", nil},
		{service, `mutation($x: ID!) { takeDownMessage(input: {conversationId: $x, seq: 4}) { conversation { id } } }`, "conversationId", nil},
		{service, `mutation($x: ID!) { eraseUser(input: {userId: $x}) { userId } }`, "userId", nil},
	} {
		for kind, id := range badIDs {
			refused(t, fmt.Sprintf("%s with %s", probe.doc, kind), probe.who.do(probe.doc, vars{"x": id}), "BAD_USER_INPUT", probe.field)
		}
	}

	// The rest, one by one.
	for _, probe := range []struct {
		who         *client
		doc         string
		v           vars
		code, field string
	}{
		{g.b1, `{ conversations(first: 0) { nodes { id } } }`, nil, "BAD_USER_INPUT", "first"},
		{g.b1, `{ conversations(first: -1) { nodes { id } } }`, nil, "BAD_USER_INPUT", "first"},
		{g.b1, `{ conversations(first: 10000) { nodes { id } } }`, nil, "BAD_USER_INPUT", "first"},
		{g.b1, `{ conversations(first: 3000000000) { nodes { id } } }`, nil, "BAD_USER_INPUT", "first"},
		{g.b1, `{ conversations(first: 1.5) { nodes { id } } }`, nil, "BAD_USER_INPUT", "first"},
		{g.b1, `{ conversations(first: "1") { nodes { id } } }`, nil, "BAD_USER_INPUT", "first"},
		{g.b1, `query($n: Int) { conversations(first: $n) { nodes { id } } }`, vars{"n": 1.5}, "BAD_USER_INPUT", "first"},
		{g.b1, `query($n: Int) { conversations(first: $n) { nodes { id } } }`, vars{"n": "x"}, "BAD_USER_INPUT", "first"},
		{g.b1, `query($n: Int) { conversations(first: $n) { nodes { id } } }`, vars{"n": 3000000000}, "BAD_USER_INPUT", "first"},
		{g.b1, `query($x: Seq = 9223372036854775808) { conversation(id: "c1") { events(after: $x) { nodes { seq } } } }`, nil, "BAD_USER_INPUT", "after"},
		{g.b1, `mutation { markRead(input: {conversationId: "c1", seq: 9223372036854775808}) { badge { unread } } }`, nil, "BAD_USER_INPUT", "seq"},
		{g.b1, markReadDoc, vars{"c": "c1", "s": "+1"}, "BAD_USER_INPUT", "seq"},
		{g.b1, `mutation { markRead(input: {conversationId: "c1", seq: 1, revision: -1}) { badge { unread } } }`, nil, "BAD_USER_INPUT", "revision"},
		{g.b1, ackDoc, vars{"e": 99, "c": []vars{}}, "STALE_INSTALL", ""},
		{g.b1, `query($x: ID!) { conversation(id: $x) { id } }`, vars{"x": 1.5}, "BAD_USER_INPUT", "id"},
		{g.b1, `query($x: ID!) { conversation(id: $x) { id } }`, vars{"x": true}, "BAD_USER_INPUT", "id"},
		{g.b1, `query($x: String) { conversations(after: $x) { nodes { id } } }`, vars{"x": forged(-9e15)}, "BAD_USER_INPUT", "after"},
		{g.b1, `query($x: String) { conversations(after: $x) { nodes { id } } }`, vars{"x": forged(9e18)}, "BAD_USER_INPUT", "after"},
		{g.b1, `{ conversations(after: "nonsense") { nodes { id } } }`, nil, "BAD_USER_INPUT", "after"},
		{g.b1, `{ conversations(after: "") { nodes { id } } }`, nil, "BAD_USER_INPUT", "after"},
		{g.b1, `query($x: String) { conversations(after: $x) { nodes { id } } }`, vars{"x": huge}, "BAD_USER_INPUT", "after"},
		{g.b1, `query($x: String) { conversations(after: $x) { nodes { id } } }`, vars{"x": g.memberCursor()}, "BAD_USER_INPUT", "after"},
		{g.b1, `query($x: String) { conversations(after: $x, filter: {active: false}) { nodes { id } } }`, vars{"x": g.inboxCursor()}, "BAD_USER_INPUT", "after"},
		{g.b1, `query($x: String) { conversation(id: "c1") { members(after: $x) { totalCount } } }`, vars{"x": g.inboxCursor()}, "BAD_USER_INPUT", "after"},
		{g.b1, `{ conversation(id: "c1") { members(first: 201) { totalCount } } }`, nil, "BAD_USER_INPUT", "first"},
		{g.b1, `{ conversation(id: "c1") { unread(atMost: 0) } }`, nil, "BAD_USER_INPUT", "atMost"},
		{g.b1, `{ conversation(id: "c1") { unread(atMost: 1000001) } }`, nil, "BAD_USER_INPUT", "atMost"},
		{g.b1, `{ conversation(id: "c1") { events(first: 1, last: 1) { nodes { seq } } } }`, nil, "BAD_USER_INPUT", "last"},
		{g.b1, `{ conversation(id: "c1") { events(first: 201) { nodes { seq } } } }`, nil, "BAD_USER_INPUT", "first"},
		{g.b1, `{ conversation(id: "c1") { events(last: 0) { nodes { seq } } } }`, nil, "BAD_USER_INPUT", "last"},
		{g.b1, `{ conversation(id: "c1") { events(after: -1) { nodes { seq } } } }`, nil, "CURSOR_AHEAD", ""},
		{g.b1, `{ conversation(id: "c1") { events(before: -1) { nodes { seq } } } }`, nil, "CURSOR_AHEAD", ""},
		{g.b1, `{ conversation(id: "c1") { events(after: "x") { nodes { seq } } } }`, nil, "BAD_USER_INPUT", "after"},
		{g.b1, `{ conversation(id: "c1") { events(after: 99999999999999999999) { nodes { seq } } } }`, nil, "BAD_USER_INPUT", "after"},
		{g.b1, markReadDoc, vars{"c": "c1", "s": -1}, "CURSOR_AHEAD", ""},
		{g.b1, markReadDoc, vars{"c": "c1", "s": int64(1) << 53}, "CURSOR_AHEAD", ""},
		{g.b1, markReadDoc, vars{"c": "c1", "s": 1.5}, "BAD_USER_INPUT", "seq"},
		{g.b1, markReadDoc, vars{"c": "c1", "s": "x"}, "BAD_USER_INPUT", "seq"},
		{g.b1, markReadDoc, vars{"c": "c1", "s": true}, "BAD_USER_INPUT", "seq"},
		{g.b1, markReadDoc, vars{"c": "c1", "s": json.RawMessage("1e30")}, "BAD_USER_INPUT", "seq"},
		{g.b1, `mutation($in: MarkReadInput!) { markRead(input: $in) { badge { unread } } }`, vars{"in": vars{"conversationId": "c1", "seq": 1.5}}, "BAD_USER_INPUT", "seq"},
		{g.b1, `mutation($in: MarkReadInput!) { markRead(input: $in) { badge { unread } } }`, vars{"in": vars{"conversationId": "c1", "seq": 1, "revision": "x"}}, "BAD_USER_INPUT", "revision"},
		{g.b1, `mutation { markRead(input: {conversationId: "c1", seq: 1, revision: 1.5}) { badge { unread } } }`, nil, "BAD_USER_INPUT", "revision"},
		{g.b1, ackDoc, vars{"e": 0, "c": many(cursorOf("c1", 1), 501)}, "BAD_USER_INPUT", "cursors"},
		{g.b1, ackDoc, vars{"e": 1, "c": []vars{cursorOf("c1", 1)}}, "STALE_INSTALL", ""},
		{g.b1, ackDoc, vars{"e": -1, "c": []vars{cursorOf("c1", 1)}}, "STALE_INSTALL", ""},
		{g.b1, sendDoc, vars{"c": "c1", "m": "m", "b": ""}, "BAD_USER_INPUT", "body"},
		{g.b1, sendDoc, vars{"c": "c1", "m": "m", "b": strings.Repeat("x", 16<<10+1)}, "BAD_USER_INPUT", "body"},
		{g.b1, sendDoc, vars{"c": "c1", "m": "m", "b": "a\rb"}, "BAD_USER_INPUT", "body"},
		{g.b1, sendDoc, vars{"c": "c1", "m": "m", "b": "a\x00b"}, "BAD_USER_INPUT", "body"},
		{g.b1, `mutation { recallMessage(input: {conversationId: "c1", seq: 99}) { message { seq } } }`, nil, "NOT_FOUND", "seq"},
		{g.b1, `mutation { recallMessage(input: {conversationId: "c1", seq: 1}) { message { seq } } }`, nil, "NOT_FOUND", "seq"},
		{g.b1, `mutation { recallMessage(input: {conversationId: "c1", seq: -5}) { message { seq } } }`, nil, "CURSOR_AHEAD", ""},
		{g.b1, `mutation { recallMessage(input: {conversationId: "c1", seq: 4}) { message { seq } } }`, nil, "FORBIDDEN", ""},
		{g.b1, `mutation { revokeDevice(input: {deviceId: "a1"}) { deviceId } }`, nil, "NOT_FOUND", ""},
		{g.b1, `mutation { revokeDevice(input: {deviceId: "none"}) { deviceId } }`, nil, "NOT_FOUND", ""},
		{service, `mutation { revokeDevice(input: {deviceId: "none"}) { deviceId } }`, nil, "NOT_FOUND", ""},
		{service, `mutation { rotateDeviceToken(input: {deviceId: "none"}) { token } }`, nil, "NOT_FOUND", ""},
		{service, `mutation { createDevice(input: {userId: "nobody"}) { token } }`, nil, "NOT_FOUND", ""},
		{service, `mutation { createDevice(input: {userId: "A", id: "a1"}) { token } }`, nil, "BAD_USER_INPUT", "id"},
		{service, `mutation($x: String) { createDevice(input: {userId: "A", name: $x}) { token } }`, vars{"x": strings.Repeat("x", 257)}, "BAD_USER_INPUT", "name"},
		{service, `mutation($x: String) { putUser(input: {id: "A", name: $x}) { user { id } } }`, vars{"x": "a\tb"}, "BAD_USER_INPUT", "name"},
		{service, `mutation($x: String) { createConversation(input: {kind: GROUP, title: $x, memberIds: []}) { conversation { id } } }`, vars{"x": strings.Repeat("x", 257)}, "BAD_USER_INPUT", "title"},
		{service, `mutation($x: [ID!]!) { createConversation(input: {kind: GROUP, memberIds: $x}) { conversation { id } } }`, vars{"x": manyIDs}, "BAD_USER_INPUT", "memberIds"},
		{service, `mutation { createConversation(input: {kind: GROUP, memberIds: ["A", "nobody"]}) { conversation { id } } }`, nil, "NOT_FOUND", ""},
		{service, `mutation { createConversation(input: {kind: DIRECT, memberIds: ["A"]}) { conversation { id } } }`, nil, "BAD_USER_INPUT", "memberIds"},
		{service, `mutation { createConversation(input: {kind: DIRECT, memberIds: ["A", "A"]}) { conversation { id } } }`, nil, "BAD_USER_INPUT", "memberIds"},
		{service, `mutation { createConversation(input: {kind: DIRECT, memberIds: ["A", "B", "C"]}) { conversation { id } } }`, nil, "BAD_USER_INPUT", "memberIds"},
		{service, `mutation { createConversation(input: {id: "c1", kind: GROUP, memberIds: ["A"]}) { conversation { id } } }`, nil, "BAD_USER_INPUT", "id"},
		{service, `mutation { createConversation(input: {kind: CHANNEL, memberIds: ["A"]}) { conversation { id } } }`, nil, "BAD_USER_INPUT", "kind"},
		{service, `mutation($x: [ID!]!) { addMembers(input: {conversationId: "c1", userIds: $x}) { conversation { id } } }`, vars{"x": manyIDs}, "BAD_USER_INPUT", "userIds"},
		{service, `mutation { addMembers(input: {conversationId: "none", userIds: ["A"]}) { conversation { id } } }`, nil, "NOT_FOUND", ""},
		{service, `mutation { addMembers(input: {conversationId: "c1", userIds: ["E", "nobody"]}) { conversation { id } } }`, nil, "NOT_FOUND", ""},
		{service, `mutation { removeMembers(input: {conversationId: "none", userIds: ["A"]}) { conversation { id } } }`, nil, "NOT_FOUND", ""},
		{g.b1, `mutation { markUnread(input: {conversationId: "c1", seq: 3}) { badge { unread } } }`, nil, "BAD_USER_INPUT", "expectedRead"},
		{g.b1, `mutation { markUnread(input: {conversationId: "c1", seq: 0, expectedRead: 0}) { badge { unread } } }`, nil, "BAD_USER_INPUT", "seq"},
		{g.b1, `mutation { markUnread(input: {conversationId: "c1", seq: 4, expectedRead: 9007199254740992}) { badge { unread } } }`, nil, "READ_CHANGED", ""},
		{g.b1, `mutation { markUnread(input: {conversationId: "c1", seq: 4, expectedRead: -1}) { badge { unread } } }`, nil, "CURSOR_AHEAD", ""},
		{g.b1, `mutation { markUnread(input: {conversationId: "c1", seq: 9007199254740992, expectedRead: 0}) { badge { unread } } }`, nil, "CURSOR_AHEAD", ""},
		{g.b1, `mutation { markUnread(input: {conversationId: "c1", seq: "x", expectedRead: 0}) { badge { unread } } }`, nil, "BAD_USER_INPUT", "seq"},
		{g.b1, `mutation { markAllRead(input: {upTo: [{conversationId: "c1", seq: 1, revision: -1}]}) { changed } }`, nil, "BAD_USER_INPUT", "revision"},
		{g.b1, `mutation { markAllRead(input: {upTo: [{conversationId: "c1"}]}) { changed } }`, nil, "BAD_USER_INPUT", "upTo"},
		{g.b1, `mutation { sendMessage(input: {conversationId: "c1", clientMessageId: "m", body: "b", readUpTo: 99}) { duplicate } }`, nil, "CURSOR_AHEAD", ""},
		{g.b1, `mutation { sendMessage(input: {conversationId: "c1", clientMessageId: "m", body: "b", readUpTo: 1, readRevision: -1}) { duplicate } }`, nil, "BAD_USER_INPUT", "readRevision"},
		{g.b1, `mutation { sendMessage(input: {conversationId: "c1", clientMessageId: "m", body: "b", mentions: [null]}) { duplicate } }`, nil, "BAD_USER_INPUT", "mentions"},
		{g.a, `mutation { editMessage(input: {conversationId: "c1", seq: 4, body: ""}) { duplicate } }`, nil, "BAD_USER_INPUT", "body"},
		{g.b1, `mutation { editMessage(input: {conversationId: "c1", seq: 4, body: "b"}) { duplicate } }`, nil, "FORBIDDEN", ""},
		{g.b1, `mutation { editMessage(input: {conversationId: "c1", seq: 1, body: "b"}) { duplicate } }`, nil, "NOT_FOUND", "seq"},
		{g.b1, `mutation { editMessage(input: {conversationId: "c1", seq: -1, body: "b"}) { duplicate } }`, nil, "CURSOR_AHEAD", ""},
		{service, `mutation { updateConversation(input: {conversationId: "none", title: "t"}) { conversation { id } } }`, nil, "NOT_FOUND", ""},
		{service, `mutation { updateConversation(input: {conversationId: "c1", receiptPolicy: ALL}) { conversation { id } } }`, nil, "BAD_USER_INPUT", "receiptPolicy"},
		{service, `mutation($x: String!) { postNotice(input: {conversationId: "c1", text: $x}) { conversation { id } } }`, vars{"x": strings.Repeat("x", 16<<10+1)}, "BAD_USER_INPUT", "text"},
		{service, `mutation($x: String!) { postNotice(input: {conversationId: "c1", text: $x}) { conversation { id } } }`, vars{"x": "a\rb"}, "BAD_USER_INPUT", "text"},
		{service, `mutation { takeDownMessage(input: {conversationId: "c1", seq: 99}) { conversation { id } } }`, nil, "NOT_FOUND", "seq"},
		{service, `mutation { takeDownMessage(input: {conversationId: "none", seq: 4}) { conversation { id } } }`, nil, "NOT_FOUND", ""},
		{service, `mutation { eraseUser(input: {userId: "nobody"}) { userId } }`, nil, "NOT_FOUND", ""},
		{g.b1, `{ changes(since: "nonsense") { hasMore } }`, nil, "BAD_USER_INPUT", "since"},
		{g.b1, `{ changes(since: "t1.", first: 0) { hasMore } }`, nil, "BAD_USER_INPUT", "first"},
		{stranger, `mutation { markUnread(input: {conversationId: "c1"}) { badge { unread } } }`, nil, "NOT_MEMBER", ""},
		{stranger, `mutation { updateConversationSettings(input: {conversationId: "none", archived: true}) { badge { unread } } }`, nil, "NOT_MEMBER", ""},
		{service, `{ userBadge(userId: "nobody") { unread } }`, nil, "NOT_FOUND", ""},
		{service, `{ userDevices(userId: "nobody") { id } }`, nil, "NOT_FOUND", ""},
		{stranger, markReadDoc, vars{"c": "c1", "s": 1}, "NOT_MEMBER", ""},
	} {
		refused(t, fmt.Sprintf("%s %.200v", probe.doc, probe.v), probe.who.do(probe.doc, probe.v), probe.code, probe.field)
	}
	if after := g.everything(); after != before {
		t.Errorf("something changed:\n%s\nwas\n%s", after, before)
	}
}

// forged is a cursor that no answer ever held.
func forged(micros int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"l":"inbox","t":%d,"i":"x"}`, micros)))
}

func many(v vars, n int) []vars { return slices.Repeat([]vars{v}, n) }

// everything prints every table.
func (w *world) everything() (all string) {
	w.t.Helper()
	conn := w.conn()
	for _, table := range []string{"users", "devices", "conversations", "members", "membership_periods", "events", "mentions", "device_cursors", "read_positions"} {
		var rows string
		if err := conn.QueryRow(w.t.Context(), `SELECT coalesce(string_agg(r::text, E'\n' ORDER BY r::text), '') FROM `+table+` r`).Scan(&rows); err != nil {
			w.t.Fatal(err)
		}
		all += table + ":\n" + rows + "\n"
	}
	return all
}

func (g *trio) memberCursor() string {
	var out struct {
		Conversation struct {
			Members struct{ PageInfo struct{ EndCursor string } }
		}
	}
	g.b1.must(`{ conversation(id: "c1") { members(first: 1) { pageInfo { endCursor } } } }`, nil).into(&out)
	return out.Conversation.Members.PageInfo.EndCursor
}

func (g *trio) inboxCursor() string {
	var out struct {
		Conversations struct{ PageInfo struct{ EndCursor string } }
	}
	g.b1.must(`{ conversations(first: 1) { pageInfo { endCursor } } }`, nil).into(&out)
	return out.Conversations.PageInfo.EndCursor
}

// TestCredentials: who may call what.
func TestCredentials(t *testing.T) {
	g := newTrio(t)
	nobody := &client{p: g.main}
	wrong := &client{p: g.main, token: "the service key of nobody"}
	b3 := g.device("B", "b3")
	g.b1.must(`mutation { revokeDevice(input: {deviceId: "b3"}) { deviceId } }`, nil)
	for who, c := range map[string]*client{"nobody": nobody, "a wrong key": wrong, "a revoked device": b3} {
		for _, doc := range []string{`{ viewer { user { id } } }`, `{ conversation(id: "c1") { id } }`, `{ conversations { nodes { id } } }`, `{ badge { unread } }`,
			`{ userBadge(userId: "A") { unread } }`, `{ conversationRef(id: "c1") { id } }`,
			`mutation { markRead(input: {conversationId: "c1", seq: 1}) { badge { unread } } }`, `mutation { putUser(input: {id: "A"}) { user { id } } }`,
			`mutation { revokeDevice(input: {deviceId: "b1"}) { deviceId } }`} {
			refused(t, who+" "+doc, c.do(doc, nil), "UNAUTHENTICATED", "")
		}
		equal(t, who+" may introspect", c.do(`{ __typename __schema { queryType { name } } }`, nil).code(), "")
	}
	for _, doc := range []string{`{ userBadge(userId: "B") { unread } }`, `{ userDevices(userId: "B") { id } }`, `{ conversationRef(id: "c1") { id } }`,
		`mutation { putUser(input: {id: "X"}) { user { id } } }`, `mutation { createDevice(input: {userId: "B"}) { token } }`,
		`mutation { rotateDeviceToken(input: {deviceId: "b1"}) { token } }`, `mutation { createConversation(input: {kind: GROUP, memberIds: []}) { conversation { id } } }`,
		`mutation { addMembers(input: {conversationId: "c1", userIds: []}) { conversation { id } } }`, `mutation { removeMembers(input: {conversationId: "c1", userIds: []}) { conversation { id } } }`,
		`mutation { updateConversation(input: {conversationId: "c1", title: "x"}) { conversation { id } } }`, `mutation { postNotice(input: {conversationId: "c1", text: "x"}) { conversation { id } } }`,
		`mutation { takeDownMessage(input: {conversationId: "c1", seq: 4}) { conversation { id } } }`, `mutation { eraseUser(input: {userId: "B"}) { userId } }`} {
		refused(t, "a device "+doc, g.b1.do(doc, nil), "FORBIDDEN", "")
	}
	for _, doc := range []string{`{ viewer { user { id } } }`, `{ badge { unread } }`, `{ conversations { nodes { id } } }`, `mutation { registerInstall(input: {installId: "x"}) { reinstalled } }`,
		`mutation { leaveConversation(input: {conversationId: "c1"}) { badge { unread } } }`, `mutation { markUnread(input: {conversationId: "c1"}) { badge { unread } } }`,
		`mutation { markAllRead(input: {}) { changed } }`, `mutation { editMessage(input: {conversationId: "c1", seq: 4, body: "x"}) { duplicate } }`,
		`mutation { updateConversationSettings(input: {conversationId: "c1", muted: true}) { badge { unread } } }`, `mutation { setReadSharing(input: {share: false}) { share } }`,
		`{ changes(since: "x") { hasMore } }`} {
		refused(t, "the service "+doc, g.service().do(doc, nil), "FORBIDDEN", "")
	}
	g.conversation("DIRECT", "d", "A", "B")
	refused(t, "leaving a DIRECT conversation", g.b1.do(`mutation { leaveConversation(input: {conversationId: "d"}) { badge { unread } } }`, nil), "FORBIDDEN", "")
	refused(t, "adding to a DIRECT conversation", g.service().do(`mutation { addMembers(input: {conversationId: "d", userIds: ["C"]}) { conversation { id } } }`, nil), "FORBIDDEN", "")
	refused(t, "removing from a DIRECT conversation", g.service().do(`mutation { removeMembers(input: {conversationId: "d", userIds: ["A"]}) { conversation { id } } }`, nil), "FORBIDDEN", "")
}

// TestA45OneBadCallerAmongMany: one caller sends a NUL, invalid UTF-8, a
// megabyte; it alone is refused while 63 others succeed.
func TestA45OneBadCallerAmongMany(t *testing.T) {
	g := newTrio(t)
	m := g.a.send(g.conv, 5)
	var wg sync.WaitGroup
	for n := range 63 {
		wg.Go(func() {
			c := []*client{g.b1, g.b2, g.c}[n%3]
			if a, err := c.try(markReadDoc, vars{"c": g.conv, "s": m[n%5]}); err != nil || a.code() != "" {
				t.Errorf("a good caller: %v %+v", err, a)
			}
		})
	}
	wg.Go(func() {
		if a, err := g.b1.try(markReadDoc, vars{"c": "a\x00b", "s": 1}); err != nil || a.code() != "BAD_USER_INPUT" {
			t.Errorf("NUL: %v %+v", err, a)
		}
		for what, body := range map[string]string{
			"invalid UTF-8": `{"query":"mutation { markRead(input: {conversationId: \"a` + "\xff\xfe" + `b\", seq: 1}) { badge { unread } } }"}`,
			"a megabyte":    `{"query":"mutation { markRead(input: {conversationId: \"` + strings.Repeat("x", 1<<20) + `\", seq: 1}) { badge { unread } } }"}`,
		} {
			request, err := http.NewRequest("POST", g.main.http.URL+"/graphql", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer "+g.b1.token)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Error(what, err)
				return
			}
			b, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if !strings.Contains(string(b), "BAD_USER_INPUT") {
				t.Errorf("%s: %d %s", what, response.StatusCode, b)
			}
		}
	})
	wg.Wait()
	equal(t, "read", g.b1.see(g.conv).Read, m[4])
}

// TestNullIsTheDefault: an explicit null argument counts as left out.
func TestNullIsTheDefault(t *testing.T) {
	g := newTrio(t)
	g.a.send(g.conv, 2)
	g.b1.must(`{ conversations(first: null, after: null, filter: null) { nodes { unread(atMost: null) events(after: null, first: null, before: null, last: null) { nodes { seq } } members(first: null, after: null) { totalCount } } } }`, nil)
	g.b1.must(`{ conversations(filter: {unread: null, active: null}) { nodes { id } } }`, nil)
	g.b1.must(`mutation { markRead(input: {conversationId: "c1", seq: 4, revision: null}) { badge { unread } } }`, nil)
	g.service().must(`mutation { addMembers(input: {conversationId: "c1", userIds: [], history: null}) { conversation { id } } }`, nil)
	name := func() *string {
		var out struct {
			Viewer struct{ User struct{ Name *string } }
		}
		g.b1.must(`{ viewer { user { name } } }`, nil).into(&out)
		return out.Viewer.User.Name
	}
	g.service().must(`mutation { putUser(input: {id: "B", name: "Ben"}) { user { name } } }`, nil)
	g.service().must(`mutation { putUser(input: {id: "B"}) { user { name } } }`, nil)
	if n := name(); n == nil || *n != "Ben" {
		t.Errorf("a name that is left out: %v", n)
	}
	g.service().must(`mutation { putUser(input: {id: "B", name: null}) { user { name } } }`, nil)
	if n := name(); n != nil {
		t.Errorf("null clears a name, not %v", *n)
	}
}

// TestLimitsOfAnOperation: bombs are refused with their own size, and answers
// carry at most ten errors.
func TestLimitsOfAnOperation(t *testing.T) {
	g := newTrio(t)
	bomb := "query { ...F0 }"
	for n := range 60 {
		bomb += fmt.Sprintf(" fragment F%d on Query { ...F%d ...F%d }", n, n+1, n+1)
	}
	bomb += " fragment F60 on Query { badge { unread } }"
	aliases := "{"
	for n := range 30 {
		aliases += fmt.Sprintf(" a%d: badge { unread }", n)
	}
	aliases += " }"
	wide := `{ conversations(first: 200) { nodes { events(last: 200) { nodes { seq at actor { id } } } } } }`
	var fields strings.Builder
	for n := range 101 {
		fmt.Fprintf(&fields, " f%d: unread", n)
	}
	many := `{ conversation(id: "c1") {`
	for n := range 5 {
		many += fmt.Sprintf(" g%d: membership { active } ... F", n)
	}
	many += ` } } fragment F on Conversation {` + fields.String() + ` }`
	bodies := `{ conversation(id: "c1") {`
	for n := range 74 {
		bodies += fmt.Sprintf(" a%d: events(last: 200) { ...E }", n)
	}
	bodies += ` } } fragment E on EventConnection { nodes { ... on Message { body } } }`
	for what, probe := range map[string]struct{ doc, code string }{
		"many bodies":     {bodies, "TOO_COMPLEX"},
		"a fragment bomb": {bomb, "TOO_COMPLEX"},
		"many roots":      {aliases, "TOO_COMPLEX"},
		"a wide page":     {wide, "TOO_COMPLEX"},
		"many fields":     {many, "TOO_COMPLEX"},
		"many tokens":     {`{ ` + strings.Repeat("badge { unread } ", 400) + ` }`, "GRAPHQL_PARSE_FAILED"},
	} {
		refused(t, what, g.b1.do(probe.doc, nil), probe.code, "")
	}
	var unknown strings.Builder
	for n := range 300 {
		fmt.Fprintf(&unknown, " x%d", n)
	}
	equal(t, "errors", len(g.b1.do("{"+unknown.String()+" }", nil).Errors), 10)
}

// TestInternalErrorsAreWithheld: the client gets a requestId, the log the text.
func TestInternalErrorsAreWithheld(t *testing.T) {
	g := newTrio(t)
	g.a.send(g.conv, 1)
	if _, err := g.conn().Exec(t.Context(), `ALTER TABLE events RENAME COLUMN body TO gone`); err != nil {
		t.Fatal(err)
	}
	a := g.b1.do(`{ conversation(id: "c1") { lastMessage { body } } }`, nil)
	refused(t, "a broken table", a, "INTERNAL", "")
	id, _ := a.Errors[0].Extensions["requestId"].(string)
	if id == "" || !strings.Contains(g.main.log.String(), id) {
		t.Errorf("requestId %q is not in the log", id)
	}
	if strings.Contains(a.Errors[0].Message, "column") || !strings.Contains(g.main.log.String(), "column") {
		t.Errorf("the text belongs into the log only: %s", a.Errors[0].Message)
	}
	for _, secret := range []string{g.b1.token, serviceKey, "message m1"} {
		if strings.Contains(g.main.log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}
