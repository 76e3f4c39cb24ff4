"""A real server for the tests that need one, and backends that the same tests run on."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request
import uuid

import pytest

from doclock import LockManager, MemoryBackend, ServerBackend

sys.path.insert(0, os.path.dirname(__file__))


class Server:
    """A doclock of its own, on a fresh database."""

    def __init__(self, folder: pathlib.Path) -> None:
        binary = os.environ.get("DOCLOCK_BINARY")
        if not binary:
            raise RuntimeError("Set DOCLOCK_BINARY to the server's program, such as target/debug/doclock.")
        self._command = [binary]
        self.secret = uuid.uuid4().hex
        # The clients' own names are no settings of the server.
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("DOCLOCK_")}
        self._environment["DOCLOCK_AUTH__SECRET"] = self.secret
        self._database = f"sqlite://{folder}/doclock.db"
        with open(folder / "server.log", "w") as log:
            self._process = subprocess.Popen(
                [binary, "--listen", "127.0.0.1:0", "--database", self._database],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=self._environment,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert "listens on" in line, (folder / "server.log").read_text()
        self.url = line.split()[-1]
        self.token = self.token_for("tester", "editor")
        self.admin = self.token_for("root", "admin")

    def token_for(self, sub: str, role: str) -> str:
        command = [*self._command, "token", "--database", self._database, "--sub", sub, "--role", role]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=self._environment)
        return done.stdout.strip()

    def get(self, path: str) -> dict:
        request = urllib.request.Request(self.url + path, headers={"authorization": f"Bearer {self.admin}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def events(self, room: str) -> list[dict]:
        events, after = [], 0
        while after is not None:
            page = self.get(f"/api/admin/events?room={room}&after={after}&limit=1000")
            events += page["items"]
            after = page["next_after"]
        return events

    def backend(self, **options) -> ServerBackend:
        return ServerBackend(options.pop("url", self.url), self.token, **options)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(20)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture(params=["memory", "server"])
def backend(request):
    if request.param == "memory":
        return MemoryBackend()
    return request.getfixturevalue("server").backend()


@pytest.fixture
def name():
    """A room of this test alone, with one document."""
    return f"test-{uuid.uuid4().hex}/it"


@pytest.fixture
def manager(backend, name):
    """Makes managers of one name, which poll quickly where the server has no line."""

    def make(parallelism=1, **options):
        return LockManager(name, parallelism, backend=backend, **options)

    return make
