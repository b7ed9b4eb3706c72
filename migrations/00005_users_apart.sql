-- +goose NO TRANSACTION
-- +goose Up

-- Receipts ask of each member whether they are erased or do not share, which few
-- are: an index of those alone answers without a look at the row of anybody else.
-- Concurrently, which stops no writer; what an attempt that failed left goes first.
DROP INDEX CONCURRENTLY IF EXISTS users_apart;
CREATE INDEX CONCURRENTLY users_apart ON users USING hash (user_id) WHERE erased_at IS NOT NULL OR NOT shares_reads;
