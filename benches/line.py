"""Waiting in line, beside what people do without a line.

    benches/run line                      all of it
    benches/run line --only herd          one part: herd, long, dead

- herd: a thousand clients want one document, each holds it for 10 ms. Once they wait in line by long-polls, once they poll
  with growing delays (`sleep = min(delay * uniform(0.5, 1.5), 30)`, `delay * 1.5`, from one second). Grants per second until
  all have had it, and requests. In line every one is served once, in the order of the tickets, which the log shows.
- long: lock and unlock of a document that ten, and ten thousand, tickets wait for. The time of an unlock, which serves the
  first of them, by a client that is alone.
- dead: the same, behind ten thousand tickets that nobody has renewed.

Tickets of `long` and `dead` are put into the table directly, as the server itself would have written them.
"""

import asyncio
import http.client
import json
import random
import sqlite3
import statistics
import time
import urllib.parse
import uuid

CLIENTS = 1000
HOLD = 0.01
PATH = "/api/documents/herd/main/lock"
PARTS = ["herd", "long", "dead"]


class Connection:
    """One client's connection, which counts its requests."""

    def __init__(self, address, token, counter):
        self.address, self.token, self.counter = address, token, counter

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection(*self.address)

    async def send(self, method, body):
        self.counter["requests"] += 1
        text = json.dumps(body).encode()
        head = f"{method} {PATH} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self.token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        self.writer.write(head.encode() + text)
        await self.writer.drain()
        status = int((await self.reader.readline()).split()[1])
        length = 0
        while (line := await self.reader.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return status, json.loads(await self.reader.readexactly(length))

    def close(self):
        self.writer.close()


async def in_line(connection, session):
    while True:
        status, answer = await connection.send("POST", {"session_id": session, "wait_ms": 55_000})
        if status == 200:
            return
        if answer["code"] != "LOCK_HELD":
            raise SystemExit(f"a wait was refused: {answer}")


async def polling(connection, session):
    delay = 1
    while True:
        status, _ = await connection.send("POST", {"session_id": session})
        if status == 200:
            return
        # The server ends a connection that is idle for some seconds.
        connection.close()
        await asyncio.sleep(min(delay * random.uniform(0.5, 1.5), 30))
        delay *= 1.5
        await connection.open()


async def herd(server, acquire):
    """Seconds until all have had it, and requests."""
    url = urllib.parse.urlsplit(server.base)
    counter = {"requests": 0}

    async def client(number):
        connection = Connection((url.hostname, url.port), server.token, counter)
        await connection.open()
        session = f"client-{number}"
        await acquire(connection, session)
        await asyncio.sleep(HOLD)
        status, answer = await connection.send("DELETE", {"session_id": session})
        if status != 200:
            raise SystemExit(f"an unlock was refused: {answer}")
        connection.close()

    begin = time.monotonic()
    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    return time.monotonic() - begin, counter["requests"]


def check_order(server):
    """Every client was granted once, and nobody before one whose ticket was older."""
    rows = sqlite3.connect(f"{server.folder}/doclock.db").execute(
        "SELECT session_id, at - waited_ms FROM events WHERE kind = 'DocumentLocked' ORDER BY sequence"
    ).fetchall()
    sessions = [session for session, _ in rows]
    if len(set(sessions)) != CLIENTS or len(sessions) != CLIENTS:
        raise SystemExit(f"{len(sessions)} grants to {len(set(sessions))} of {CLIENTS} clients")
    joined = [at for _, at in rows if at is not None]
    if joined != sorted(joined):
        raise SystemExit("somebody was served before an older ticket")


def measure_herd(bench):
    results = {}
    for name, acquire in (("line", in_line), ("polling", polling)):
        with bench.sqlite_server(DOCLOCK_LIMITS__WAITS_PER_OWNER="0") as server:
            seconds, requests = asyncio.run(herd(server, acquire))
            if name == "line":
                check_order(server)
        results[name] = (CLIENTS / seconds, requests)
        bench.figure(f"herd_{name}_grants", CLIENTS / seconds, "grants/s")
        bench.figure(f"herd_{name}_requests", requests, "requests")
    bench.figure("herd_grants_of_polling", results["line"][0] / results["polling"][0], "ratio")
    bench.figure("herd_polling_requests_of_line", results["polling"][1] / results["line"][1], "ratio")


def tickets(server, count, lives_ms):
    """Tickets of one document, first to be served first."""
    now = int(time.time() * 1000)
    database = sqlite3.connect(f"{server.folder}/doclock.db", timeout=10)
    rows = [
        ("default", "herd", "main", place, uuid.uuid4().bytes, "bench", f"ticket-{place}", 30, now, now + lives_ms)
        for place in range(1, count + 1)
    ]
    database.executemany(
        "INSERT INTO lock_waiters (tenant, room, document, place, lease_id, owner_id, session_id, ttl_seconds, joined_at,"
        " expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
    database.execute("UPDATE document_locks SET is_wanted = 1 WHERE room = 'herd'")
    database.commit()
    database.close()


def unlocks(server, count):
    """Milliseconds of each unlock. The first in line is granted the lock and gives it up next."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.base).netloc)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}

    def send(method, body):
        connection.request(method, PATH, json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise SystemExit(f"{method} was refused: {answer}")
        return answer

    times = []
    for place in range(count):
        session = "first" if place == 0 else f"ticket-{place}"
        begin = time.perf_counter()
        send("DELETE", {"session_id": session})
        times.append((time.perf_counter() - begin) * 1000)
    return times


def first_lock(server):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.base).netloc)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    connection.request("POST", PATH, json.dumps({"session_id": "first"}), headers)
    if connection.getresponse().status != 200:
        raise SystemExit("the first lock was refused")


def measure_long(bench, rounds):
    medians = {10: [], 10_000: []}
    for _ in range(rounds):
        for count in medians:
            with bench.sqlite_server() as server:
                first_lock(server)
                # They live long enough for the run; nobody renews them.
                tickets(server, count, 600_000)
                medians[count].append(statistics.median(unlocks(server, 10)))
    of = {count: statistics.median(found) for count, found in medians.items()}
    for count, milliseconds in of.items():
        bench.figure(f"unlock_with_{count}_in_line_p50", milliseconds, "ms")
    bench.figure("unlock_with_10000_of_10_in_line", of[10_000] / of[10], "ratio")


def measure_dead(bench):
    with bench.sqlite_server() as server:
        first_lock(server)
        tickets(server, 10_000, -1000)
        database = sqlite3.connect(f"{server.folder}/doclock.db", timeout=10)
        now = int(time.time() * 1000)
        database.execute(
            "INSERT INTO lock_waiters (tenant, room, document, place, lease_id, owner_id, session_id, ttl_seconds,"
            " joined_at, expires_at) VALUES ('default', 'herd', 'main', 20000, ?, 'bench', 'ticket-1', 30, ?, ?)",
            (uuid.uuid4().bytes, now, now + 600_000),
        )
        database.commit()
        database.close()
        times = unlocks(server, 2)
    bench.figure("unlock_behind_10000_dead_tickets", times[0], "ms")


def measure(bench, arguments):
    parts = {
        "herd": lambda: measure_herd(bench),
        "long": lambda: measure_long(bench, arguments.rounds),
        "dead": lambda: measure_dead(bench),
    }
    for name, part in parts.items():
        if arguments.only in (None, name):
            part()
