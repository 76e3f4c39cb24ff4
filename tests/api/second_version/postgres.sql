SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE FUNCTION public.doclock_load(document_tenants text[], document_rooms text[], document_names text[], lock_tenants text[], lock_rooms text[], lock_names text[], memo_tenants text[], memo_owners text[], memo_ids text[], due_limit integer, known_sequence bigint, manual_now bigint) RETURNS TABLE(kind "char", tenant text, room text, document text, capacity integer, slot integer, lease_id uuid, hold bigint, fencing_token bigint, owner_id text, session_id text, name text, acquired_at bigint, expires_at bigint, due_at bigint, ttl_seconds integer, linger_ms integer, metadata text, document_version text, extend_ids text, request_id text, fingerprint bytea, created_at bigint, granted text, now bigint, last_alive bigint, epoch uuid, sequence bigint, token_floor bigint, known_lease uuid, known_at bigint, head_lease uuid, head_at bigint, outages_from bigint[], outages_until bigint[], postponed bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    due_before bigint;
    moved bigint := 0;
BEGIN
    IF cardinality(document_names) > 0 THEN
        RETURN QUERY
        SELECT 'd'::"char", d.tenant, d.room, d.document, d.capacity, NULL::integer, NULL::uuid, NULL::bigint,
            d.fencing_token, NULL::text, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint,
            NULL::integer, NULL::integer, NULL::text, d.document_version, NULL::text, NULL::text, NULL::bytea,
            NULL::bigint, NULL::text, NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::bigint, NULL::uuid,
            NULL::bigint, NULL::uuid, NULL::bigint, NULL::bigint[], NULL::bigint[], NULL::bigint
        FROM UNNEST(document_tenants, document_rooms, document_names) AS k (tenant, room, document)
        JOIN documents AS d ON (d.tenant, d.room, d.document) = (k.tenant, k.room, k.document)
        ORDER BY d.tenant, d.room, d.document FOR UPDATE OF d;
    END IF;
    IF cardinality(lock_names) > 0 THEN
        RETURN QUERY
        SELECT 'l'::"char", l.tenant, l.room, l.document, NULL::integer, l.slot, l.lease_id, l.hold, l.fencing_token,
            l.owner_id, l.session_id, l.name, l.acquired_at, l.expires_at, l.due_at, l.ttl_seconds, l.linger_ms,
            l.metadata, l.document_version, l.extend_ids, NULL::text, NULL::bytea, NULL::bigint, NULL::text,
            NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::uuid,
            NULL::bigint, NULL::bigint[], NULL::bigint[], NULL::bigint
        FROM UNNEST(lock_tenants, lock_rooms, lock_names) AS k (tenant, room, document)
        JOIN document_locks AS l ON (l.tenant, l.room, l.document) = (k.tenant, k.room, k.document)
        ORDER BY l.tenant, l.room, l.document, l.slot FOR UPDATE OF l;
    END IF;
    IF due_limit > 0 THEN
        SELECT coalesce(manual_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + s.clock_offset)
            INTO due_before FROM server_life AS s;
        UPDATE document_locks AS l SET due_at = l.expires_at
        FROM (SELECT o.tenant, o.room, o.document, o.slot FROM document_locks AS o WHERE o.due_at <= due_before
              ORDER BY o.due_at LIMIT due_limit FOR UPDATE SKIP LOCKED) AS k
        WHERE (l.tenant, l.room, l.document, l.slot) = (k.tenant, k.room, k.document, k.slot)
            AND l.expires_at > due_before;
        GET DIAGNOSTICS moved = ROW_COUNT;
        RETURN QUERY
        SELECT 'l'::"char", l.tenant, l.room, l.document, NULL::integer, l.slot, l.lease_id, l.hold, l.fencing_token,
            l.owner_id, l.session_id, l.name, l.acquired_at, l.expires_at, l.due_at, l.ttl_seconds, l.linger_ms,
            l.metadata, l.document_version, l.extend_ids, NULL::text, NULL::bytea, NULL::bigint, NULL::text,
            NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::uuid,
            NULL::bigint, NULL::bigint[], NULL::bigint[], NULL::bigint
        FROM (SELECT o.* FROM document_locks AS o WHERE o.due_at <= due_before
              ORDER BY o.due_at LIMIT due_limit FOR UPDATE SKIP LOCKED) AS l
        WHERE l.expires_at <= due_before;
    END IF;
    IF cardinality(memo_ids) > 0 THEN
        RETURN QUERY
        SELECT 'm'::"char", m.tenant, NULL::text, NULL::text, NULL::integer, NULL::integer, NULL::uuid, NULL::bigint,
            NULL::bigint, m.owner_id, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::integer,
            NULL::integer, NULL::text, NULL::text, NULL::text, m.request_id, m.fingerprint, m.created_at, m.locks,
            NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::uuid,
            NULL::bigint, NULL::bigint[], NULL::bigint[], NULL::bigint
        FROM UNNEST(memo_tenants, memo_owners, memo_ids) AS k (tenant, owner_id, request_id)
        JOIN request_memos AS m ON (m.tenant, m.owner_id, m.request_id) = (k.tenant, k.owner_id, k.request_id);
    END IF;
    RETURN QUERY
    SELECT 't'::"char", NULL::text, NULL::text, NULL::text, NULL::integer, NULL::integer, NULL::uuid, NULL::bigint,
        NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::integer,
        NULL::integer, NULL::text, NULL::text, NULL::text, NULL::text, NULL::bytea, NULL::bigint, NULL::text,
        coalesce(manual_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + s.clock_offset), s.last_alive,
        h.epoch, h.sequence, h.token_floor, known.lease_id, known.at, head.lease_id, head.at,
        (SELECT array_agg(o.last_alive ORDER BY o.back_at) FROM outages AS o),
        (SELECT array_agg(o.back_at ORDER BY o.back_at) FROM outages AS o), moved
    FROM server_life AS s CROSS JOIN log_head AS h
    LEFT JOIN events AS head ON head.sequence = h.sequence
    LEFT JOIN events AS known ON known.sequence = known_sequence;
END
$$;
CREATE FUNCTION public.doclock_token_must_grow() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'a fencing token must grow' USING ERRCODE = 'check_violation';
END
$$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.document_locks (
    tenant text NOT NULL COLLATE pg_catalog."C",
    room text NOT NULL COLLATE pg_catalog."C",
    document text NOT NULL COLLATE pg_catalog."C",
    slot integer NOT NULL,
    lease_id uuid NOT NULL,
    hold bigint NOT NULL,
    fencing_token bigint NOT NULL,
    owner_id text NOT NULL COLLATE pg_catalog."C",
    session_id text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    acquired_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    due_at bigint NOT NULL,
    ttl_seconds integer NOT NULL,
    metadata text COLLATE pg_catalog."C",
    document_version text COLLATE pg_catalog."C",
    linger_ms integer,
    extend_ids text COLLATE pg_catalog."C"
)
WITH (fillfactor='50');
CREATE TABLE public.documents (
    tenant text NOT NULL COLLATE pg_catalog."C",
    room text NOT NULL COLLATE pg_catalog."C",
    document text NOT NULL COLLATE pg_catalog."C",
    fencing_token bigint NOT NULL,
    capacity integer NOT NULL,
    document_version text COLLATE pg_catalog."C"
)
WITH (fillfactor='50');
CREATE TABLE public.events (
    sequence bigint NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    room text NOT NULL COLLATE pg_catalog."C",
    document text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    lease_id uuid,
    fencing_token bigint NOT NULL,
    owner_id text NOT NULL COLLATE pg_catalog."C",
    session_id text COLLATE pg_catalog."C",
    reason text COLLATE pg_catalog."C",
    by text COLLATE pg_catalog."C",
    note text COLLATE pg_catalog."C",
    recipient text COLLATE pg_catalog."C",
    held_ms bigint,
    waited_ms bigint,
    body text NOT NULL COLLATE pg_catalog."C",
    ended_at bigint
);
CREATE TABLE public.live_servers (
    server_id uuid NOT NULL,
    version bigint NOT NULL,
    floor bigint NOT NULL,
    seen_at bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.lock_handovers (
    tenant text NOT NULL COLLATE pg_catalog."C",
    room text NOT NULL COLLATE pg_catalog."C",
    document text NOT NULL COLLATE pg_catalog."C",
    handover_id uuid NOT NULL,
    lease_id uuid NOT NULL,
    owner_id text NOT NULL COLLATE pg_catalog."C",
    session_id text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    message text COLLATE pg_catalog."C",
    asked_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    outcome text COLLATE pg_catalog."C",
    answer text COLLATE pg_catalog."C"
);
CREATE TABLE public.lock_waiters (
    tenant text NOT NULL COLLATE pg_catalog."C",
    room text NOT NULL COLLATE pg_catalog."C",
    document text NOT NULL COLLATE pg_catalog."C",
    ticket_id uuid NOT NULL,
    place bigint NOT NULL,
    owner_id text NOT NULL COLLATE pg_catalog."C",
    session_id text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    ttl_seconds integer NOT NULL,
    capacity integer NOT NULL,
    metadata text COLLATE pg_catalog."C",
    request_id text COLLATE pg_catalog."C",
    fingerprint bytea,
    joined_at bigint NOT NULL,
    expires_at bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.log_head (
    id integer NOT NULL,
    epoch uuid NOT NULL,
    sequence bigint NOT NULL,
    token_floor bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.outages (
    back_at bigint NOT NULL,
    last_alive bigint NOT NULL
);
CREATE TABLE public.participants (
    server_id uuid NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    room text NOT NULL COLLATE pg_catalog."C",
    owner_id text NOT NULL COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    is_here boolean NOT NULL,
    version bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.request_memos (
    tenant text NOT NULL COLLATE pg_catalog."C",
    owner_id text NOT NULL COLLATE pg_catalog."C",
    request_id text NOT NULL COLLATE pg_catalog."C",
    fingerprint bytea NOT NULL,
    locks text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);
CREATE TABLE public.seaql_migrations (
    version character varying NOT NULL,
    applied_at bigint NOT NULL
);
CREATE TABLE public.server_life (
    id integer NOT NULL,
    last_alive bigint NOT NULL,
    clock_offset bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.stream_tickets (
    digest bytea NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C",
    expires_at bigint NOT NULL
);
INSERT INTO public.document_locks VALUES ('default', 'room', 'kept', 0, '01a1ed04-1ef5-791e-ae3b-dfe72510b7d5', 1, 1, 'alice', 'tab', NULL, 1800000000098, 1800000300114, 1800000300098, 300, '{"cursor":"\u0000 \"quoted\""}', NULL, NULL, '["beat-1"]');
INSERT INTO public.document_locks VALUES ('default', 'room', 'shared', 0, '01a1ed04-1f1a-7e85-8b1f-8abcbc06d82e', 1, 1, 'alice', NULL, NULL, 1800000000121, 1800000300121, 1800000300121, 300, NULL, NULL, NULL, NULL);
INSERT INTO public.document_locks VALUES ('default', 'room', 'shared', 1, '01a1ed04-1f21-7a36-a2dc-1458cae1667e', 1, 2, 'bob', NULL, NULL, 1800000000127, 1800000300127, 1800000300127, 300, NULL, NULL, NULL, NULL);
INSERT INTO public.document_locks VALUES ('default', 'room', 'lingers', 0, '01a1ed04-1f3a-714a-9280-4c36727a7fbc', 1, 1, 'alice', 'page', NULL, 1800000000152, 1800000010236, 1800000010236, 300, NULL, NULL, 10000, NULL);
INSERT INTO public.documents VALUES ('default', 'room', 'kept', 1, 1, NULL);
INSERT INTO public.documents VALUES ('default', 'room', 'shared', 2, 2, NULL);
INSERT INTO public.documents VALUES ('default', 'room', 'left', 1, 1, 'v7');
INSERT INTO public.documents VALUES ('default', 'room', 'expired', 1, 1, NULL);
INSERT INTO public.documents VALUES ('default', 'room', 'lingers', 1, 1, NULL);
INSERT INTO public.events VALUES (1, 'default', 'room', 'kept', 1800000000098, 'DocumentLocked', '01a1ed04-1ef5-791e-ae3b-dfe72510b7d5', 1, 'alice', 'tab', NULL, NULL, NULL, NULL, NULL, NULL, '{"name":null,"hold":1,"acquired_at":1800000000098,"expires_at":1800000300098,"ttl_seconds":300,"metadata":{"cursor":"\u0000 \"quoted\""},"document_version":null}', NULL);
INSERT INTO public.events VALUES (2, 'default', 'room', 'shared', 1800000000121, 'DocumentLocked', '01a1ed04-1f1a-7e85-8b1f-8abcbc06d82e', 1, 'alice', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"name":null,"hold":1,"acquired_at":1800000000121,"expires_at":1800000300121,"ttl_seconds":300,"metadata":null,"document_version":null}', NULL);
INSERT INTO public.events VALUES (3, 'default', 'room', 'shared', 1800000000127, 'DocumentLocked', '01a1ed04-1f21-7a36-a2dc-1458cae1667e', 2, 'bob', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"name":null,"hold":1,"acquired_at":1800000000127,"expires_at":1800000300127,"ttl_seconds":300,"metadata":null,"document_version":null}', NULL);
INSERT INTO public.events VALUES (4, 'default', 'room', 'left', 1800000000134, 'DocumentLocked', '01a1ed04-1f27-78e9-9218-d6d9383b394f', 1, 'alice', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"name":null,"hold":1,"acquired_at":1800000000134,"expires_at":1800000030134,"ttl_seconds":30,"metadata":null,"document_version":null}', NULL);
INSERT INTO public.events VALUES (5, 'default', 'room', 'left', 1800000000140, 'DocumentUnlocked', '01a1ed04-1f27-78e9-9218-d6d9383b394f', 1, 'alice', NULL, 'released', 'alice', NULL, NULL, 6, NULL, '{"name":null,"hold":1,"acquired_at":1800000000134,"expires_at":1800000030134,"ttl_seconds":30,"metadata":null,"document_version":null}', 1800000000140);
INSERT INTO public.events VALUES (6, 'default', 'room', 'expired', 1800000000146, 'DocumentLocked', '01a1ed04-1f34-7757-b2fb-5147c941a1e1', 1, 'bob', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"name":null,"hold":1,"acquired_at":1800000000146,"expires_at":1800000001146,"ttl_seconds":1,"metadata":null,"document_version":null}', NULL);
INSERT INTO public.events VALUES (7, 'default', 'room', 'lingers', 1800000000152, 'DocumentLocked', '01a1ed04-1f3a-714a-9280-4c36727a7fbc', 1, 'alice', 'page', NULL, NULL, NULL, NULL, NULL, NULL, '{"name":null,"hold":1,"acquired_at":1800000000152,"expires_at":1800000300152,"ttl_seconds":300,"metadata":null,"document_version":null}', NULL);
INSERT INTO public.events VALUES (8, 'default', 'room', 'expired', 1800000001148, 'DocumentUnlocked', '01a1ed04-1f34-7757-b2fb-5147c941a1e1', 1, 'bob', NULL, 'expired', NULL, NULL, NULL, 1002, NULL, '{"name":null,"hold":1,"acquired_at":1800000000146,"expires_at":1800000001146,"ttl_seconds":1,"metadata":null,"document_version":null}', 1800000001146);
INSERT INTO public.log_head VALUES (1, 'bd270d94-e97f-4eb1-b352-e91428eb8f15', 8, 0);
INSERT INTO public.request_memos VALUES ('default', 'alice', 'lock-1', '\x460c7af9269a39750bf93d14a38d6c9c', '[{"lease_id":"01a1ed04-1ef5-791e-ae3b-dfe72510b7d5","fencing_token":1,"resumed":false}]', 1800000000098);
INSERT INTO public.request_memos VALUES ('default', 'alice', 'beat-1', '\x9fcf7a02015e5e3d4a56b256d0bc4105', '[{"lease_id":"01a1ed04-1ef5-791e-ae3b-dfe72510b7d5","fencing_token":1,"resumed":false}]', 1800000000114);
INSERT INTO public.seaql_migrations VALUES ('m0001_first_tables', 1800000000);
INSERT INTO public.seaql_migrations VALUES ('m0002_grace_and_tokens', 1800000000);
INSERT INTO public.server_life VALUES (1, 1800000001143, 0);
ALTER TABLE ONLY public.document_locks
    ADD CONSTRAINT document_locks_pkey PRIMARY KEY (tenant, room, document, slot);
ALTER TABLE ONLY public.documents
    ADD CONSTRAINT documents_pkey PRIMARY KEY (tenant, room, document);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY public.live_servers
    ADD CONSTRAINT live_servers_pkey PRIMARY KEY (server_id);
ALTER TABLE ONLY public.lock_handovers
    ADD CONSTRAINT lock_handovers_pkey PRIMARY KEY (handover_id);
ALTER TABLE ONLY public.lock_waiters
    ADD CONSTRAINT lock_waiters_pkey PRIMARY KEY (tenant, room, document, place);
ALTER TABLE ONLY public.log_head
    ADD CONSTRAINT log_head_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.outages
    ADD CONSTRAINT outages_pkey PRIMARY KEY (back_at);
ALTER TABLE ONLY public.participants
    ADD CONSTRAINT participants_pkey PRIMARY KEY (server_id, tenant, room, owner_id);
ALTER TABLE ONLY public.request_memos
    ADD CONSTRAINT request_memos_pkey PRIMARY KEY (tenant, owner_id, request_id);
ALTER TABLE ONLY public.seaql_migrations
    ADD CONSTRAINT seaql_migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.server_life
    ADD CONSTRAINT server_life_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.stream_tickets
    ADD CONSTRAINT stream_tickets_pkey PRIMARY KEY (digest);
CREATE INDEX document_locks_due ON public.document_locks USING btree (due_at);
CREATE UNIQUE INDEX document_locks_lease ON public.document_locks USING btree (lease_id);
CREATE INDEX document_locks_owner ON public.document_locks USING btree (owner_id, tenant);
CREATE INDEX events_end_by_owner ON public.events USING btree (tenant, room, document, owner_id, sequence) WHERE (kind = 'DocumentUnlocked'::text);
CREATE INDEX events_end_of_lease ON public.events USING btree (lease_id) WHERE (kind = 'DocumentUnlocked'::text);
CREATE INDEX events_of_room ON public.events USING btree (tenant, room, sequence);
CREATE INDEX lock_handovers_lease ON public.lock_handovers USING btree (lease_id);
CREATE INDEX participants_news ON public.participants USING btree (server_id, version);
CREATE INDEX request_memos_age ON public.request_memos USING btree (created_at);
CREATE INDEX stream_tickets_age ON public.stream_tickets USING btree (expires_at);
CREATE TRIGGER documents_tokens_grow BEFORE UPDATE OF fencing_token ON public.documents FOR EACH ROW WHEN ((new.fencing_token <= old.fencing_token)) EXECUTE FUNCTION public.doclock_token_must_grow();
ALTER TABLE ONLY public.participants
    ADD CONSTRAINT participants_server_id_fkey FOREIGN KEY (server_id) REFERENCES public.live_servers(server_id) ON DELETE CASCADE;
