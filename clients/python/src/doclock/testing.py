"""Locks for the tests of programs that use doclock: within the process, on a clock that the test moves.

    from doclock.testing import fake_locks

    def test_the_job_stops_when_its_lock_is_lost():
        with fake_locks() as locks:             # every LockManager in this process uses it
            with LockManager("job").lock() as lock:
                locks.cut_off()                 # heartbeats get no answer from now on
                locks.clock.advance(31)
                assert lock.lost.is_set()
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import TypeVar

from . import backends, renewer
from .backend import Grant, LockRequest
from .errors import ServerUnreachable
from .memory import MemoryBackend
from .place import Place

T = TypeVar("T")


class FakeClock:
    """A clock that stands still until `advance` is called.

    So whoever waits for a lock that is held waits until another thread or task advances it; `timeout=0` does not wait.
    """

    #: More turns of the event loop than any chain of work between two sleeps takes.
    TURNS = 100

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start
        self._guard = threading.Lock()
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    async def sleep_until(self, moment: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        entry = (moment, woken)
        with self._guard:
            if moment <= self._now:
                return
            self._sleepers.append(entry)
        try:
            await woken
        finally:
            with self._guard:
                if entry in self._sleepers:
                    self._sleepers.remove(entry)

    def advance(self, seconds: float) -> None:
        """Moves the time ahead, stopping wherever something is due. Returns when all that came of it is done."""
        target = self._now + seconds
        self.settle()
        while (moment := self._next(target)) is not None:
            self._now = max(self._now, moment)
            renewer.submit(self._wake()).result()
            self.settle()
        self._now = max(self._now, target)

    def jump(self, seconds: float) -> None:
        """Moves the time ahead with nobody noticing, as when a process or the machine is stopped."""
        self._now += seconds

    def settle(self) -> None:
        """Returns when nothing is left to do before the time is moved."""
        renewer.submit(self._turns()).result()

    def _next(self, target: float) -> float | None:
        with self._guard:
            return min((moment for moment, _ in self._sleepers if moment <= target), default=None)

    async def _wake(self) -> None:
        with self._guard:
            for moment, woken in self._sleepers:
                if moment <= self._now and not woken.done():
                    woken.set_result(None)
            self._sleepers = [entry for entry in self._sleepers if not entry[1].done()]

    async def _turns(self) -> None:
        for _ in range(self.TURNS):
            await asyncio.sleep(0)


class FakeLocks(MemoryBackend):
    """The memory backend, with a clock to move and things to go wrong."""

    release_timeout = 0.5

    def __init__(self, clock: FakeClock | None = None, *, line: bool = True) -> None:
        self._fake_clock = clock or FakeClock()
        super().__init__(self._fake_clock, line=line)
        self._cut_off = False
        self._drops = 0

    @property
    def clock(self) -> FakeClock:
        return self._fake_clock

    def cut_off(self) -> None:
        """From now on requests do not arrive."""
        self._cut_off = True

    def reconnect(self) -> None:
        self._cut_off = False

    def drop_answers(self, count: int) -> None:
        """The next `count` requests are done, and their answers are lost."""
        self._drops = count

    def revoke(self, name: str) -> None:
        """Ends all locks of that name, as an admin can."""
        renewer.submit(self._revoke(Place.of(name))).result()

    def held(self, name: str) -> list[int]:
        """The fencing tokens of the locks that live."""
        return renewer.submit(self._held_tokens(Place.of(name))).result()

    def waiting(self, name: str) -> int:
        """How many are in line."""
        return renewer.submit(self._count_waiting(Place.of(name))).result()

    async def lock(self, request: LockRequest) -> Grant:
        self._arrive()
        return self._answer(await super().lock(request))

    async def extend(self, place: Place, lease_id: str) -> Grant:
        self._arrive()
        return self._answer(await super().extend(place, lease_id))

    async def unlock(
        self, place: Place, request_id: str, *, lease_id: str | None = None, session_id: str | None = None
    ) -> None:
        self._arrive()
        await super().unlock(place, request_id, lease_id=lease_id, session_id=session_id)
        self._answer(None)

    def _arrive(self) -> None:
        if self._cut_off:
            raise ServerUnreachable("The fake server is cut off.")

    def _answer(self, answer: T) -> T:
        if self._drops > 0:
            self._drops -= 1
            raise ServerUnreachable("The fake server's answer was dropped.")
        return answer

    async def _revoke(self, place: Place) -> None:
        document = self._document(place)
        for lock in list(document.locks):
            self._end(document, lock, "LEASE_REVOKED")

    async def _held_tokens(self, place: Place) -> list[int]:
        return [lock.fencing_token for lock in self._document(place).locks]

    async def _count_waiting(self, place: Place) -> int:
        return len(self._document(place).line)


@contextlib.contextmanager
def fake_locks(*, line: bool = True) -> Iterator[FakeLocks]:
    """All managers of this process use one fresh `FakeLocks`, except those that were given a backend object."""
    locks = FakeLocks(line=line)
    before = backends.replace(locks)
    try:
        yield locks
    finally:
        backends.replace(before)
