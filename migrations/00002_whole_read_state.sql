-- +goose Up

-- What sync tokens are signed with: the same in every process on this database.
ALTER TABLE meta ADD COLUMN token_key bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());

-- One row, made by whoever connects first. PostgreSQL empties the table when it
-- recovers from a crash, after which it may give the number of a transaction
-- that was rolled back to another one: what relied on it must not go on.
CREATE UNLOGGED TABLE incarnation (
    id    boolean PRIMARY KEY DEFAULT true CHECK (id),
    since uuid NOT NULL DEFAULT gen_random_uuid()
);

ALTER TABLE conversations
    -- The newest message or notice: last_activity_at is its time.
    ADD COLUMN last_activity_seq bigint NOT NULL DEFAULT 0 CHECK (last_activity_seq BETWEEN 0 AND head),
    -- The largest seq whose message ever mentioned anybody.
    ADD COLUMN last_mention_seq bigint NOT NULL DEFAULT 0 CHECK (last_mention_seq BETWEEN 0 AND head),
    -- The transaction that last changed a message in place: a withdrawal or an edit.
    ADD COLUMN revised_xid xid8 NOT NULL DEFAULT '0';
UPDATE conversations SET last_activity_seq = last_message_seq;

ALTER TABLE events
    -- The transaction that last changed the message in place, but for withdrawing
    -- it: an edit, or the end of a mention because its user was erased. An event
    -- of kind 5 keeps what the edit replaced, for those who had left before:
    -- body, mention_ids, mentions_all, edited_at.
    ADD COLUMN revised_xid xid8;
-- A repeated notice id finds its first notice here: client_message_id of kind 6.
CREATE UNIQUE INDEX events_notice ON events (conv_id, client_message_id) WHERE kind = 6 AND client_message_id IS NOT NULL;
-- For those who have left and hear of no later event: messages that were changed
-- in place, and what edits of a message replaced.
CREATE INDEX events_revised ON events (conv_id, revised_xid) WHERE revised_xid IS NOT NULL;
CREATE INDEX events_withdrawn_by ON events (conv_id, withdrawn_xid) WHERE withdrawn_kind IS NOT NULL;
CREATE INDEX events_edits ON events (conv_id, target_seq, seq) WHERE kind = 5;
-- An erasure looks for its user there.
CREATE INDEX events_replaced_mentions ON events (conv_id) WHERE kind = 5 AND mention_ids IS NOT NULL;

ALTER TABLE members
    ADD COLUMN pinned_at        timestamptz,
    ADD COLUMN muted            boolean NOT NULL DEFAULT false,
    -- Archived at this seq, with the ordinals there: the archive lasts while no
    -- newer message of another user was counted.
    ADD COLUMN archived_at_seq  bigint,
    ADD COLUMN archived_ord     bigint,
    ADD COLUMN archived_own     bigint,
    -- The newest activity in visible periods that are over; null when they hold none.
    ADD COLUMN past_activity_at timestamptz,
    -- What one who has left goes on seeing of the conversation.
    ADD COLUMN left_title       text,
    ADD COLUMN left_policy      text COLLATE "C",
    ADD COLUMN left_members     integer,
    ADD CHECK ((archived_at_seq IS NULL) = (archived_ord IS NULL) AND (archived_at_seq IS NULL) = (archived_own IS NULL));
UPDATE members m SET past_activity_at = (
    SELECT max(e.at) FROM events e
    WHERE e.conv_id = m.conv_id AND e.kind = 1
      AND (e.seq BETWEEN m.from_seq AND m.to_seq
           OR EXISTS (SELECT FROM membership_periods p WHERE p.user_id = m.user_id AND p.conv_id = m.conv_id
                      AND NOT p.hidden AND e.seq BETWEEN p.from_seq AND p.to_seq)))
WHERE left_at IS NOT NULL OR former_periods > 0;
UPDATE members m SET left_title = c.title, left_policy = c.receipt_policy, left_members = c.member_count
FROM conversations c WHERE c.conv_id = m.conv_id AND m.left_at IS NOT NULL;
ALTER TABLE members ADD CHECK ((left_at IS NULL) = (left_policy IS NULL) AND (left_at IS NULL) = (left_members IS NULL));
-- Receipts look at those who have left as well.
CREATE INDEX members_left ON members (conv_id, user_id) WHERE left_at IS NOT NULL;

ALTER TABLE membership_periods
    -- How far any of the user's devices had received when the period was hidden.
    ADD COLUMN delivered_cap bigint CHECK (delivered_cap BETWEEN 0 AND to_seq);
UPDATE membership_periods SET delivered_cap = 0 WHERE hidden;
ALTER TABLE membership_periods ADD CHECK (hidden = (delivered_cap IS NOT NULL));

-- Nothing wrote mentions before. since is the event that made the mention: the
-- message, or an edit of it. While the message also mentions all, which counts it
-- already, covered_by is the event since when.
DROP TABLE mentions;
CREATE TABLE mentions (
    conv_id    text COLLATE "C" NOT NULL,
    user_id    text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL CHECK (seq > 0),
    sender     text COLLATE "C" NOT NULL,
    since      bigint NOT NULL CHECK (since >= seq),
    covered_by bigint CHECK (covered_by >= since),
    PRIMARY KEY (conv_id, user_id, seq) INCLUDE (sender, since, covered_by)
);

ALTER TABLE read_positions
    -- The reminder flag of a mark-unread without a seq.
    ADD COLUMN marked_unread boolean NOT NULL DEFAULT false,
    ADD CHECK (mention_seq <= read_seq);
