package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"tidemark/chat"
	"tidemark/store"
	"tidemark/web"
)

// demo is three people with a little history, and fresh tokens for their devices.
type demo struct {
	tokens []demoToken
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
	demoQuery = `query Inbox {
  conversations(first: 20) {
    badge { unread conversations }
    nodes {
      id
      title
      head
      delivered
      read
      unread
      lastMessage { seq body actor { name } }
    }
  }
}`
	demoMutation = `mutation ReadOnThePhone {
  markRead(input: { conversationId: "c-ana-ben", seq: 12 }) {
    conversation { id read unread }
    badge { unread }
  }
}`
	demoSubscription = `subscription WatchOnTheLaptop {
  inboxChanged {
    reasons
    conversationId
    conversation { read unread }
    badge { unread }
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
	return d, demoHistory(ctx, s)
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
// the team has talked, and Ben has read nothing of it.
func demoHistory(ctx context.Context, s *store.Store) error {
	title := "Team"
	for _, n := range []store.NewConversation{
		{ID: demoDirect, Kind: chat.Direct, Members: []chat.UserID{"ana", "ben"}},
		{ID: demoGroup, Kind: chat.Group, Title: &title, Members: []chat.UserID{"ana", "ben", "cho"}},
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
			drafts = append(drafts, store.Draft{Sender: from, ClientMessageID: fmt.Sprintf("demo-%s-%d", from, i), Body: line})
		}
		_, err := s.Append(ctx, conv, drafts)
		return err
	}
	if err := say(demoDirect, "ana", "Hi Ben!", "The harbour is calm today.", "High water was at six.", "I left the charts on your desk.",
		"The blue folder.", "Not the green one.", "Did you see the seals?", "There were five of them.", "Call me when you are back.", "No hurry."); err != nil {
		return err
	}
	if err := say(demoGroup, "cho", "Boat inspection on Friday.", "Who can come?"); err != nil {
		return err
	}
	if err := say(demoGroup, "ana", "I can."); err != nil {
		return err
	}
	_, err := s.MarkRead(ctx, []store.ReadReport{{User: "ben", Conversation: demoDirect, Seq: 8}})
	return err
}

func (d *demo) token(role chat.DeviceID) string {
	for _, t := range d.tokens {
		if t.role == role {
			return t.token
		}
	}
	return ""
}

// tabs open the playground: read on the phone, watch on the laptop.
func (d *demo) tabs() []web.Tab {
	return tabsFor(d.token(demoPhone), d.token(demoLaptop))
}

// emptyTabs are the same with a place for a token.
func emptyTabs() []web.Tab { return tabsFor("<token>", "<token>") }

func tabsFor(phone, laptop string) []web.Tab {
	headers := func(token string) string { return fmt.Sprintf("{\n  \"authorization\": \"Bearer %s\"\n}", token) }
	return []web.Tab{
		{Query: demoQuery, Headers: headers(phone)},
		{Query: demoSubscription, Headers: headers(laptop)},
		{Query: demoMutation, Headers: headers(phone)},
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
		demoPhone, demoQuery, demoLaptop, demoSubscription, demoPhone, demoMutation)
	fmt.Print(b.String())
}
