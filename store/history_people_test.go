package store_test

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"tidemark/chat"
	"tidemark/store"
)

// Who is there, and how they want it: users, devices, conversations, members,
// settings, sharing, erasure.

func (h *history) newUser() {
	u := h.user(len(h.persons))
	h.counts["putUser"]++
	_, err := h.PutUser(h.ctx, u, nil, false)
	h.must(err)
	h.persons[u] = &modelUser{id: u, shares: true}
}

func (h *history) newDevice(u chat.UserID) {
	h.counts["createDevice"]++
	d := &modelDevice{id: chat.DeviceID(fmt.Sprintf("%s-d%d", u, h.ids.Add(1))), user: u, delivered: map[chat.ConversationID]chat.Seq{}}
	_, _, err := h.CreateDevice(h.ctx, u, d.id, nil)
	if h.persons[u].erased {
		h.wantCode(err, chat.NotFound)
		return
	}
	h.must(err)
	h.devices = append(h.devices, d)
}

func (h *history) newConversation(members ...chat.UserID) {
	h.counts["createConversation"]++
	c := newModelConversation(chat.ConversationID(fmt.Sprintf("%sc%d", h.prefix, len(h.convs))))
	_, created, err := h.CreateConversation(h.ctx, store.NewConversation{ID: c.id, Kind: chat.Group, Members: members})
	h.must(err)
	h.changed("create", created, true)
	for _, u := range members {
		c.join(u)
	}
	h.convs = append(h.convs, c)
}

func (h *history) join(c *modelConversation) func() {
	u := h.likely(func(u chat.UserID) bool { return !c.member(u) })
	how := rapid.SampledFrom([]chat.HistoryOnJoin{chat.HistoryMembership, chat.HistorySinceJoin}).Draw(h.rt, "history")
	return func() {
		h.counts["addMembers"]++
		added, err := h.AddMembers(h.ctx, c.id, []chat.UserID{u}, how)
		if h.persons[u].erased {
			h.wantCode(err, chat.NotFound)
			return
		}
		h.must(err)
		h.changed("add", len(added) == 1, !c.member(u))
		if c.member(u) {
			return
		}
		if how == chat.HistorySinceJoin {
			h.hide(c, u)
		}
		c.join(u)
	}
}

func (h *history) leave(c *modelConversation) func() {
	u := h.likely(c.member)
	return func() {
		h.counts["leaveConversation"]++
		left, err := h.Leave(h.ctx, u, c.id)
		if !c.ever(u) {
			h.wantCode(err, chat.NotMember)
			return
		}
		h.must(err)
		h.changed("leave", left, c.member(u))
		if c.member(u) {
			c.leave(u)
		}
	}
}

func (h *history) remove(c *modelConversation) func() {
	u := h.likely(c.member)
	return func() {
		h.counts["removeMembers"]++
		removed, err := h.RemoveMembers(h.ctx, c.id, []chat.UserID{u})
		if h.persons[u].erased {
			h.wantCode(err, chat.NotFound)
			return
		}
		h.must(err)
		h.changed("remove", len(removed) == 1, c.member(u))
		if c.member(u) {
			c.leave(u)
		}
	}
}

func (h *history) set(c *modelConversation) func() {
	u := h.likely(c.ever)
	maybe := func(name string) *bool {
		if h.chance(2) {
			return nil
		}
		v := rapid.Bool().Draw(h.rt, name)
		return &v
	}
	set := store.Settings{Pinned: maybe("pinned"), Muted: maybe("muted"), Archived: maybe("archived")}
	return func() {
		h.counts["updateConversationSettings"]++
		changed, err := h.UpdateSettings(h.ctx, u, c.id, set)
		switch {
		case h.persons[u].erased:
			h.wantCode(err, chat.Unauthenticated)
			return
		case !c.ever(u):
			h.wantCode(err, chat.NotMember)
			return
		}
		h.must(err)
		was, archived := c.settings[u], c.archived(u)
		is := was
		if set.Pinned != nil {
			is.pinned = *set.Pinned
		}
		if set.Muted != nil {
			is.muted = *set.Muted
		}
		differs := is != was
		if set.Archived != nil && *set.Archived != archived {
			differs = true
			if is.archivedAt = 0; *set.Archived {
				is.archivedAt = c.end(u)
			}
		}
		h.changed("settings", changed, differs)
		c.settings[u] = is
	}
}

func (h *history) share() func() {
	u, share := h.somebody(), rapid.Bool().Draw(h.rt, "share")
	return func() {
		h.counts["setReadSharing"]++
		where, err := h.SetReadSharing(h.ctx, u, share)
		h.must(err)
		var want []chat.ConversationID
		if is := h.persons[u]; !is.erased && is.shares != share {
			is.shares = share
			for _, c := range h.convs {
				if c.ever(u) && (c.policy == chat.ReceiptsSender || c.policy == chat.ReceiptsMembers) {
					want = append(want, c.id)
				}
			}
		}
		if !slices.Equal(where, slices.Sorted(slices.Values(want))) {
			h.t.Fatalf("sharing of %s concerns %v, want %v", u, where, want)
		}
	}
}

// erasure erases somebody, if enough others are left; else it erases again, or nobody.
func (h *history) erasure() func() {
	u := chat.UserID(h.prefix + "nobody")
	for n := range len(h.persons) {
		if h.persons[h.user(n)].erased {
			u = h.user(n)
		}
	}
	if len(h.people()) > 4 {
		u = rapid.SampledFrom(h.people()).Draw(h.rt, "erased")
	}
	return func() { h.eraseUser(u) }
}

// eraseOne erases somebody and then the same again.
func (h *history) eraseOne() {
	u := h.people()[0]
	h.eraseUser(u)
	h.eraseUser(u)
}

func (h *history) eraseUser(u chat.UserID) {
	h.counts["eraseUser"]++
	got, err := h.EraseUser(h.ctx, u)
	is := h.persons[u]
	if is == nil {
		h.wantCode(err, chat.NotFound)
		return
	}
	h.must(err)
	h.forget(u)
	left, ever := 0, 0
	for _, c := range h.convs {
		if !is.erased && c.ever(u) {
			ever++
			if c.member(u) {
				left++
			}
		}
	}
	if len(got.Left) != left || len(got.Ever) != ever {
		h.t.Fatalf("erasing %s: %+v, want %d left of %d", u, got, left, ever)
	}
	if !is.erased {
		h.erase(u)
	}
}

// provide is what the back end does beside conversations.
func (h *history) provide(op string) func() {
	u, d := h.somebody(), rapid.SampledFrom(h.devices).Draw(h.rt, "device")
	switch op {
	case "rename":
		if len(h.people()) < 6 && h.chance(2) {
			return func() { h.newUser(); h.newDevice(h.user(len(h.persons) - 1)) }
		}
		return func() {
			h.counts["putUser"]++
			name := "name"
			_, err := h.PutUser(h.ctx, u, &name, true)
			if h.persons[u].erased {
				h.wantCode(err, chat.NotFound)
				return
			}
			h.must(err)
		}
	case "create":
		c := rapid.SampledFrom(h.convs).Draw(h.rt, "existing")
		var members []chat.UserID
		for _, m := range slices.Sorted(maps.Keys(c.periods)) {
			if c.member(m) {
				members = append(members, m)
			}
		}
		return func() {
			h.counts["createConversation"]++
			id, created, err := h.CreateConversation(h.ctx, store.NewConversation{ID: c.id, Kind: chat.Group, Members: members})
			if slices.ContainsFunc(members, func(m chat.UserID) bool { return !c.member(m) }) || int(c.members()) != len(members) {
				h.wantCode(err, chat.BadUserInput)
				return
			}
			h.must(err)
			if created || id != c.id {
				h.t.Fatalf("create again: %s, %v", id, created)
			}
		}
	case "device":
		return func() { h.newDevice(u) }
	case "revoke":
		spare := 0
		for _, other := range h.devices {
			if !other.revoked {
				spare++
			}
		}
		return func() {
			h.counts["revokeDevice"]++
			id, want := d.id, chat.Code("")
			if spare < 3 || h.persons[d.user].erased {
				id, want = "no such device", chat.NotFound
			}
			_, err := h.RevokeDevice(h.ctx, id, nil)
			h.wantCode(err, want)
			d.revoked = d.revoked || want == ""
		}
	default:
		return func() {
			h.counts["rotateDeviceToken"]++
			_, _, err := h.RotateToken(h.ctx, d.id)
			if d.revoked || h.persons[d.user].erased {
				h.wantCode(err, chat.NotFound)
				return
			}
			h.must(err)
		}
	}
}
