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
CREATE FUNCTION public.doclock_load(document_tenants text[], document_rooms text[], document_names text[], lock_tenants text[], lock_rooms text[], lock_names text[], manual_now bigint) RETURNS TABLE(kind "char", tenant text, room text, document text, slot integer, lease_id uuid, hold bigint, fencing_token bigint, owner_id text, session_id text, name text, acquired_at bigint, expires_at bigint, due_at bigint, ttl_seconds integer, metadata text, document_version text, extend_request_id text, extend_fingerprint bytea)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    IF cardinality(document_names) > 0 THEN
        RETURN QUERY
        SELECT 'd'::"char", d.tenant, d.room, d.document, d.capacity, NULL::uuid, NULL::bigint, d.fencing_token,
            NULL::text, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::integer, NULL::text,
            d.document_version, NULL::text, NULL::bytea
        FROM UNNEST(document_tenants, document_rooms, document_names) AS k (tenant, room, document)
        JOIN documents AS d ON (d.tenant, d.room, d.document) = (k.tenant, k.room, k.document)
        ORDER BY d.tenant, d.room, d.document FOR UPDATE OF d;
    END IF;
    IF cardinality(lock_names) > 0 THEN
        RETURN QUERY
        SELECT 'l'::"char", l.tenant, l.room, l.document, l.slot, l.lease_id, l.hold, l.fencing_token, l.owner_id,
            l.session_id, l.name, l.acquired_at, l.expires_at, l.due_at, l.ttl_seconds, l.metadata, l.document_version,
            l.extend_request_id, l.extend_fingerprint
        FROM UNNEST(lock_tenants, lock_rooms, lock_names) AS k (tenant, room, document)
        JOIN document_locks AS l ON (l.tenant, l.room, l.document) = (k.tenant, k.room, k.document)
        ORDER BY l.tenant, l.room, l.document, l.slot FOR UPDATE OF l;
    END IF;
    RETURN QUERY
    SELECT 't'::"char", NULL::text, NULL::text, NULL::text, NULL::integer, h.epoch, h.sequence, h.token_floor,
        NULL::text, NULL::text, NULL::text,
        coalesce(manual_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + s.clock_offset), s.last_alive,
        NULL::bigint, NULL::integer, NULL::text, NULL::text, NULL::text, NULL::bytea
    FROM server_life AS s, log_head AS h;
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
    extend_request_id text COLLATE pg_catalog."C",
    extend_fingerprint bytea
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
    body text NOT NULL COLLATE pg_catalog."C"
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
INSERT INTO public.document_locks VALUES ('default', 'room', 'kept', 0, '01a3185c-518f-7bab-9e5e-262fb25a378b', 1, 1, 'alice', 'tab', NULL, 1800000000405, 1800000300436, 1800000300405, 300, '{"cursor":"\u0000 \"quoted\""}', NULL, 'beat-1', '\x9fcf7a02015e5e3d4a56b256d0bc4105');
INSERT INTO public.document_locks VALUES ('default', 'room', 'shared', 0, '01a3185c-51b7-7e4b-9924-0135fa6959af', 1, 1, 'alice', NULL, NULL, 1800000000443, 1800000300443, 1800000300443, 300, NULL, NULL, NULL, NULL);
INSERT INTO public.document_locks VALUES ('default', 'room', 'shared', 1, '01a3185c-51be-704d-b46d-e7c0727e393d', 1, 2, 'bob', NULL, NULL, 1800000000448, 1800000300448, 1800000300448, 300, NULL, NULL, NULL, NULL);
INSERT INTO public.documents VALUES ('default', 'room', 'kept', 1, 1, NULL);
INSERT INTO public.documents VALUES ('default', 'room', 'shared', 2, 2, NULL);
INSERT INTO public.documents VALUES ('default', 'room', 'left', 1, 1, 'v7');
INSERT INTO public.documents VALUES ('default', 'room', 'expired', 1, 1, NULL);
INSERT INTO public.events VALUES (1, 'default', 'room', 'kept', 1800000000405, 'DocumentLocked', '01a3185c-518f-7bab-9e5e-262fb25a378b', 1, 'alice', 'tab', NULL, NULL, NULL, NULL, NULL, NULL, '{"name":null,"hold":1,"acquired_at":1800000000405,"expires_at":1800000300405,"ttl_seconds":300,"metadata":{"cursor":"\u0000 \"quoted\""},"document_version":null}');
INSERT INTO public.events VALUES (2, 'default', 'room', 'shared', 1800000000443, 'DocumentLocked', '01a3185c-51b7-7e4b-9924-0135fa6959af', 1, 'alice', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"name":null,"hold":1,"acquired_at":1800000000443,"expires_at":1800000300443,"ttl_seconds":300,"metadata":null,"document_version":null}');
INSERT INTO public.events VALUES (3, 'default', 'room', 'shared', 1800000000448, 'DocumentLocked', '01a3185c-51be-704d-b46d-e7c0727e393d', 2, 'bob', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"name":null,"hold":1,"acquired_at":1800000000448,"expires_at":1800000300448,"ttl_seconds":300,"metadata":null,"document_version":null}');
INSERT INTO public.events VALUES (4, 'default', 'room', 'left', 1800000000450, 'DocumentLocked', '01a3185c-51c2-788d-99a1-88f2fc82354c', 1, 'alice', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"name":null,"hold":1,"acquired_at":1800000000450,"expires_at":1800000030450,"ttl_seconds":30,"metadata":null,"document_version":null}');
INSERT INTO public.events VALUES (5, 'default', 'room', 'left', 1800000000452, 'DocumentUnlocked', '01a3185c-51c2-788d-99a1-88f2fc82354c', 1, 'alice', NULL, 'released', 'alice', NULL, NULL, 2, NULL, '{"name":null,"hold":1,"acquired_at":1800000000450,"expires_at":1800000030450,"ttl_seconds":30,"metadata":null,"document_version":null}');
INSERT INTO public.events VALUES (6, 'default', 'room', 'expired', 1800000000455, 'DocumentLocked', '01a3185c-51c6-7cf5-9fb2-c4bdc31e779c', 1, 'bob', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"name":null,"hold":1,"acquired_at":1800000000455,"expires_at":1800000001455,"ttl_seconds":1,"metadata":null,"document_version":null}');
INSERT INTO public.events VALUES (7, 'default', 'room', 'expired', 1800000001554, 'DocumentUnlocked', '01a3185c-51c6-7cf5-9fb2-c4bdc31e779c', 1, 'bob', NULL, 'expired', NULL, NULL, NULL, 1099, NULL, '{"name":null,"hold":1,"acquired_at":1800000000455,"expires_at":1800000001455,"ttl_seconds":1,"metadata":null,"document_version":null}');
INSERT INTO public.log_head VALUES (1, '3bc9d819-6ee1-46fd-ae23-934a0dc9b6bd', 7, 0);
INSERT INTO public.request_memos VALUES ('default', 'alice', 'lock-1', '\x460c7af9269a39750bf93d14a38d6c9c', '[{"lease_id":"01a3185c-518f-7bab-9e5e-262fb25a378b","fencing_token":1,"resumed":false}]', 1800000000405);
INSERT INTO public.seaql_migrations VALUES ('m0001_first_tables', 1794968912);
INSERT INTO public.server_life VALUES (1, 1800000002880, 5031084236);
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
ALTER TABLE ONLY public.participants
    ADD CONSTRAINT participants_server_id_fkey FOREIGN KEY (server_id) REFERENCES public.live_servers(server_id) ON DELETE CASCADE;
