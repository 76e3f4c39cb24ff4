"""Many waiters of one process, on a server that keeps each of them waiting."""

import asyncio
import http.server
import json
import threading

import pytest
from helpers import Thread, until

from doclock import AsyncLockManager, LockManager, ServerBackend


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.endswith("/held/lock"):
            self.server.waiting.append(body["session_id"])
            self.server.closing.wait(60)
        self.answer()

    def do_PUT(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.answer()

    do_DELETE = do_PUT

    def answer(self):
        lock = {"lease_id": "l", "fencing_token": 1, "ttl_seconds": 1, "expires_in_ms": 1000}
        text = json.dumps(lock).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments):
        pass


class Crowded(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, address):
        pass  # waiters that hang up


@pytest.fixture
def crowded():
    server = Crowded(("127.0.0.1", 0), Handler)
    server.waiting, server.closing = [], threading.Event()
    Thread(server.serve_forever)
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()


def test_waiters_do_not_keep_heartbeats_from_going_out(crowded):
    """More of them than a usual pool has connections."""
    backend = ServerBackend(f"http://127.0.0.1:{crowded.server_port}", "token")

    async def main():
        with LockManager("mine", ttl=1, backend=backend).lock() as held:
            waiters = [asyncio.create_task(AsyncLockManager("held", backend=backend).await_lock()) for _ in range(150)]
            while len(crowded.waiting) < 150:
                await asyncio.sleep(0.01)
            for _ in range(4):
                deadline = held._lease._deadline
                until(lambda: held._lease._deadline > deadline, "a heartbeat")
            held.ensure_held()
            for waiter in waiters:
                waiter.cancel()
            await asyncio.gather(*waiters, return_exceptions=True)

    asyncio.run(asyncio.wait_for(main(), 30))
