package resolvers

import "tidemark/chat"

// Ids arrive as strings and become ids of the domain in a resolver's first line.

func conversationID(field string, id chat.ID) (chat.ConversationID, error) {
	return chat.ConversationID(id), chat.CheckID(field, string(id))
}

func userID(field string, id chat.ID) (chat.UserID, error) {
	return chat.UserID(id), chat.CheckID(field, string(id))
}

func deviceID(field string, id chat.ID) (chat.DeviceID, error) {
	return chat.DeviceID(id), chat.CheckID(field, string(id))
}

// userIDs checks a list of at most max ids.
func userIDs(field string, ids []chat.ID, max int) ([]chat.UserID, error) {
	if err := chat.CheckCount(field, len(ids), max); err != nil {
		return nil, err
	}
	list := make([]chat.UserID, len(ids))
	for i, id := range ids {
		if err := chat.CheckID(field, string(id)); err != nil {
			return nil, err
		}
		list[i] = chat.UserID(id)
	}
	return list, nil
}

// checkOptionalName checks a name or title that may be left out.
func checkOptionalName(field string, name *string) error {
	if name == nil {
		return nil
	}
	return chat.CheckName(field, *name)
}

// pageRows is the size of a page: the argument, or the default where it is null.
func pageRows(field string, n *int32, fallback int) (int, error) {
	if n == nil {
		return fallback, nil
	}
	return int(*n), chat.CheckPage(field, *n)
}
