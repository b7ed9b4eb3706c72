-- +goose Up

-- Receipts ask of each member whether they are erased or do not share, which few
-- are: an index of those alone answers without a look at the row of anybody else.
CREATE INDEX users_apart ON users USING hash (user_id) WHERE erased_at IS NOT NULL OR NOT shares_reads;
