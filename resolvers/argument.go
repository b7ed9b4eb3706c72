package resolvers

import "tidemark/chat"

// Ids arrive as strings and become ids of the domain in a resolver's first line.

func conversationID(field, id string) (chat.ConversationID, error) {
	return chat.ConversationID(id), chat.CheckID(field, id)
}

func userID(field, id string) (chat.UserID, error) {
	return chat.UserID(id), chat.CheckID(field, id)
}

func deviceID(field, id string) (chat.DeviceID, error) {
	return chat.DeviceID(id), chat.CheckID(field, id)
}

// userIDs checks a list of at most 1,000 ids.
func userIDs(field string, ids []string) ([]chat.UserID, error) {
	if err := chat.CheckCount(field, len(ids), chat.MaxMembers); err != nil {
		return nil, err
	}
	list := make([]chat.UserID, len(ids))
	for i, id := range ids {
		if err := chat.CheckID(field, id); err != nil {
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
