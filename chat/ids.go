package chat

import (
	"encoding/json"
	"fmt"
	"io"
)

// ID is any id as the API carries it, before a resolver says what it names.
type ID string

// MarshalGQL writes the id as a GraphQL ID.
func (id ID) MarshalGQL(w io.Writer) { writeJSON(w, string(id)) }

// UnmarshalGQL reads a GraphQL ID. It does not check limits; see [CheckID].
func (id *ID) UnmarshalGQL(v any) error { return readID(v, (*string)(id)) }

// UserID names a person. It is chosen by the application's back end, compared
// byte by byte, and valid if [CheckID] accepts it.
type UserID string

// DeviceID names one installation place of a user: a phone, a browser. See [UserID].
type DeviceID string

// ConversationID names a conversation. See [UserID].
type ConversationID string

// MarshalGQL writes the id as a GraphQL ID.
func (id UserID) MarshalGQL(w io.Writer) { writeJSON(w, string(id)) }

// UnmarshalGQL reads a GraphQL ID. It does not check limits; see [CheckID].
func (id *UserID) UnmarshalGQL(v any) error { return readID(v, (*string)(id)) }

// MarshalGQL writes the id as a GraphQL ID.
func (id DeviceID) MarshalGQL(w io.Writer) { writeJSON(w, string(id)) }

// UnmarshalGQL reads a GraphQL ID. It does not check limits; see [CheckID].
func (id *DeviceID) UnmarshalGQL(v any) error { return readID(v, (*string)(id)) }

// MarshalGQL writes the id as a GraphQL ID.
func (id ConversationID) MarshalGQL(w io.Writer) { writeJSON(w, string(id)) }

// UnmarshalGQL reads a GraphQL ID. It does not check limits; see [CheckID].
func (id *ConversationID) UnmarshalGQL(v any) error { return readID(v, (*string)(id)) }

// readID accepts what GraphQL allows for an ID: a string or an integer.
func readID(v any, into *string) error {
	switch v := v.(type) {
	case string:
		*into = v
		return nil
	case json.Number:
		if _, err := v.Int64(); err == nil {
			*into = v.String()
			return nil
		}
	case int, int32, int64:
		*into = fmt.Sprint(v)
		return nil
	}
	return &Error{Code: BadUserInput, Message: "An ID must be a string."}
}

func writeJSON(w io.Writer, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only strings and integers come here, and those always marshal
	}
	_, _ = w.Write(b)
}
