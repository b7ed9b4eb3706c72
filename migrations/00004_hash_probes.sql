-- +goose Up

-- Every statement probes conversations, one row for each of a user's: a probe of a
-- hash index takes half the time of one through the levels of the primary key's tree.
-- An id never changes, so that updates stay HOT.
CREATE INDEX conversations_probe ON conversations USING hash (conv_id);
-- The same for users, whom receipts probe for each member.
CREATE INDEX users_probe ON users USING hash (user_id);
