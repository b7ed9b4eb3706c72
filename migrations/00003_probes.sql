-- +goose Up

-- A probe by both keys must be exact by whichever index it is done. By the
-- conversation alone it would pass all of its members, and in a young database,
-- whose statistics know nothing yet, such a plan looks as good as any.
CREATE INDEX read_positions_members ON read_positions (conv_id, user_id);
DROP INDEX read_positions_conversation;
CREATE INDEX device_cursors_devices ON device_cursors (conv_id, device_id);
DROP INDEX device_cursors_conversation;
