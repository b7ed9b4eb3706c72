package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"tidemark/chat"
)

// domainError turns what the database says into what the domain says. An error
// that means nothing to a caller passes through; the edge withholds its text.
func domainError(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch {
	case pg.Code == uniqueViolation && pg.ConstraintName == "devices_pkey":
		return chat.BadInput("id", "A device with this id exists. Choose another id, or call rotateDeviceToken for a new token.")
	case pg.Code == foreignKeyViolation && pg.ConstraintName == "devices_user_id_fkey":
		return errNoUser()
	case pg.Code == lockNotAvailable:
		return &chat.Error{Code: chat.RateLimited, RetryAfterMs: 1000, Message: "Too many are writing at the same place. Try again in a moment."}
	}
	return err
}

// SQLSTATE codes.
const (
	uniqueViolation     = "23505"
	foreignKeyViolation = "23503"
	cannotConnectNow    = "57P03"
	deadlockDetected    = "40P01"
	lockNotAvailable    = "55P03"
	adminShutdown       = "57P01"
	crashShutdown       = "57P02"
)

func errNoUser() error {
	return &chat.Error{Code: chat.NotFound, Message: "There is no such user, or the user was erased. Create users with putUser first; an erased id cannot be used again."}
}

func errNoConversation() error {
	return &chat.Error{Code: chat.NotFound, Message: "There is no such conversation."}
}

func errNoMessage() error {
	return &chat.Error{Code: chat.NotFound, Field: "seq", Message: "There is no message at this seq. Take a seq that events shows as a Message."}
}

func errWithdrawn() error {
	return &chat.Error{Code: chat.NotFound, Field: "seq", Message: "The message at this seq was withdrawn. Send a new one instead."}
}

func errNoDevice() error {
	return &chat.Error{Code: chat.NotFound, Message: "There is no such device, or it was revoked."}
}

func errDirectMembers() error {
	return &chat.Error{Code: chat.Forbidden, Message: "A DIRECT conversation has the same two members for ever. Create a GROUP for a changing circle."}
}

func errIdempotencyConflict() error {
	return &chat.Error{Code: chat.IdempotencyConflict, Field: "clientMessageId",
		Message: "This clientMessageId was used before with different content. Use a new one for a new message."}
}

// lostConnection is an error that left its connection closed, whatever it says:
// pgx has no type for all of them.
type lostConnection struct{ error }

func (e *lostConnection) Unwrap() error { return e.error }

// connectionLost reports whether err means that the connection is gone or could
// not be had, so that the same call may succeed on another one. The outcome of
// a commit that was under way is then unknown.
func connectionLost(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if errors.As(err, new(*lostConnection)) {
		return true
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code[:2] == "08" || pg.Code == adminShutdown || pg.Code == crashShutdown || pg.Code == cannotConnectNow
	}
	var connect *pgconn.ConnectError
	var op *net.OpError
	return errors.As(err, &connect) || errors.As(err, &op) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// deadlocked reports whether PostgreSQL chose the transaction to end a deadlock.
func deadlocked(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == deadlockDetected
}

// Refused reports whether the database refused an argument of a batch, which has
// then changed nothing: each half of it may do better.
func Refused(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || len(pg.Code) != 5 {
		return false
	}
	switch pg.Code[:2] {
	case "22", "23", "40", "54": // data, constraints, conflicts, limits
		return true
	}
	return false
}

// ReadFailed reports whether a read failed for anything but a connection that is
// gone: since it changes nothing, each half of its batch may do better.
func ReadFailed(err error) bool { return !connectionLost(err) }

// RefusedOrLocked is [Refused], and true of a batch that waited too long for a
// lock, if each of its calls needs a lock of its own.
func RefusedOrLocked(err error) bool {
	return Refused(err) || errors.Is(err, &chat.Error{Code: chat.RateLimited})
}

// repeat runs do again while the connection is lost or it ended in a deadlock, a few
// times within about a second and within ctx. do must be safe to repeat after a
// commit whose answer was lost. repeated tells that an attempt may have been committed.
func (s *Store) repeat(ctx context.Context, what string, do func() error) (repeated bool, err error) {
	const attempts = 5
	for n := 1; ; n++ {
		err = do()
		lost := connectionLost(err)
		if !lost && !deadlocked(err) || n == attempts {
			err = domainError(err)
			if repeated && errors.Is(err, &chat.Error{Code: chat.RateLimited}) {
				// Not a refusal: an attempt before this one may have been committed.
				err = fmt.Errorf("the outcome of a call is not known: %v", err)
			}
			return repeated, err
		}
		s.log.Warn("a call to the database failed, trying again", "call", what, "attempt", n, "error", err.Error())
		repeated = repeated || lost // after a deadlock nothing was written
		pause := time.Duration(n*n)*20*time.Millisecond + rand.N(20*time.Millisecond)
		select {
		case <-ctx.Done():
			return repeated, ctx.Err()
		case <-time.After(pause):
		}
	}
}
