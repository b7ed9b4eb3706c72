-- The schema as the migrations leave it, to be read; a test holds it to the truth.

CREATE TABLE public.conversations (
    conv_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    title text,
    direct_low text COLLATE pg_catalog."C",
    direct_high text COLLATE pg_catalog."C",
    epoch integer DEFAULT 1 NOT NULL,
    head bigint DEFAULT 0 NOT NULL,
    message_ord bigint DEFAULT 0 NOT NULL,
    last_message_seq bigint DEFAULT 0 NOT NULL,
    last_withdrawn_seq bigint DEFAULT 0 NOT NULL,
    member_count integer DEFAULT 0 NOT NULL,
    receipt_policy text DEFAULT 'SENDER'::text NOT NULL COLLATE pg_catalog."C",
    last_activity_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    last_activity_seq bigint DEFAULT 0 NOT NULL,
    last_mention_seq bigint DEFAULT 0 NOT NULL,
    revised_xid xid8 DEFAULT '0'::xid8 NOT NULL,
    CONSTRAINT conversations_check CHECK (((message_ord >= 0) AND (message_ord <= head))),
    CONSTRAINT conversations_check1 CHECK (((last_message_seq >= 0) AND (last_message_seq <= head))),
    CONSTRAINT conversations_check2 CHECK (((last_withdrawn_seq >= 0) AND (last_withdrawn_seq <= head))),
    CONSTRAINT conversations_check3 CHECK (((kind = 'DIRECT'::text) = (direct_low IS NOT NULL))),
    CONSTRAINT conversations_check4 CHECK (((direct_low IS NULL) = (direct_high IS NULL))),
    CONSTRAINT conversations_check5 CHECK ((direct_low < direct_high)),
    CONSTRAINT conversations_check6 CHECK (((last_activity_seq >= 0) AND (last_activity_seq <= head))),
    CONSTRAINT conversations_check7 CHECK (((last_mention_seq >= 0) AND (last_mention_seq <= head))),
    CONSTRAINT conversations_conv_id_check CHECK ((conv_id <> ''::text)),
    CONSTRAINT conversations_epoch_check CHECK ((epoch >= 1)),
    CONSTRAINT conversations_head_check CHECK ((head >= 0)),
    CONSTRAINT conversations_kind_check CHECK ((kind = ANY (ARRAY['DIRECT'::text, 'GROUP'::text]))),
    CONSTRAINT conversations_member_count_check CHECK ((member_count >= 0)),
    CONSTRAINT conversations_receipt_policy_check CHECK ((receipt_policy = ANY (ARRAY['SENDER'::text, 'MEMBERS'::text, 'OFF'::text, 'REQUIRED'::text])))
)
WITH (fillfactor='70');

CREATE TABLE public.device_cursors (
    device_id text NOT NULL COLLATE pg_catalog."C",
    conv_id text NOT NULL COLLATE pg_catalog."C",
    install_epoch integer NOT NULL,
    delivered_seq bigint NOT NULL,
    changed_xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT device_cursors_delivered_seq_check CHECK ((delivered_seq >= 0)),
    CONSTRAINT device_cursors_install_epoch_check CHECK ((install_epoch >= 0))
)
WITH (fillfactor='80');

CREATE TABLE public.devices (
    device_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    token_sha256 bytea NOT NULL,
    install_id text COLLATE pg_catalog."C",
    install_epoch integer DEFAULT 0 NOT NULL,
    name text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    revoked_at timestamp with time zone,
    CONSTRAINT devices_device_id_check CHECK ((device_id <> ''::text)),
    CONSTRAINT devices_install_epoch_check CHECK ((install_epoch >= 0)),
    CONSTRAINT devices_token_sha256_check CHECK ((octet_length(token_sha256) = 32))
);

CREATE TABLE public.events (
    conv_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    kind smallint NOT NULL,
    sender text COLLATE pg_catalog."C",
    subject text COLLATE pg_catalog."C",
    client_message_id text COLLATE pg_catalog."C",
    content_hash bytea,
    body text,
    mention_ids text[],
    mentions_all boolean DEFAULT false NOT NULL,
    message_ord bigint NOT NULL,
    sender_ord bigint,
    target_seq bigint,
    withdrawn_kind text COLLATE pg_catalog."C",
    withdrawn_xid xid8,
    edited_at timestamp with time zone,
    at timestamp with time zone NOT NULL,
    revised_xid xid8,
    CONSTRAINT events_check CHECK (((message_ord >= 0) AND (message_ord <= seq))),
    CONSTRAINT events_check1 CHECK (((sender_ord >= 1) AND (sender_ord <= message_ord))),
    CONSTRAINT events_check2 CHECK (((target_seq > 0) AND (target_seq < seq))),
    CONSTRAINT events_check3 CHECK (((kind = 1) = (sender_ord IS NOT NULL))),
    CONSTRAINT events_check4 CHECK (((kind <> 1) OR ((sender IS NOT NULL) AND (content_hash IS NOT NULL)))),
    CONSTRAINT events_check5 CHECK (((withdrawn_kind IS NULL) = (withdrawn_xid IS NULL))),
    CONSTRAINT events_check6 CHECK (((withdrawn_kind IS NULL) OR ((kind = 1) AND (body IS NULL)))),
    CONSTRAINT events_kind_check CHECK (((kind >= 1) AND (kind <= 6))),
    CONSTRAINT events_seq_check CHECK ((seq > 0)),
    CONSTRAINT events_withdrawn_kind_check CHECK ((withdrawn_kind = ANY (ARRAY['RECALLED'::text, 'TAKEN_DOWN'::text])))
);

CREATE UNLOGGED TABLE public.incarnation (
    id boolean DEFAULT true NOT NULL,
    since uuid DEFAULT gen_random_uuid() NOT NULL,
    CONSTRAINT incarnation_id_check CHECK (id)
);

CREATE TABLE public.members (
    user_id text NOT NULL COLLATE pg_catalog."C",
    conv_id text NOT NULL COLLATE pg_catalog."C",
    sent_ord bigint DEFAULT 0 NOT NULL,
    joined_at timestamp with time zone NOT NULL,
    left_at timestamp with time zone,
    from_seq bigint NOT NULL,
    from_ord bigint NOT NULL,
    from_own bigint NOT NULL,
    to_seq bigint,
    to_ord bigint,
    to_own bigint,
    former_periods integer DEFAULT 0 NOT NULL,
    changed_xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    pinned_at timestamp with time zone,
    muted boolean DEFAULT false NOT NULL,
    archived_at_seq bigint,
    archived_ord bigint,
    archived_own bigint,
    past_activity_at timestamp with time zone,
    left_title text,
    left_policy text COLLATE pg_catalog."C",
    left_members integer,
    CONSTRAINT members_check CHECK (((to_seq > from_seq) AND (to_ord >= from_ord) AND (to_own >= from_own) AND (to_own <= sent_ord))),
    CONSTRAINT members_check1 CHECK ((((left_at IS NULL) = (to_seq IS NULL)) AND ((to_seq IS NULL) = (to_ord IS NULL)) AND ((to_seq IS NULL) = (to_own IS NULL)))),
    CONSTRAINT members_check2 CHECK ((((archived_at_seq IS NULL) = (archived_ord IS NULL)) AND ((archived_at_seq IS NULL) = (archived_own IS NULL)))),
    CONSTRAINT members_check3 CHECK ((((left_at IS NULL) = (left_policy IS NULL)) AND ((left_at IS NULL) = (left_members IS NULL)))),
    CONSTRAINT members_former_periods_check CHECK ((former_periods >= 0)),
    CONSTRAINT members_from_ord_check CHECK ((from_ord >= 0)),
    CONSTRAINT members_from_own_check CHECK ((from_own >= 0)),
    CONSTRAINT members_from_seq_check CHECK ((from_seq > 0)),
    CONSTRAINT members_sent_ord_check CHECK ((sent_ord >= 0))
)
WITH (fillfactor='80');

CREATE TABLE public.membership_periods (
    user_id text NOT NULL COLLATE pg_catalog."C",
    conv_id text NOT NULL COLLATE pg_catalog."C",
    from_seq bigint NOT NULL,
    to_seq bigint NOT NULL,
    hidden boolean DEFAULT false NOT NULL,
    seen_cap bigint,
    from_ord bigint NOT NULL,
    from_own bigint NOT NULL,
    to_ord bigint NOT NULL,
    to_own bigint NOT NULL,
    delivered_cap bigint,
    CONSTRAINT membership_periods_check CHECK (((seen_cap >= 0) AND (seen_cap <= to_seq))),
    CONSTRAINT membership_periods_check1 CHECK (((to_seq > from_seq) AND (to_ord >= from_ord) AND (to_own >= from_own))),
    CONSTRAINT membership_periods_check2 CHECK ((hidden = (seen_cap IS NOT NULL))),
    CONSTRAINT membership_periods_check3 CHECK (((delivered_cap >= 0) AND (delivered_cap <= to_seq))),
    CONSTRAINT membership_periods_check4 CHECK ((hidden = (delivered_cap IS NOT NULL))),
    CONSTRAINT membership_periods_from_ord_check CHECK ((from_ord >= 0)),
    CONSTRAINT membership_periods_from_own_check CHECK ((from_own >= 0)),
    CONSTRAINT membership_periods_from_seq_check CHECK ((from_seq > 0))
);

CREATE TABLE public.mentions (
    conv_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    sender text NOT NULL COLLATE pg_catalog."C",
    since bigint NOT NULL,
    covered_by bigint,
    CONSTRAINT mentions_check CHECK ((since >= seq)),
    CONSTRAINT mentions_check1 CHECK ((covered_by >= since)),
    CONSTRAINT mentions_seq_check CHECK ((seq > 0))
);

CREATE TABLE public.meta (
    id boolean DEFAULT true NOT NULL,
    generation uuid DEFAULT gen_random_uuid() NOT NULL,
    token_key bytea DEFAULT (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) NOT NULL,
    CONSTRAINT meta_id_check CHECK (id)
);

CREATE TABLE public.read_positions (
    user_id text NOT NULL COLLATE pg_catalog."C",
    conv_id text NOT NULL COLLATE pg_catalog."C",
    read_seq bigint NOT NULL,
    read_ord bigint NOT NULL,
    read_own bigint NOT NULL,
    mention_seq bigint DEFAULT 0 NOT NULL,
    seen_seq bigint DEFAULT 0 NOT NULL,
    seen_at timestamp with time zone,
    revision integer DEFAULT 0 NOT NULL,
    changed_xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    marked_unread boolean DEFAULT false NOT NULL,
    CONSTRAINT read_positions_check CHECK (((read_ord >= 0) AND (read_ord <= read_seq))),
    CONSTRAINT read_positions_check1 CHECK (((read_own >= 0) AND (read_own <= read_ord))),
    CONSTRAINT read_positions_check2 CHECK ((seen_seq >= read_seq)),
    CONSTRAINT read_positions_check3 CHECK ((mention_seq <= read_seq)),
    CONSTRAINT read_positions_mention_seq_check CHECK ((mention_seq >= 0)),
    CONSTRAINT read_positions_read_seq_check CHECK ((read_seq >= 0)),
    CONSTRAINT read_positions_revision_check CHECK ((revision >= 0))
)
WITH (fillfactor='80');

CREATE TABLE public.users (
    user_id text NOT NULL COLLATE pg_catalog."C",
    name text,
    shares_reads boolean DEFAULT true NOT NULL,
    erased_at timestamp with time zone,
    CONSTRAINT users_user_id_check CHECK ((user_id <> ''::text))
);

ALTER TABLE ONLY public.conversations
    ADD CONSTRAINT conversations_direct_low_direct_high_key UNIQUE (direct_low, direct_high);

ALTER TABLE ONLY public.conversations
    ADD CONSTRAINT conversations_pkey PRIMARY KEY (conv_id);

ALTER TABLE ONLY public.device_cursors
    ADD CONSTRAINT device_cursors_pkey PRIMARY KEY (device_id, conv_id);

ALTER TABLE ONLY public.devices
    ADD CONSTRAINT devices_pkey PRIMARY KEY (device_id);

ALTER TABLE ONLY public.devices
    ADD CONSTRAINT devices_token_sha256_key UNIQUE (token_sha256);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (conv_id, seq);

ALTER TABLE ONLY public.incarnation
    ADD CONSTRAINT incarnation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.members
    ADD CONSTRAINT members_pkey PRIMARY KEY (user_id, conv_id);

ALTER TABLE ONLY public.membership_periods
    ADD CONSTRAINT membership_periods_pkey PRIMARY KEY (user_id, conv_id, from_seq);

ALTER TABLE ONLY public.mentions
    ADD CONSTRAINT mentions_pkey PRIMARY KEY (conv_id, user_id, seq) INCLUDE (sender, since, covered_by);

ALTER TABLE ONLY public.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.read_positions
    ADD CONSTRAINT read_positions_pkey PRIMARY KEY (user_id, conv_id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (user_id);

CREATE INDEX conversations_probe ON public.conversations USING hash (conv_id);

CREATE INDEX device_cursors_devices ON public.device_cursors USING btree (conv_id, device_id);

CREATE INDEX devices_user ON public.devices USING btree (user_id);

CREATE UNIQUE INDEX events_client_message ON public.events USING btree (conv_id, sender, client_message_id) WHERE (client_message_id IS NOT NULL);

CREATE INDEX events_edits ON public.events USING btree (conv_id, target_seq, seq) WHERE (kind = 5);

CREATE UNIQUE INDEX events_notice ON public.events USING btree (conv_id, client_message_id) WHERE ((kind = 6) AND (client_message_id IS NOT NULL));

CREATE INDEX events_own ON public.events USING btree (conv_id, sender, seq) INCLUDE (sender_ord) WHERE (kind = 1);

CREATE INDEX events_replaced_mentions ON public.events USING btree (conv_id) WHERE ((kind = 5) AND (mention_ids IS NOT NULL));

CREATE INDEX events_revised ON public.events USING btree (conv_id, revised_xid) WHERE (revised_xid IS NOT NULL);

CREATE INDEX events_withdrawn ON public.events USING btree (conv_id, seq) INCLUDE (sender) WHERE (withdrawn_kind IS NOT NULL);

CREATE INDEX events_withdrawn_by ON public.events USING btree (conv_id, withdrawn_xid) WHERE (withdrawn_kind IS NOT NULL);

CREATE INDEX members_left ON public.members USING btree (conv_id, user_id) WHERE (left_at IS NOT NULL);

CREATE INDEX members_present ON public.members USING btree (conv_id, user_id) WHERE (left_at IS NULL);

CREATE INDEX membership_periods_conversation ON public.membership_periods USING btree (conv_id);

CREATE INDEX read_positions_members ON public.read_positions USING btree (conv_id, user_id);

CREATE INDEX users_apart ON public.users USING hash (user_id) WHERE ((erased_at IS NOT NULL) OR (NOT shares_reads));

CREATE INDEX users_probe ON public.users USING hash (user_id);

ALTER TABLE ONLY public.devices
    ADD CONSTRAINT devices_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(user_id);

ALTER TABLE ONLY public.members
    ADD CONSTRAINT members_conv_id_fkey FOREIGN KEY (conv_id) REFERENCES public.conversations(conv_id);

ALTER TABLE ONLY public.members
    ADD CONSTRAINT members_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(user_id);

ALTER TABLE ONLY public.membership_periods
    ADD CONSTRAINT membership_periods_user_id_conv_id_fkey FOREIGN KEY (user_id, conv_id) REFERENCES public.members(user_id, conv_id);
