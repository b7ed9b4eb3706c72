package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"

	"tidemark/chat"
	"tidemark/store"
)

type deviceCommand struct {
	databaseSettings
	User string `arg:"" help:"The user's id. The user is created if there is none."`
	ID   string `help:"The device's id. Default: a random one." placeholder:"ID"`
	Name string `help:"A name for the device, such as phone." placeholder:"NAME"`
}

// Run creates a device and prints its token, which is shown only now.
func (d *deviceCommand) Run(ctx context.Context, log *slog.Logger) error {
	if d.ID == "" {
		d.ID = "d-" + rand.Text()
	}
	for field, id := range map[string]string{"the user's id": d.User, "the device's id": d.ID} {
		if err := chat.CheckID(field, id); err != nil {
			return err
		}
	}
	if err := chat.CheckName("the device's name", d.Name); err != nil {
		return err
	}
	return d.withStore(ctx, log, func(s *store.Store) error {
		if _, err := s.PutUser(ctx, chat.UserID(d.User), nil, false); err != nil {
			return err
		}
		var name *string
		if d.Name != "" {
			name = &d.Name
		}
		_, token, err := s.CreateDevice(ctx, chat.UserID(d.User), chat.DeviceID(d.ID), name)
		if err != nil {
			return err
		}
		fmt.Printf("user    %s\ndevice  %s\ntoken   %s\n", d.User, d.ID, token)
		return nil
	})
}

type verifyCommand struct {
	databaseSettings
	Repair bool `help:"Rewrite the ordinals of conversations that deviate from their log, then verify again."`
}

// Run lists what deviates.
func (v *verifyCommand) Run(ctx context.Context, log *slog.Logger) error {
	return v.withStore(ctx, log, func(s *store.Store) error {
		found, err := verify(ctx, s)
		if err != nil {
			return err
		}
		if v.Repair && len(found) > 0 {
			for _, conv := range found {
				if err := s.Repair(ctx, conv); err != nil {
					return err
				}
			}
			fmt.Printf("rewrote the ordinals of %d conversations; verifying again\n", len(found))
			if found, err = verify(ctx, s); err != nil {
				return err
			}
		}
		if len(found) > 0 {
			return errReported
		}
		return nil
	})
}

// verify prints what deviates and names the conversations concerned.
func verify(ctx context.Context, s *store.Store) (concerned []chat.ConversationID, err error) {
	deviations := 0
	looked, err := s.Verify(ctx, func(d store.Deviation) {
		fmt.Println(d)
		deviations++
		if n := len(concerned); n == 0 || concerned[n-1] != d.Conversation {
			concerned = append(concerned, d.Conversation)
		}
	})
	if err != nil {
		return nil, err
	}
	fmt.Printf("%d conversations verified, %d deviations\n", looked, deviations)
	return concerned, nil
}

// withStore runs do on a migrated database.
func (d databaseSettings) withStore(ctx context.Context, log *slog.Logger, do func(*store.Store) error) error {
	db, err := d.migrated(ctx, log, true)
	if err != nil {
		return err
	}
	defer db.stop()
	s, err := store.Open(ctx, db.url, store.Options{Log: log})
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}
