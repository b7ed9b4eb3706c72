-- +goose Up

-- Ids are text COLLATE "C": one sort order in Go and in SQL. changed_xid is the
-- transaction that wrote the row last; it is never indexed, since that would
-- end HOT updates.

-- One row. The generation tells this history of the database from a restored one.
CREATE TABLE meta (
    id         boolean PRIMARY KEY DEFAULT true CHECK (id),
    generation uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO meta DEFAULT VALUES;

CREATE TABLE users (
    user_id      text COLLATE "C" PRIMARY KEY CHECK (user_id <> ''),
    name         text,
    shares_reads boolean NOT NULL DEFAULT true,
    -- An erased id cannot be used again.
    erased_at    timestamptz
);

CREATE TABLE devices (
    device_id     text COLLATE "C" PRIMARY KEY CHECK (device_id <> ''),
    user_id       text COLLATE "C" NOT NULL REFERENCES users,
    token_sha256  bytea NOT NULL UNIQUE CHECK (octet_length(token_sha256) = 32),
    install_id    text COLLATE "C",
    install_epoch integer NOT NULL DEFAULT 0 CHECK (install_epoch >= 0),
    name          text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    revoked_at    timestamptz
);
CREATE INDEX devices_user ON devices (user_id);

CREATE TABLE conversations (
    conv_id            text COLLATE "C" PRIMARY KEY CHECK (conv_id <> ''),
    kind               text COLLATE "C" NOT NULL CHECK (kind IN ('DIRECT', 'GROUP')),
    title              text,
    -- The pair of a DIRECT conversation in order of ids, so that it exists once.
    direct_low         text COLLATE "C",
    direct_high        text COLLATE "C",
    epoch              integer NOT NULL DEFAULT 1 CHECK (epoch >= 1),
    head               bigint NOT NULL DEFAULT 0 CHECK (head >= 0),
    -- How many messages the log holds, withdrawn ones included.
    message_ord        bigint NOT NULL DEFAULT 0 CHECK (message_ord BETWEEN 0 AND head),
    last_message_seq   bigint NOT NULL DEFAULT 0 CHECK (last_message_seq BETWEEN 0 AND head),
    -- The largest seq ever withdrawn, not the newest withdrawal.
    last_withdrawn_seq bigint NOT NULL DEFAULT 0 CHECK (last_withdrawn_seq BETWEEN 0 AND head),
    member_count       integer NOT NULL DEFAULT 0 CHECK (member_count >= 0),
    receipt_policy     text COLLATE "C" NOT NULL DEFAULT 'SENDER'
                       CHECK (receipt_policy IN ('SENDER', 'MEMBERS', 'OFF', 'REQUIRED')),
    last_activity_at   timestamptz NOT NULL DEFAULT now(),
    changed_xid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    CHECK ((kind = 'DIRECT') = (direct_low IS NOT NULL)),
    CHECK ((direct_low IS NULL) = (direct_high IS NULL)),
    CHECK (direct_low < direct_high),
    UNIQUE (direct_low, direct_high)
) WITH (fillfactor = 70);

-- The log. Hot: no foreign keys, since each insert would lock the hottest row.
CREATE TABLE events (
    conv_id           text COLLATE "C" NOT NULL,
    seq               bigint NOT NULL CHECK (seq > 0),
    -- 1 message, 2 member joined, 3 member left, 4 message recalled, 5 message edited, 6 notice
    kind              smallint NOT NULL CHECK (kind BETWEEN 1 AND 6),
    -- Who caused it; null for the service.
    sender            text COLLATE "C",
    -- The member who joined or left.
    subject           text COLLATE "C",
    client_message_id text COLLATE "C",
    -- Of the content as first sent: what decides about a repeated client_message_id.
    content_hash      bytea,
    body              text,
    mention_ids       text[],
    mentions_all      boolean NOT NULL DEFAULT false,
    -- How many messages the log holds up to and including this event.
    message_ord       bigint NOT NULL CHECK (message_ord BETWEEN 0 AND seq),
    -- Of a message: how many of those its sender wrote.
    sender_ord        bigint CHECK (sender_ord BETWEEN 1 AND message_ord),
    -- The message that a recall or an edit is about.
    target_seq        bigint CHECK (target_seq > 0 AND target_seq < seq),
    withdrawn_kind    text COLLATE "C" CHECK (withdrawn_kind IN ('RECALLED', 'TAKEN_DOWN')),
    withdrawn_xid     xid8,
    edited_at         timestamptz,
    at                timestamptz NOT NULL,
    PRIMARY KEY (conv_id, seq),
    CHECK ((kind = 1) = (sender_ord IS NOT NULL)),
    CHECK (kind <> 1 OR sender IS NOT NULL AND content_hash IS NOT NULL),
    CHECK ((withdrawn_kind IS NULL) = (withdrawn_xid IS NULL)),
    CHECK (withdrawn_kind IS NULL OR kind = 1 AND body IS NULL)
);
-- A repeated client message id finds its first message here.
CREATE UNIQUE INDEX events_client_message ON events (conv_id, sender, client_message_id) WHERE client_message_id IS NOT NULL;
-- How many messages of their own a user has at or before a seq: one index-only probe.
CREATE INDEX events_own ON events (conv_id, sender, seq) INCLUDE (sender_ord) WHERE kind = 1;
-- Withdrawn messages are few; those after a read position are counted here.
CREATE INDEX events_withdrawn ON events (conv_id, seq) INCLUDE (sender) WHERE withdrawn_kind IS NOT NULL;

-- A member and their newest period. Never deleted: sent_ord goes on counting after a rejoin.
CREATE TABLE members (
    user_id        text COLLATE "C" NOT NULL REFERENCES users,
    conv_id        text COLLATE "C" NOT NULL REFERENCES conversations,
    -- How many messages the user has sent here.
    sent_ord       bigint NOT NULL DEFAULT 0 CHECK (sent_ord >= 0),
    joined_at      timestamptz NOT NULL,
    left_at        timestamptz,
    -- The newest period: seqs inclusive; ordinals before its first and through its last seq.
    from_seq       bigint NOT NULL CHECK (from_seq > 0),
    from_ord       bigint NOT NULL CHECK (from_ord >= 0),
    from_own       bigint NOT NULL CHECK (from_own >= 0),
    to_seq         bigint,
    to_ord         bigint,
    to_own         bigint,
    -- Rows of membership_periods, hidden ones included.
    former_periods integer NOT NULL DEFAULT 0 CHECK (former_periods >= 0),
    changed_xid    xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (user_id, conv_id),
    CHECK (to_seq > from_seq AND to_ord >= from_ord AND to_own >= from_own AND to_own <= sent_ord),
    CHECK ((left_at IS NULL) = (to_seq IS NULL) AND (to_seq IS NULL) = (to_ord IS NULL) AND (to_seq IS NULL) = (to_own IS NULL))
) WITH (fillfactor = 80);
CREATE INDEX members_present ON members (conv_id, user_id) WHERE left_at IS NULL;

-- The periods before the newest one.
CREATE TABLE membership_periods (
    user_id  text COLLATE "C" NOT NULL,
    conv_id  text COLLATE "C" NOT NULL,
    from_seq bigint NOT NULL CHECK (from_seq > 0),
    to_seq   bigint NOT NULL,
    hidden   boolean NOT NULL DEFAULT false,
    -- How far the user had seen when the period was hidden; receipts use it there.
    seen_cap bigint CHECK (seen_cap BETWEEN 0 AND to_seq),
    from_ord bigint NOT NULL CHECK (from_ord >= 0),
    from_own bigint NOT NULL CHECK (from_own >= 0),
    to_ord   bigint NOT NULL,
    to_own   bigint NOT NULL,
    PRIMARY KEY (user_id, conv_id, from_seq),
    FOREIGN KEY (user_id, conv_id) REFERENCES members,
    CHECK (to_seq > from_seq AND to_ord >= from_ord AND to_own >= from_own),
    CHECK (hidden = (seen_cap IS NOT NULL))
);
CREATE INDEX membership_periods_conversation ON membership_periods (conv_id);

-- Who is mentioned by which message; user_id * stands for all. Hot: no foreign keys.
CREATE TABLE mentions (
    conv_id text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    seq     bigint NOT NULL CHECK (seq > 0),
    sender  text COLLATE "C" NOT NULL,
    PRIMARY KEY (conv_id, user_id, seq) INCLUDE (sender)
);

-- How far a device has received. A row counts only while its install_epoch is
-- the device's. Hot: no foreign keys.
CREATE TABLE device_cursors (
    device_id     text COLLATE "C" NOT NULL,
    conv_id       text COLLATE "C" NOT NULL,
    install_epoch integer NOT NULL CHECK (install_epoch >= 0),
    delivered_seq bigint NOT NULL CHECK (delivered_seq >= 0),
    changed_xid   xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (device_id, conv_id)
) WITH (fillfactor = 80);
CREATE INDEX device_cursors_conversation ON device_cursors (conv_id);

-- How far a user has read. Hot: no foreign keys, and no index on a position,
-- which would end HOT updates.
CREATE TABLE read_positions (
    user_id     text COLLATE "C" NOT NULL,
    conv_id     text COLLATE "C" NOT NULL,
    read_seq    bigint NOT NULL CHECK (read_seq >= 0),
    -- The ordinals at read_seq: all messages, and the user's own.
    read_ord    bigint NOT NULL CHECK (read_ord BETWEEN 0 AND read_seq),
    read_own    bigint NOT NULL CHECK (read_own BETWEEN 0 AND read_ord),
    mention_seq bigint NOT NULL DEFAULT 0 CHECK (mention_seq >= 0),
    -- The furthest that was ever seen: what others are told. Never goes back.
    seen_seq    bigint NOT NULL DEFAULT 0 CHECK (seen_seq >= read_seq),
    seen_at     timestamptz,
    revision    integer NOT NULL DEFAULT 0 CHECK (revision >= 0),
    changed_xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (user_id, conv_id)
) WITH (fillfactor = 80);
CREATE INDEX read_positions_conversation ON read_positions (conv_id);
