#!/usr/bin/env python3
"""What waiting costs: many waiters on one lock, in the server's line and by the polling of seed 002, side by side.

    DOCLOCK_BINARY=target/release/doclock python clients/python/benches/waiting.py --waiters 100 --seconds 60

Needs the client installed. Prints one JSON line per figure: {"name", "value", "unit"}. Requests are counted as they
are sent; the server's own count comes last, for all of both kinds. Both kinds wait at the same time, on locks of their own, for the same seconds;
then each lock is released a few times, and the time until the next waiter has it is taken.
"""

import argparse
import asyncio
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import urllib.request

from doclock import AsyncLockManager, ServerBackend


def figure(name, value, unit):
    print(json.dumps({"name": name, "value": round(value, 3), "unit": unit}), flush=True)


class Server:
    def __init__(self, folder):
        binary = os.path.abspath(os.environ["DOCLOCK_BINARY"])
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DOCLOCK_")}
        database = f"sqlite://{folder}/doclock.db"
        with open(pathlib.Path(folder) / "server.log", "w") as log:
            self._process = subprocess.Popen(
                [binary, "--listen", "127.0.0.1:0", "--database", database],
                env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self.url = self._process.stdout.readline().split()[-1]
        command = [binary, "token", "--database", database, "--sub", "bench", "--role", "editor"]
        self.token = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    def stop(self):
        self._process.terminate()
        self._process.wait()


class Counted(ServerBackend):
    """Counts what it sends. A long poll that is still open counts when it is sent."""

    def __init__(self, url, token, *, line):
        super().__init__(url, token)
        self._line = line
        self.locks_asked = 0

    def has_line(self):
        return self._line and super().has_line()

    async def lock(self, request):
        self.locks_asked += 1
        return await super().lock(request)


def answered_posts(url):
    """POSTs to lock that the server has answered: its own count, to hold ours against."""
    with urllib.request.urlopen(url + "/metrics") as metrics:
        lines = metrics.read().decode().splitlines()
    posts = [line for line in lines if line.startswith("doclock_http_requests_total{") and 'method="POST"' in line]
    return sum(int(line.rsplit(" ", 1)[1]) for line in posts if '/lock"' in line)


async def wait_and_pass_on(manager, granted):
    async with manager.lock(timeout=3600) as held:
        granted.put_nowait((time.perf_counter(), held))
        await asyncio.Event().wait()


async def measure(kind, backend, arguments):
    manager = AsyncLockManager(f"bench/{kind}", backend=backend)
    granted = asyncio.Queue()
    held = await manager.await_lock()
    waiters = [asyncio.create_task(wait_and_pass_on(manager, granted)) for _ in range(arguments.waiters)]
    await asyncio.sleep(arguments.seconds)
    requests = backend.locks_asked - 1
    figure(f"{kind}: requests", requests / arguments.seconds, "1/s")
    if kind == "line" and not backend.has_line():
        print("this server has no waiting line: both kinds have polled", flush=True)
    delays = []
    for _ in range(arguments.releases):
        released = time.perf_counter()
        await held.release()
        moment, held = await granted.get()
        delays.append((moment - released) * 1000)
    figure(f"{kind}: from a release to the next holder, median", statistics.median(delays), "ms")
    figure(f"{kind}: from a release to the next holder, longest", max(delays), "ms")
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)
    return requests


async def main(server, arguments):
    line, polling = await asyncio.gather(
        measure("line", Counted(server.url, server.token, line=True), arguments),
        measure("polling", Counted(server.url, server.token, line=False), arguments),
    )
    figure("polling / line, requests while waiting", polling / line, "times")
    figure("server: POSTs answered in all", answered_posts(server.url), "requests")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waiters", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--releases", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        try:
            asyncio.run(main(server, options))
        finally:
            server.stop()
