package resolvers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// client is a caller with a credential, over HTTP.
type client struct {
	p      *process
	user   string
	device string
	token  string
	// session, if set, goes into the header Tidemark-Session.
	session string
}

// at is the same caller on another process.
func (c *client) at(p *process) *client {
	other := *c
	other.p = p
	return &other
}

// naming is the same caller with the header that names a socket's session.
func (c *client) naming(session string) *client {
	other := *c
	other.session = session
	return &other
}

type vars map[string]any

type apiError struct {
	Message    string
	Path       []any
	Extensions map[string]any
}

type answer struct {
	t      *testing.T
	status int
	Data   json.RawMessage
	Errors []apiError
}

func (a *answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.Data, v); err != nil {
		a.t.Fatalf("%v in %s", err, a.Data)
	}
}

// code is the code of the first error; empty if there is none.
func (a *answer) code() string {
	if len(a.Errors) == 0 {
		return ""
	}
	code, _ := a.Errors[0].Extensions["code"].(string)
	return code
}

// field is the argument that the first error names.
func (a *answer) field() string {
	if len(a.Errors) == 0 {
		return ""
	}
	field, _ := a.Errors[0].Extensions["field"].(string)
	return field
}

// do runs an operation.
func (c *client) do(doc string, v vars) *answer {
	c.p.w.t.Helper()
	a, err := c.try(doc, v)
	if err != nil {
		c.p.w.t.Fatal(err)
	}
	return a
}

// try runs an operation; for goroutines other than the test's own.
func (c *client) try(doc string, v vars) (*answer, error) {
	body, err := json.Marshal(map[string]any{"query": doc, "variables": v})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest("POST", c.p.http.URL+"/graphql", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.session != "" {
		request.Header.Set("Tidemark-Session", c.session)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	a := &answer{t: c.p.w.t, status: response.StatusCode}
	if err := json.Unmarshal(b, a); err != nil {
		return nil, fmt.Errorf("%w in %s", err, b)
	}
	return a, nil
}

// must runs an operation that has to succeed.
func (c *client) must(doc string, v vars) *answer {
	c.p.w.t.Helper()
	a := c.do(doc, v)
	if len(a.Errors) > 0 {
		c.p.w.t.Fatalf("%+v\nin %s", a.Errors, doc)
	}
	return a
}

// row is a conversation with every field of a list.
type row struct {
	ID             string
	Version        int64
	Title          *string
	Head           int64
	MinSeq         int64
	Delivered      int64
	Read           int64
	ReadRevision   int64
	Unread         int64
	UnreadMentions int64
	MarkedUnread   bool
	Pinned         bool
	Muted          bool
	Archived       bool
	Mode           string
	ReceiptPolicy  string
	LastActivityAt string
	FirstUnread    *struct{ Seq int64 }
	FirstMention   *struct{ Seq int64 }
	LastMessage    *struct {
		Seq  int64
		Body *string
	}
	Membership struct {
		Active  bool
		Periods []struct{ FromSeq, ToSeq int64 }
	}
	Members struct {
		TotalCount int
		Nodes      []struct{ User struct{ ID string } }
	}
}

const rowFields = ` id version title head minSeq delivered read readRevision unread unreadMentions markedUnread pinned muted archived mode receiptPolicy
	lastActivityAt firstUnread { seq } firstMention: firstUnreadMention { seq } lastMessage { seq body }
	membership { active periods { fromSeq toSeq } } members { totalCount nodes { user { id } } } `

// see reads one conversation; nil if the caller cannot.
func (c *client) see(conv string) *row {
	c.p.w.t.Helper()
	var out struct{ Conversation *row }
	c.must(`query($id: ID!) { conversation(id: $id) {`+rowFields+`} }`, vars{"id": conv}).into(&out)
	return out.Conversation
}

type badge struct{ Version, Unread, Mentions, Conversations, MutedUnread int64 }

const badgeFields = ` version unread mentions conversations mutedUnread `

// counts is a badge without its version, to be compared.
func (b badge) counts() badge { b.Version = 0; return b }

func (c *client) badge() badge {
	c.p.w.t.Helper()
	var out struct{ Badge badge }
	c.must(`{ badge {`+badgeFields+`} }`, nil).into(&out)
	return out.Badge
}

// inbox reads the first page of a list, with the badge from the same snapshot.
func (c *client) inbox(filter string) ([]row, badge) {
	c.p.w.t.Helper()
	var out struct {
		Conversations struct {
			Nodes []row
			Badge badge
		}
	}
	c.must(`{ conversations(first: 100, filter: {`+filter+`}) { badge {`+badgeFields+`} nodes {`+rowFields+`} } }`, nil).into(&out)
	return out.Conversations.Nodes, out.Conversations.Badge
}

const markReadDoc = `mutation($c: ID!, $s: Seq!) { markRead(input: {conversationId: $c, seq: $s}) {
	conversation { id version read readRevision unread } badge { version unread conversations } } }`

type readPayload struct {
	MarkRead struct {
		Conversation row
		Badge        badge
	}
}

// read reports a position that must be accepted.
func (c *client) read(conv string, seq int64) (p readPayload) {
	c.p.w.t.Helper()
	c.must(markReadDoc, vars{"c": conv, "s": seq}).into(&p)
	return p
}

const ackDoc = `mutation($e: Int!, $c: [CursorInput!]!) { ack(input: {installEpoch: $e, cursors: $c}) {
	cursors { conversationId delivered } rejected { conversationId seq code message } } }`

type ackPayload struct {
	Ack struct {
		Cursors []struct {
			ConversationID string
			Delivered      int64
		}
		Rejected []struct {
			ConversationID string
			Seq            int64
			Code           string
		}
	}
}

func cursorOf(conv string, seq int64) vars { return vars{"conversationId": conv, "seq": seq} }

// ack reports what the device holds; cursors alternate conversation and seq.
func (c *client) ack(epoch int, cursors ...vars) (p ackPayload) {
	c.p.w.t.Helper()
	c.must(ackDoc, vars{"e": epoch, "c": cursors}).into(&p)
	return p
}

func (c *client) install(id string) (epoch int, reinstalled bool) {
	c.p.w.t.Helper()
	var out struct {
		RegisterInstall struct {
			Device      struct{ InstallEpoch int }
			Reinstalled bool
		}
	}
	c.must(`mutation($i: ID!) { registerInstall(input: {installId: $i}) { device { installEpoch } reinstalled } }`, vars{"i": id}).into(&out)
	return out.RegisterInstall.Device.InstallEpoch, out.RegisterInstall.Reinstalled
}

const sendDoc = `mutation($c: ID!, $m: ID!, $b: String!) { sendMessage(input: {conversationId: $c, clientMessageId: $m, body: $b}) {
	duplicate message { seq body clientMessageId recalled actor { id } } conversation { head unread } } }`

type messagePayload struct {
	Duplicate bool
	Message   struct {
		Seq             int64
		Body            *string
		ClientMessageID string
		Recalled        bool
		Actor           struct{ ID string }
	}
	Conversation row
}

// send sends n messages and returns their seqs.
func (c *client) send(conv string, n int) (seqs []int64) {
	c.p.w.t.Helper()
	for range n {
		var out struct{ SendMessage messagePayload }
		id := fmt.Sprint("m", c.p.w.ids.Add(1))
		c.must(sendDoc, vars{"c": conv, "m": id, "b": "message " + id}).into(&out)
		seqs = append(seqs, out.SendMessage.Message.Seq)
	}
	return seqs
}

func (c *client) recall(conv string, seq int64) {
	c.p.w.t.Helper()
	c.must(`mutation($c: ID!, $s: Seq!) { recallMessage(input: {conversationId: $c, seq: $s}) { message { body recalled } } }`, vars{"c": conv, "s": seq})
}

func (c *client) leave(conv string) row {
	c.p.w.t.Helper()
	var out struct{ LeaveConversation struct{ Conversation row } }
	c.must(`mutation($c: ID!) { leaveConversation(input: {conversationId: $c}) { conversation {`+rowFields+`} badge { unread } } }`, vars{"c": conv}).into(&out)
	return out.LeaveConversation.Conversation
}

// event is an entry of a log as events() answers it.
type event struct {
	Typename   string `json:"__typename"`
	Seq        int64
	Body       *string
	Recalled   bool
	TakenDown  bool
	Text       string
	MessageSeq int64
	Message    *struct{ Body *string }
	Actor      *struct{ ID string }
	Member     *struct{ ID string }
}

// events reads all events after a position, page by page, as a client syncs.
func (c *client) events(conv string, after int64) (all []event) {
	c.p.w.t.Helper()
	for {
		var out struct {
			Conversation *struct {
				Events struct {
					Nodes    []event
					PageInfo struct{ HasNextPage bool }
				}
			}
		}
		c.must(`query($c: ID!, $a: Seq!) { conversation(id: $c) { events(after: $a, first: 200) { pageInfo { hasNextPage } nodes {
			__typename seq actor { id } ... on Message { body recalled takenDown } ... on Notice { text } ... on MessageRecalled { messageSeq message { body } } ... on MessageEdited { messageSeq message { body } } ... on MemberJoined { member { id } } ... on MemberLeft { member { id } } } } } }`,
			vars{"c": conv, "a": after}).into(&out)
		if out.Conversation == nil {
			return all
		}
		all = append(all, out.Conversation.Events.Nodes...)
		if !out.Conversation.Events.PageInfo.HasNextPage {
			return all
		}
		after = all[len(all)-1].Seq
	}
}

func messagesIn(events []event) (n int) {
	for _, e := range events {
		if e.Typename == "Message" {
			n++
		}
	}
	return n
}
