package resolvers_test

import (
	"fmt"
	"strings"
)

// Short words for the calls of the whole read state. Each fails the test on an
// unexpected error, unless it returns the answer.

const markUnreadDoc = `mutation($c: ID!, $s: Seq, $e: Seq) { markUnread(input: {conversationId: $c, seq: $s, expectedRead: $e}) {
	conversation {` + rowFields + `} badge {` + badgeFields + `} } }`

type unreadPayload struct{ MarkUnread rowAndBadge }

type rowAndBadge struct {
	Conversation row
	Badge        badge
}

// unreadFrom marks unread from seq on; the caller's read position must be expected.
func (c *client) unreadFrom(conv string, seq, expected int64) rowAndBadge {
	c.p.w.t.Helper()
	var p unreadPayload
	c.must(markUnreadDoc, vars{"c": conv, "s": seq, "e": expected}).into(&p)
	return p.MarkUnread
}

// remind sets the reminder flag.
func (c *client) remind(conv string) rowAndBadge {
	c.p.w.t.Helper()
	var p unreadPayload
	c.must(markUnreadDoc, vars{"c": conv}).into(&p)
	return p.MarkUnread
}

const readAllDoc = `mutation($u: [ReadCursorInput!], $m: Boolean) { markAllRead(input: {upTo: $u, includeMentions: $m}) {
	changed rejected { conversationId seq code } badge {` + badgeFields + `} } }`

type readAllPayload struct {
	MarkAllRead struct {
		Changed  int64
		Rejected []struct {
			ConversationID string
			Seq            int64
			Code           string
		}
		Badge badge
	}
}

// readAll marks everything read, or with upTo some conversations up to some seqs.
func (c *client) readAll(mentions bool, upTo ...vars) (p readAllPayload) {
	c.p.w.t.Helper()
	v := vars{"m": mentions}
	if upTo != nil {
		v["u"] = upTo
	}
	c.must(readAllDoc, v).into(&p)
	return p
}

const saying = `mutation($c: ID!, $i: ID!, $b: String!, $m: [ID!], $all: Boolean, $up: Seq, $rev: Int) {
	sendMessage(input: {conversationId: $c, clientMessageId: $i, body: $b, mentions: $m, mentionsAll: $all, readUpTo: $up, readRevision: $rev}) {
	duplicate message { seq body mentions { id } mentionsAll } conversation {` + rowFields + `} } }`

type said struct {
	Duplicate bool
	Message   struct {
		Seq         int64
		Body        *string
		Mentions    []struct{ ID string }
		MentionsAll bool
	}
	Conversation row
}

func (s said) mentions() string {
	var ids []string
	for _, u := range s.Message.Mentions {
		ids = append(ids, u.ID)
	}
	return strings.Join(ids, " ")
}

// say sends one message; more is what else to say of it: m mentions, all, up readUpTo, rev readRevision, i its client id.
func (c *client) say(conv string, more vars) said {
	c.p.w.t.Helper()
	v := vars{"c": conv, "i": fmt.Sprint("say", c.p.w.ids.Add(1)), "b": "hello"}
	for k, x := range more {
		v[k] = x
	}
	var out struct{ SendMessage said }
	c.must(saying, v).into(&out)
	return out.SendMessage
}

// mention sends one message that mentions these users.
func (c *client) mention(conv string, users ...string) int64 {
	c.p.w.t.Helper()
	return c.say(conv, vars{"m": users}).Message.Seq
}

const editDoc = `mutation($c: ID!, $s: Seq!, $b: String!, $m: [ID!], $all: Boolean) {
	editMessage(input: {conversationId: $c, seq: $s, body: $b, mentions: $m, mentionsAll: $all}) {
	message { seq body mentions { id } mentionsAll editedAt } conversation { head unread } } }`

func (c *client) edit(conv string, seq int64, body string, more vars) (out said) {
	c.p.w.t.Helper()
	v := vars{"c": conv, "s": seq, "b": body}
	for k, x := range more {
		v[k] = x
	}
	var p struct{ EditMessage said }
	c.must(editDoc, v).into(&p)
	return p.EditMessage
}

// set changes settings, such as "muted: true".
func (c *client) set(conv, settings string) rowAndBadge {
	c.p.w.t.Helper()
	var p struct{ UpdateConversationSettings rowAndBadge }
	c.must(`mutation($c: ID!) { updateConversationSettings(input: {conversationId: $c, `+settings+`}) { conversation {`+rowFields+`} badge {`+badgeFields+`} } }`, vars{"c": conv}).into(&p)
	return p.UpdateConversationSettings
}

func (c *client) share(share bool) {
	c.p.w.t.Helper()
	c.must(`mutation($s: Boolean!) { setReadSharing(input: {share: $s}) { share } }`, vars{"s": share})
}

// receipt is one message's, with the ids of readers and pending.
type receipt struct {
	Audience, ReadCount, DeliveredCount int64
	AllRead                             bool
	Detail                              string
	Readers, Pending                    *struct {
		Nodes []struct {
			User       struct{ ID string }
			LastReadAt *string
			Member     bool
		}
		PageInfo struct {
			HasNextPage bool
			EndCursor   *string
		}
	}
}

const receiptFields = ` receipt { audience readCount deliveredCount allRead detail
	readers { nodes { user { id } lastReadAt member } pageInfo { hasNextPage endCursor } }
	pending { nodes { user { id } lastReadAt member } pageInfo { hasNextPage endCursor } } } `

// receiptOf reads the receipt of one message; nil if it is withheld.
func (c *client) receiptOf(conv string, seq int64) *receipt {
	c.p.w.t.Helper()
	var out struct {
		Conversation struct {
			Events struct {
				Nodes []struct{ Receipt *receipt }
			}
		}
	}
	c.must(`query($c: ID!, $a: Seq!, $b: Seq!) { conversation(id: $c) { events(after: $a, before: $b) { nodes { ... on Message {`+receiptFields+`} } } } }`,
		vars{"c": conv, "a": seq - 1, "b": seq + 1}).into(&out)
	if len(out.Conversation.Events.Nodes) == 0 {
		return nil
	}
	return out.Conversation.Events.Nodes[0].Receipt
}

// readOf is "read of audience", such as 1/2; "-" where the receipt is withheld.
func (c *client) readOf(conv string, seq int64) string {
	c.p.w.t.Helper()
	r := c.receiptOf(conv, seq)
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%d/%d", r.ReadCount, r.Audience)
}

// groupWith creates a group with a receipt policy.
func (w *world) groupWith(policy, id string, members ...string) string {
	w.t.Helper()
	w.service().must(`mutation($id: ID!, $m: [ID!]!, $p: ReceiptPolicy!) { createConversation(input: {id: $id, kind: GROUP, memberIds: $m, receiptPolicy: $p}) { conversation { id receiptPolicy } } }`,
		vars{"id": id, "m": members, "p": policy})
	return id
}

func (w *world) removeMembers(conv string, users ...string) {
	w.t.Helper()
	w.service().must(`mutation($c: ID!, $u: [ID!]!) { removeMembers(input: {conversationId: $c, userIds: $u}) { conversation { id } } }`, vars{"c": conv, "u": users})
}

func (w *world) takeDown(conv string, seq int64) {
	w.t.Helper()
	w.service().must(`mutation($c: ID!, $s: Seq!) { takeDownMessage(input: {conversationId: $c, seq: $s}) { conversation { id head } } }`, vars{"c": conv, "s": seq})
}

// notice posts a line; id may be empty. It returns head.
func (w *world) notice(conv, text, id string) int64 {
	w.t.Helper()
	v := vars{"c": conv, "t": text}
	if id != "" {
		v["i"] = id
	}
	var out struct {
		PostNotice struct{ Conversation struct{ Head int64 } }
	}
	w.service().must(`mutation($c: ID!, $t: String!, $i: ID) { postNotice(input: {conversationId: $c, text: $t, noticeId: $i}) { conversation { head } } }`, v).into(&out)
	return out.PostNotice.Conversation.Head
}

// update changes a conversation, such as with "title: \"x\"".
func (w *world) update(conv, change string) {
	w.t.Helper()
	w.service().must(`mutation($c: ID!) { updateConversation(input: {conversationId: $c, `+change+`}) { conversation { id title receiptPolicy } } }`, vars{"c": conv})
}

func (w *world) erase(user string) {
	w.t.Helper()
	w.service().must(`mutation($u: ID!) { eraseUser(input: {userId: $u}) { userId } }`, vars{"u": user})
}

// changePage is a page of what changed.
type changePage struct {
	Changed   []row
	Withdrawn []struct {
		ConversationID string
		Seq            int64
	}
	Badge     badge
	HasMore   bool
	SyncToken string
	Resync    bool
}

const changesDoc = `query($t: String!, $n: Int) { changes(since: $t, first: $n) { changed {` + rowFields + `} withdrawn { conversationId seq } badge {` + badgeFields + `} hasMore syncToken resync } }`

func (c *client) changes(token string, first int) changePage {
	c.p.w.t.Helper()
	var out struct{ Changes changePage }
	c.must(changesDoc, vars{"t": token, "n": first}).into(&out)
	return out.Changes
}

// syncToken is a fresh one.
func (c *client) syncToken() string {
	c.p.w.t.Helper()
	var out struct{ Conversations struct{ SyncToken string } }
	c.must(`{ conversations(first: 1) { syncToken } }`, nil).into(&out)
	return out.Conversations.SyncToken
}
