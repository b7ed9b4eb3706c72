package hint

import (
	"encoding/json"

	"tidemark/chat"
)

// envelope is what a message has around its hints, in bytes.
const envelope = 120

// split cuts hints into messages of at most max bytes. A hint about many users
// becomes several.
func split(hints []Hint, max int) (parts [][]Hint) {
	size := 0
	for _, h := range splitUsers(hints, max/2) {
		n := jsonSize(h) + 1
		if len(parts) == 0 || size+n > max {
			parts, size = append(parts, nil), 0
		}
		last := len(parts) - 1
		parts[last], size = append(parts[last], h), size+n
	}
	return parts
}

// splitUsers cuts the lists of users that joined or left into pieces of about
// max bytes; what is not a membership hint passes.
func splitUsers(hints []Hint, max int) (out []Hint) {
	for _, h := range hints {
		if len(h.Joined)+len(h.Left) <= 1 {
			out = append(out, h)
			continue
		}
		piece, size := h, 0
		piece.Joined, piece.Left = nil, nil
		cut := func(user chat.UserID, into *[]chat.UserID) {
			if size > max {
				out = append(out, piece)
				piece.Joined, piece.Left, size = nil, nil, 0
			}
			*into = append(*into, user)
			size += jsonSize(user) + 1
		}
		for _, u := range h.Joined {
			cut(u, &piece.Joined)
		}
		for _, u := range h.Left {
			cut(u, &piece.Left)
		}
		out = append(out, piece)
	}
	return out
}

func jsonSize(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return len(b)
}
