"""What the engine does when it is large or unlucky: a million locks, an outage, many ends at once, a slow database.

    benches/run scale                     all of it
    benches/run scale --only expiry       one part: grace, epoch, expiry, looks, ids, sessions

- grace: two servers on PostgreSQL with a hundred thousand and a million locks, the database stopped for five seconds; one on
  SQLite, whose file is moved away for as long. From its return until a lock is granted.
- epoch: `doclock new-epoch` at a million locks, on both databases.
- expiry: locks that end at the same moment. From that moment until the last end is committed, by the servers' own counters,
  asked every few milliseconds.
- looks: a hundred thousand locks that were extended since expiry last looked at them. The processor time of a look, of server
  and database together, beside that of a heartbeat.
- ids: lock and unlock over a database that is a millisecond away, with a `request_id` in each request and without.
- sessions: heartbeats of a session that nobody knows and of the oldest lease, by an owner who has had the document a million
  times.

Locks are put into the tables directly, as the server itself would have written them.
"""

import asyncio
import contextlib
import http.client
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.parse
import uuid

MILLION = 1_000_000
# What `lease` returns, as an expression of PostgreSQL.
LEASE = "('019a' || lpad(to_hex(n), 12, '0') || lpad(to_hex(n), 16, '0'))::uuid"


class Cluster:
    """A PostgreSQL of our own, which can be stopped."""

    def __init__(self, bench, folder):
        os.chmod(folder, 0o755)
        self.data = pathlib.Path(folder, "pg")
        self.data.mkdir()
        self.port, self.programs = bench.free_port(), bench.postgres_programs()
        self.as_user = []
        if os.geteuid() == 0:
            bench.shutil.chown(self.data, "postgres")
            self.as_user = ["runuser", "-u", "postgres", "--"]
        self.run("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync")
        self.start()
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def run(self, program, *arguments):
        command = [*self.as_user, self.programs / program, "-D", self.data, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

    def start(self):
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c shared_buffers=512MB"
        self.run("pg_ctl", "-w", "-l", self.data / "log", "-o", f"{options} -c max_wal_size=8GB", "start")

    def stop(self, how="fast"):
        self.run("pg_ctl", "-w", "-m", how, "stop")

    def sql(self, statements):
        command = ["psql", "-q", "-v", "ON_ERROR_STOP=1", self.url, "-c", statements]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


    def value(self, query):
        command = ["psql", "-qtA", self.url, "-c", query]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def cluster(bench):
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(bench, folder)
        try:
            yield cluster
        finally:
            cluster.stop("immediate")


@contextlib.contextmanager
def servers(bench, database, count):
    with tempfile.TemporaryDirectory() as folder:
        running = [bench.Server(folder, database) for _ in range(count)]
        try:
            yield running
        finally:
            for server in running:
                server.stop()


def locks_on_postgres(count, ttl_seconds, ends_in_ms):
    return f"""
        WITH now AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint + clock_offset AS at FROM server_life)
        INSERT INTO document_locks (tenant, room, document, slot, lease_id, hold, fencing_token, owner_id, acquired_at,
            expires_at, due_at, ttl_seconds)
        SELECT 'default', 'many-' || n % 100, 'd' || n, 0, {LEASE}, 1, 1, 'owner-' || n % 1000, now.at,
            now.at + {ends_in_ms}, now.at + {ends_in_ms}, {ttl_seconds} FROM generate_series(1, {count}) AS n, now;
        INSERT INTO documents (tenant, room, document, fencing_token, capacity)
            SELECT tenant, room, document, 1, 1 FROM document_locks"""


def lease(number):
    """A lease id. Ids sort by their number, as the server's sort by time."""
    return uuid.UUID(int=(0x019A << 112) + (number << 64) + number)


def connected(path):
    connection = sqlite3.connect(path)
    connection.create_function("lease", 1, lambda number: lease(number).bytes, deterministic=True)
    return connection


def locks_on_sqlite(path, count, ttl_seconds, ends_in_ms):
    connection = connected(path)
    now = int(time.time() * 1000)
    connection.executescript(f"""
        INSERT INTO document_locks (tenant, room, document, slot, lease_id, hold, fencing_token, owner_id, acquired_at,
            expires_at, due_at, ttl_seconds)
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})
        SELECT 'default', 'many-' || n % 100, 'd' || n, 0, lease(n), 1, 1, 'owner-' || n % 1000, {now},
            {now + ends_in_ms}, {now + ends_in_ms}, {ttl_seconds} FROM n;
        INSERT INTO documents (tenant, room, document, fencing_token, capacity)
            SELECT tenant, room, document, 1, 1 FROM document_locks;
        UPDATE server_life SET last_alive = {now};""")
    connection.close()
    return now + ends_in_ms


class Client:
    """One connection with a token."""

    def __init__(self, server, sub="bench", role="editor"):
        address = urllib.parse.urlsplit(server.base)
        self.connection = http.client.HTTPConnection(address.hostname, address.port)
        token = server.token_for(sub, role)
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def send(self, method, path, body=None):
        try:
            self.connection.request(method, path, json.dumps(body) if body is not None else None, self.headers)
            answer = self.connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            return 0, ""

    def metric(self, name):
        lines = self.send("GET", "/metrics")[1].splitlines()
        return float(next(line for line in lines if line.startswith(name + " ")).split()[1])


def grace(bench):
    for count in (100_000, MILLION):
        with cluster(bench) as database, servers(bench, database.url, 2) as (one, _):
            database.sql(locks_on_postgres(count, 300, 299_000))
            database.stop()
            time.sleep(5)
            database.start()
            bench.figure(f"postgres_first_grant_after_an_outage_at_{count}_locks", first_grant(one), "s")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "doclock.db")
            server = bench.Server(folder, f"sqlite://{path}")
            server.stop()
            locks_on_sqlite(path, count, 300, 299_000)
            server = bench.Server(folder, f"sqlite://{path}")
            path.rename(f"{path}.away")
            time.sleep(5)
            pathlib.Path(f"{path}.away").rename(path)
            bench.figure(f"sqlite_first_grant_after_an_outage_at_{count}_locks", first_grant(server), "s")
            server.stop()


def first_grant(server):
    """Seconds from now until a lock is granted, at most 60."""
    client, begin = Client(server), time.perf_counter()
    while time.perf_counter() - begin < 60:
        if client.send("POST", "/api/documents/room/first/lock", {})[0] in (200, 409):
            break
    return time.perf_counter() - begin


def epoch(bench):
    for name, ended in (("sqlite", epoch_on_sqlite(bench)), ("postgres", epoch_on_postgres(bench))):
        bench.figure(f"{name}_new_epoch_at_1000000_locks", ended, "s")


def timed_new_epoch(bench, server):
    begin = time.perf_counter()
    command = [bench.BINARY, "new-epoch"]
    subprocess.run(command, env=server.environment, cwd=server.folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def epoch_on_sqlite(bench):
    with tempfile.TemporaryDirectory() as folder:
        server = bench.Server(folder, f"sqlite://{folder}/doclock.db")
        server.stop()
        locks_on_sqlite(f"{folder}/doclock.db", MILLION, 300, 299_000)
        return timed_new_epoch(bench, server)


def epoch_on_postgres(bench):
    with cluster(bench) as database:
        with servers(bench, database.url, 1) as (server,):
            folder = server.folder
        database.sql(locks_on_postgres(MILLION, 300, 299_000))
        time.sleep(4)
        os.makedirs(folder, exist_ok=True)
        return timed_new_epoch(bench, server)


def expiry(bench):
    for count in (5_000, 100_000):
        with tempfile.TemporaryDirectory() as folder:
            server = bench.Server(folder, f"sqlite://{folder}/doclock.db")
            server.stop()
            moment = locks_on_sqlite(f"{folder}/doclock.db", count, 6, 5000)
            server = bench.Server(folder, f"sqlite://{folder}/doclock.db")
            late = told([server], count, moment / 1000)
            server.stop()
            bench.figure(f"sqlite_{count}_that_end_together_are_told_after", late, "s")
        for number in (1, 2):
            with cluster(bench) as database, servers(bench, database.url, number) as running:
                database.sql(locks_on_postgres(count, 9, 8000))
                moment = int(database.value("SELECT max(expires_at) FROM document_locks")) / 1000
                late = told(running, count, moment)
                bench.figure(f"postgres_{count}_that_end_together_are_told_by_{number}_after", late, "s")


def told(running, count, moment):
    """Seconds from the moment until that many ends are committed."""
    clients = [Client(server) for server in running]
    while sum(client.metric("doclock_events_total") for client in clients) < count:
        time.sleep(0.002)
    return time.time() - moment


def looks(bench):
    bench.need("wrk", "wrk")
    count = 100_000
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/doclock.db"
        server = bench.Server(folder, f"sqlite://{path}")
        server.stop()
        locks_on_sqlite(path, count, 300, 299_000)
        connection = sqlite3.connect(path)
        connection.execute("UPDATE document_locks SET due_at = 1")
        connection.commit()
        server = bench.Server(folder, f"sqlite://{path}")
        due = "SELECT count(*) FROM (SELECT 1 FROM document_locks WHERE due_at = 1 LIMIT 1)"
        compare(bench, "sqlite", server, None, count, lambda: connection.execute(due).fetchone()[0])
        connection.close()
        server.stop()
    with cluster(bench) as database:
        with servers(bench, database.url, 1):
            pass
        database.sql(locks_on_postgres(count, 300, 299_000) + "; UPDATE document_locks SET due_at = 1")
        due = "SELECT count(*) FROM (SELECT 1 FROM document_locks WHERE due_at = 1 LIMIT 1) AS due"
        with servers(bench, database.url, 1) as (server,):
            compare(bench, "postgres", server, database, count, lambda: int(database.value(due)))


def compare(bench, name, server, database, count, due):
    """Compares the processor time of a look with that of a heartbeat. That of the server's start counts as looks too."""
    while due():
        time.sleep(0.05)
    look = cpu(server, database) / count
    begin, seconds = cpu(server, database), 4
    rate = bench.Load(server, "heartbeat", seconds).rate
    heartbeat = (cpu(server, database) - begin) / (rate * seconds)
    bench.figure(f"{name}_processor_time_of_a_look", 1e6 * look, "us")
    bench.figure(f"{name}_processor_time_of_a_heartbeat", 1e6 * heartbeat, "us")
    bench.figure(f"{name}_look_of_heartbeat", look / heartbeat, "ratio")


def cpu(server, database=None):
    """Seconds of processor time of the server, and of the database's processes that still run."""
    processes = [server.process.pid]
    if database:
        postmaster = int(pathlib.Path(database.data, "postmaster.pid").read_text().split()[0])
        children = pathlib.Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        processes += [int(child) for child in children]
    seconds = 0
    for process in processes:
        with contextlib.suppress(FileNotFoundError):
            fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


class Delay:
    """A proxy in front of the database that delays by half a millisecond in each direction."""

    def __init__(self, target, each_way=0.0005):
        self.target, self.each_way = target, each_way
        self.loop = asyncio.new_event_loop()
        listening = threading.Event()
        threading.Thread(target=self.run, args=(listening,), daemon=True).start()
        listening.wait()

    def run(self, listening):
        async def main():
            server = await asyncio.start_server(self.connected, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            listening.set()
            await server.serve_forever()

        with contextlib.suppress(asyncio.CancelledError, RuntimeError):
            self.loop.run_until_complete(main())

    async def connected(self, reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(self.pass_on(reader, far_writer), self.pass_on(far_reader, writer))

    async def pass_on(self, reader, writer):
        while data := await reader.read(1 << 16):
            self.loop.call_later(self.each_way, writer.write, data)
        self.loop.call_later(self.each_way, writer.close)


def ids(bench):
    bench.need("wrk", "wrk")
    with cluster(bench) as database:
        delayed = Delay(database.port)
        url = f"postgres://postgres@127.0.0.1:{delayed.port}/postgres"
        with servers(bench, url, 1) as (server,):
            rates = {"pair": [], "pair_with_ids": []}
            for _ in range(3):
                for kind, runs in rates.items():
                    runs.append(bench.Load(server, kind, 4).rate)
            plain, with_ids = (statistics.median(runs) for runs in rates.values())
    bench.figure("postgres_1_ms_away_pairs", plain, "requests/s")
    bench.figure("postgres_1_ms_away_pairs_with_ids", with_ids, "requests/s")
    bench.figure("postgres_1_ms_away_with_ids_of_without", with_ids / plain, "ratio")


def sessions(bench):
    with tempfile.TemporaryDirectory() as folder:
        server = bench.Server(folder, f"sqlite://{folder}/doclock.db")
        server.stop()
        now = int(time.time() * 1000)
        connection = connected(f"{folder}/doclock.db")
        connection.executescript(f"""
            INSERT INTO events (sequence, tenant, room, document, at, kind, lease_id, fencing_token, owner_id, session_id,
                reason, body)
            WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {MILLION})
            SELECT n, 'default', 'room', 'main', {now}, 'DocumentUnlocked', lease(n), n, 'bench', 'tab-' || n,
                'released', '{{}}' FROM n;
            UPDATE log_head SET sequence = {MILLION};""")
        connection.close()
        server = bench.Server(folder, f"sqlite://{folder}/doclock.db")
        ask(bench, "sqlite", server)
        server.stop()
    with cluster(bench) as database:
        with servers(bench, database.url, 1):
            pass
        database.sql(f"""
            INSERT INTO events (sequence, tenant, room, document, at, kind, lease_id, fencing_token, owner_id, session_id,
                reason, body)
            SELECT n, 'default', 'room', 'main', {now}, 'DocumentUnlocked', {LEASE}, n, 'bench', 'tab-' || n,
                'released', '{{}}' FROM generate_series(1, {MILLION}) AS n;
            UPDATE log_head SET sequence = {MILLION}""")
        with servers(bench, database.url, 1) as (server,):
            ask(bench, "postgres", server)


def ask(bench, name, server):
    client = Client(server)
    for what, body in (("an_unknown_session", {"session_id": "nobody"}), ("the_first_lease", {"lease_id": str(lease(1))})):
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            client.send("PUT", "/api/documents/room/lock", body)
            times.append(1000 * (time.perf_counter() - begin))
        bench.figure(f"{name}_heartbeat_of_{what}_after_1000000_ends", statistics.median(times), "ms")


PARTS = {"grace": grace, "epoch": epoch, "expiry": expiry, "looks": looks, "ids": ids, "sessions": sessions}


def measure(bench, arguments):
    for name, part in PARTS.items():
        if arguments.only in (None, name):
            part(bench)
