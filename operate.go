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
	db, err := d.migrated(ctx, log, true)
	if err != nil {
		return err
	}
	defer db.stop()
	return withStore(ctx, db, log, func(s *store.Store) error {
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
	db, err := v.open(ctx, log, true)
	if err != nil {
		return err
	}
	defer db.stop()
	// Servers of an older version may be running on it: it is looked at, not migrated.
	if err := store.CheckSchema(ctx, db.url); err != nil {
		return err
	}
	return withStore(ctx, db, log, func(s *store.Store) error {
		found, deviations, err := verify(ctx, s)
		if err != nil {
			return err
		}
		if v.Repair && len(found) > 0 {
			for _, conv := range found {
				if err := s.Repair(ctx, conv); err != nil {
					return err
				}
			}
			fmt.Printf("rewrote ordinals in %d conversations; verifying again\n", len(found))
			if _, deviations, err = verify(ctx, s); err != nil {
				return err
			}
		}
		if deviations > 0 {
			return errReported
		}
		return nil
	})
}

// verify prints what deviates, counts it, and names the conversations that a
// repair can mend.
func verify(ctx context.Context, s *store.Store) (repairable []chat.ConversationID, deviations int, err error) {
	looked, err := s.Verify(ctx, func(d store.Deviation) {
		fmt.Println(d)
		deviations++
		if n := len(repairable); d.Repairable() && (n == 0 || repairable[n-1] != d.Conversation) {
			repairable = append(repairable, d.Conversation)
		}
	})
	if err != nil {
		return nil, 0, err
	}
	fmt.Printf("%d conversations verified, %d deviations\n", looked, deviations)
	return repairable, deviations, nil
}

// withStore runs do on a store of the database.
func withStore(ctx context.Context, db *database, log *slog.Logger, do func(*store.Store) error) error {
	s, err := store.Open(ctx, db.url, store.Options{Log: log})
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}
