package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"tidemark/chat"
	"tidemark/store"
	"tidemark/web"
)

// demo is three people with a little history, and fresh tokens for their devices.
type demo struct {
	tokens []demoToken
	// since is a sync token of the laptop, made at this start.
	since string
}

type demoToken struct {
	user   chat.UserID
	role   chat.DeviceID // the device that it plays
	device chat.DeviceID
	token  string
}

const (
	demoPhone  chat.DeviceID = "ben-phone"
	demoLaptop chat.DeviceID = "ben-laptop"

	demoDirect chat.ConversationID = "c-ana-ben"
	demoGroup  chat.ConversationID = "c-team"
)

// What the playground opens with and the README shows.
const (
	demoInbox = `query Inbox {
  conversations(first: 20) {
    badge { unread mentions conversations }
    nodes {
      id
      title
      read
      unread
      unreadMentions
      firstUnread { seq body }
      lastMessage { seq body actor { name } }
    }
    syncToken
  }
}`
	demoWatch = `subscription WatchOnTheLaptop {
  inboxChanged {
    reasons
    conversationId
    conversation { read unread markedUnread }
    badge { unread }
  }
}`
	demoRead = `mutation ReadOnThePhone {
  markRead(input: { conversationId: "c-ana-ben", seq: 12 }) {
    conversation { id read readRevision unread }
    badge { unread }
  }
}`
	demoMarkUnread = `mutation MarkUnreadOnThePhone {
  markUnread(input: { conversationId: "c-ana-ben", seq: 7, expectedRead: 12 }) {
    conversation { id read readRevision unread firstUnread { seq body } }
    badge { unread }
  }
}`
	demoReceipts = `query WhoHasRead {
  conversation(id: "c-team") {
    events(last: 10) {
      nodes {
        ... on Message {
          seq
          body
          receipt {
            readCount
            audience
            readers { nodes { user { name } lastReadAt } }
            pending { nodes { user { name } } }
          }
        }
      }
    }
  }
}`
	demoChanges = `query ComeBackOnline($since: String!) {
  changes(since: $since) {
    resync
    changed { id head read unread markedUnread }
    withdrawn { conversationId seq }
    badge { unread }
    hasMore
    syncToken
  }
}`
)

// fillDemo creates what is not there yet, which changes nothing when it is all
// there, and gives every device a new token. Whatever has been played with since
// stays as it is.
func fillDemo(ctx context.Context, s *store.Store) (*demo, error) {
	for id, name := range map[chat.UserID]string{"ana": "Ana", "ben": "Ben", "cho": "Cho"} {
		if _, err := s.PutUser(ctx, id, &name, true); err != nil {
			return nil, err
		}
	}
	d := &demo{}
	for _, t := range []demoToken{{user: "ana", device: "ana-phone"}, {user: "ben", device: demoPhone}, {user: "ben", device: demoLaptop}, {user: "cho", device: "cho-phone"}} {
		t.role = t.device
		if err := demoDevice(ctx, s, &t); err != nil {
			return nil, err
		}
		d.tokens = append(d.tokens, t)
	}
	if err := demoHistory(ctx, s); err != nil {
		return nil, err
	}
	sn := s.Snapshot()
	defer sn.Close()
	var err error
	d.since, err = sn.View(store.Viewer{User: "ben", Device: d.in(demoLaptop).device}).SyncToken(ctx)
	return d, err
}

// demoDevice gives the device a new token. In the place of one that was revoked
// it makes another one.
func demoDevice(ctx context.Context, s *store.Store, t *demoToken) error {
	for n := 2; ; n++ {
		_, token, err := s.RotateToken(ctx, t.device)
		if errors.Is(err, &chat.Error{Code: chat.NotFound}) {
			_, token, err = s.CreateDevice(ctx, t.user, t.device, nil)
		}
		if errors.Is(err, &chat.Error{Code: chat.BadUserInput}) {
			t.device = chat.DeviceID(fmt.Sprintf("%s-%d", t.role, n))
			continue
		}
		t.token = token
		return err
	}
}

// demoHistory: Ana has written ten messages to Ben, who has read six of them;
// the team has talked, everybody was asked, Ana has read it all, and Ben nothing of it.
func demoHistory(ctx context.Context, s *store.Store) error {
	title := "Team"
	for _, n := range []store.NewConversation{
		{ID: demoDirect, Kind: chat.Direct, Members: []chat.UserID{"ana", "ben"}},
		{ID: demoGroup, Kind: chat.Group, Title: &title, Members: []chat.UserID{"ana", "ben", "cho"}, Policy: chat.ReceiptsMembers},
	} {
		_, _, err := s.CreateConversation(ctx, n)
		if errors.Is(err, &chat.Error{Code: chat.BadUserInput}) {
			continue // it is there, and somebody has left it since
		} else if err != nil {
			return err
		}
	}
	say := func(conv chat.ConversationID, from chat.UserID, lines ...string) error {
		var drafts []store.Draft
		for i, line := range lines {
			drafts = append(drafts, store.Draft{Sender: from, ClientMessageID: fmt.Sprintf("demo-%s-%d", from, i), Body: line, MentionsAll: line == demoQuestion})
		}
		_, err := s.Append(ctx, conv, drafts)
		return err
	}
	if err := say(demoDirect, "ana", "Hi Ben!", "The harbour is calm today.", "High water was at six.", "I left the charts on your desk.",
		"The blue folder.", "Not the green one.", "Did you see the seals?", "There were five of them.", "Call me when you are back.", "No hurry."); err != nil {
		return err
	}
	if err := say(demoGroup, "cho", "Boat inspection on Friday.", demoQuestion); err != nil {
		return err
	}
	if err := say(demoGroup, "ana", "I can."); err != nil {
		return err
	}
	_, err := s.MarkRead(ctx, []store.ReadReport{{User: "ben", Conversation: demoDirect, Seq: 8}, {User: "ana", Conversation: demoGroup, Seq: 6}})
	return err
}

// demoQuestion mentions everybody.
const demoQuestion = "Who can come?"

// in is who plays a role.
func (d *demo) in(role chat.DeviceID) demoToken {
	return d.tokens[slices.IndexFunc(d.tokens, func(t demoToken) bool { return t.role == role })]
}

// tabs open the playground, each as the device that its operation is for.
func (d *demo) tabs() []web.Tab {
	return tabsFor(d.in(demoPhone).token, d.in(demoLaptop).token, d.since)
}

// emptyTabs are the same with places for the tokens.
func emptyTabs() []web.Tab { return tabsFor("<token>", "<token>", "<syncToken>") }

func tabsFor(phone, laptop, since string) []web.Tab {
	headers := func(token string) string { return fmt.Sprintf("{\n  \"authorization\": \"Bearer %s\"\n}", token) }
	return []web.Tab{
		{Query: demoInbox, Headers: headers(phone)},
		{Query: demoWatch, Headers: headers(laptop)},
		{Query: demoRead, Headers: headers(phone)},
		{Query: demoMarkUnread, Headers: headers(phone)},
		{Query: demoReceipts, Headers: headers(phone)},
		{Query: demoChanges, Headers: headers(laptop), Variables: fmt.Sprintf("{\n  \"since\": \"%s\"\n}", since)},
	}
}

// print tells a newcomer where to go and what to paste.
func (d *demo) print(address net.Addr) {
	var b strings.Builder
	fmt.Fprintf(&b, "\nDemo. Open http://%s/playground: its tabs hold what follows.\n\nTokens, new at every start (send as: Authorization: Bearer <token>)\n", address)
	for _, t := range d.tokens {
		fmt.Fprintf(&b, "  %-4s %-11s %s\n", t.user, t.device, t.token)
	}
	fmt.Fprintf(&b, "\nA query, for %s:\n%s\n\nA subscription, for %s; leave it running:\n%s\n\nA mutation, for %s; the subscription's badge falls:\n%s\n\n",
		demoPhone, demoInbox, demoLaptop, demoWatch, demoPhone, demoRead)
	fmt.Print(b.String())
}
