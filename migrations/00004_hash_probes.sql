-- +goose NO TRANSACTION
-- +goose Up

-- Every statement probes conversations, one row for each of a user's: a probe of a
-- hash index takes half the time of one through the levels of the primary key's tree.
-- An id never changes, so that updates stay HOT. The same for users.
-- Concurrently, which stops no writer; what an attempt that failed left goes first.
DROP INDEX CONCURRENTLY IF EXISTS conversations_probe;
CREATE INDEX CONCURRENTLY conversations_probe ON conversations USING hash (conv_id);
DROP INDEX CONCURRENTLY IF EXISTS users_probe;
CREATE INDEX CONCURRENTLY users_probe ON users USING hash (user_id);
