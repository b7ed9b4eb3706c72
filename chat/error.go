package chat

import "fmt"

// Code is what a client branches on: errors[].extensions.code of an answer.
type Code string

// The codes of the domain. The codes of the protocol itself (a document that
// does not parse, a lost database) are added at the edge.
const (
	Unauthenticated     Code = "UNAUTHENTICATED"
	Forbidden           Code = "FORBIDDEN"
	NotMember           Code = "NOT_MEMBER"
	CursorAhead         Code = "CURSOR_AHEAD"
	StaleInstall        Code = "STALE_INSTALL"
	ReadMoved           Code = "READ_CHANGED"
	IdempotencyConflict Code = "IDEMPOTENCY_CONFLICT"
	NotFound            Code = "NOT_FOUND"
	BadUserInput        Code = "BAD_USER_INPUT"
	TooComplex          Code = "TOO_COMPLEX"
	RateLimited         Code = "RATE_LIMITED"
)

// Error is a refusal that the caller may see whole: a code to branch on and a
// message that says what to do next. A call that returns one changed nothing.
type Error struct {
	Code    Code
	Message string
	// Field is the name of the argument at fault; empty when none is.
	Field string
	// Head is where the log ends for this viewer; only CURSOR_AHEAD has it.
	Head *Seq
	// Read and Revision are the present read position; only READ_CHANGED has them.
	Read     *Seq
	Revision *int32
	// RetryAfterMs is a time to wait in milliseconds; only RATE_LIMITED has it.
	RetryAfterMs int
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Is makes errors.Is match on the code alone: errors.Is(err, &Error{Code: NotMember}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// BadInput is the error for an argument that is malformed or out of range.
func BadInput(field, message string) *Error {
	return &Error{Code: BadUserInput, Field: field, Message: message}
}

// ErrNotMember is the one answer for a conversation that does not exist and for
// one that the viewer may not see, so that ids cannot be probed.
func ErrNotMember() *Error {
	return &Error{Code: NotMember, Message: "There is no such conversation, or you are not a member of it."}
}

// ErrCursorAhead refuses a position outside 0 to head.
func ErrCursorAhead(head Seq) *Error {
	return &Error{Code: CursorAhead, Head: &head,
		Message: fmt.Sprintf("seq must lie between 0 and %d, the conversation's head. Fetch events first, then report what was seen.", head)}
}

// ErrReadChanged refuses a markUnread that was made against a read position
// that is no longer true.
func ErrReadChanged(read Seq, revision int32) *Error {
	return &Error{Code: ReadMoved, Read: &read, Revision: &revision,
		Message: fmt.Sprintf("The read position has changed: it is %d now. Look again, then mark unread with that expectedRead.", read)}
}

// ErrStaleInstall refuses an acknowledgement of a replaced installation.
func ErrStaleInstall() *Error {
	return &Error{Code: StaleInstall,
		Message: "This installation has been replaced. Call registerInstall and send the installEpoch that it answers."}
}

// ErrUnauthenticated refuses a call without a valid credential.
func ErrUnauthenticated() *Error {
	return &Error{Code: Unauthenticated,
		Message: "A valid credential is needed: send 'Authorization: Bearer <token>', over a WebSocket as 'authorization' in the payload of connection_init."}
}
