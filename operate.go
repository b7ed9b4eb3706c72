package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"

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
	Repair bool `help:"Rewrite ordinals and mentions of conversations that deviate from their log, then verify again."`
}

// Run lists what deviates.
func (v *verifyCommand) Run(ctx context.Context, log *slog.Logger) error {
	return v.asItIs(ctx, log, func(s *store.Store) error {
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
			fmt.Printf("rewrote ordinals and mentions in %d conversations; verifying again\n", len(found))
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

type exportCommand struct {
	databaseSettings
	User string `required:"" help:"The user's id." placeholder:"ID"`
}

// Run prints one JSON object: the user, and lists of all that is stored about them.
func (e *exportCommand) Run(ctx context.Context, log *slog.Logger) error {
	return e.asItIs(ctx, log, func(s *store.Store) error {
		sn := s.Snapshot()
		defer sn.Close()
		return writeExport(ctx, os.Stdout, sn, chat.UserID(e.User))
	})
}

// writeExport writes row by row: a user may have sent a great many messages.
func writeExport(ctx context.Context, to io.Writer, sn *store.Snapshot, user chat.UserID) error {
	out := bufio.NewWriter(to)
	part, rows := "", 0
	end := func() {
		if part != "" && part != "user" {
			fmt.Fprint(out, "]")
		}
	}
	err := sn.Export(ctx, user, func(next string) error {
		end()
		separator := ",\n "
		if part == "" {
			separator = "{"
		}
		part, rows = next, 0
		fmt.Fprintf(out, "%s%q: ", separator, part)
		if part != "user" {
			fmt.Fprint(out, "[")
		}
		return nil
	}, func(row json.RawMessage) error {
		if rows++; rows > 1 {
			fmt.Fprint(out, ",")
		}
		if part != "user" {
			fmt.Fprint(out, "\n  ")
		}
		_, err := out.Write(row)
		return err
	})
	if err != nil {
		return err
	}
	end()
	fmt.Fprintln(out, "}")
	return out.Flush()
}

type restoredCommand struct {
	databaseSettings
}

// Run prepares a restored database for its clients.
func (r *restoredCommand) Run(ctx context.Context, log *slog.Logger) error {
	db, err := r.migrated(ctx, log, false)
	if err != nil {
		return err
	}
	defer db.stop()
	return withStore(ctx, db, log, func(s *store.Store) error {
		n, err := s.Restored(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("a new epoch for %d conversations; clients will drop their copies and sync anew\n", n)
		return nil
	})
}

// asItIs runs do on the database without changing its schema: servers of an
// older version may be running on it.
func (d databaseSettings) asItIs(ctx context.Context, log *slog.Logger, do func(*store.Store) error) error {
	db, err := d.open(ctx, log, true)
	if err != nil {
		return err
	}
	defer db.stop()
	if err := store.CheckSchema(ctx, db.direct); err != nil {
		return err
	}
	return withStore(ctx, db, log, do)
}

// withStore runs do on a store of the database.
func withStore(ctx context.Context, db *database, log *slog.Logger, do func(*store.Store) error) error {
	s, err := store.Open(ctx, db.direct, store.Options{Log: log})
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}
