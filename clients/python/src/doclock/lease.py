"""A lock while it is ours: until when, whether it is lost, its heartbeats, its end.

The deadline is counted from *before* the request that set it was sent, so it never comes later than the server's own.
Once a lease is lost it stays lost: code that saw `lost` must not see it unset by a late answer.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Callable

from . import renewer
from .backend import Backend, Grant
from .errors import DoclockError, LockLost
from .place import Place
from .repeating import TimeUp, unlock_for, within

log = logging.getLogger("doclock")

#: How long it tries to unlock what it has lost by its own clock and the server may think is held.
GIVE_UP_SECONDS = 0.5
#: How long the end of the process waits for the locks it still holds to be released.
EXIT_SECONDS = 2.0


class Lease:
    def __init__(self, backend: Backend, place: Place, grant: Grant, sent_at: float) -> None:
        self.backend = backend
        self.place = place
        self.lease_id = grant.lease_id
        self.fencing_token = grant.fencing_token
        self.ttl = float(grant.ttl_seconds)
        self._process = os.getpid()
        self._sent_at = sent_at
        self._deadline = sent_at + grant.expires_in
        self._over: LockLost | None = None
        self._released = False
        # Reentrant: the garbage collector may drop a lock, which releases it, at any moment.
        self._guard = threading.RLock()
        self._listeners: list[Callable[[], object]] = []
        self._renewing = asyncio.get_running_loop().create_task(self._renew())

    # From any thread:

    @property
    def is_ours(self) -> bool:
        """False in a child of the process that took it; the parent goes on holding it."""
        return os.getpid() == self._process

    def over(self) -> LockLost | None:
        """Why it is not held, judged by the clock and not by whether the renewer has had time to notice."""
        if not self.is_ours:
            detail = f"Process {self._process} took the lock on {self.place} and keeps it. This process is a fork of it."
            return LockLost(detail, code="NOT_OURS")
        with self._guard:
            if self._over is None and self.backend.clock.now() >= self._deadline:
                detail = f"No heartbeat for the lock on {self.place} was answered within its {self.ttl:g} s."
                self._lose(LockLost(detail, code="DEADLINE_PASSED"))
            return self._over

    def is_lost(self) -> bool:
        """Whether it ended by anything but our own release."""
        return self.over() is not None and not self._released

    def when_lost(self, tell: Callable[[], object]) -> Callable[[], None]:
        """Calls `tell` once, from any thread, when it is lost; at once if it is. Returns the way to take that back."""
        with self._guard:
            if self.over() is None:
                self._listeners.append(tell)
                return lambda: self._forget(tell)
        if self.is_lost():
            tell()
        return lambda: None

    def _forget(self, tell: Callable[[], object]) -> None:
        with self._guard:
            if tell in self._listeners:
                self._listeners.remove(tell)

    def _lose(self, reason: LockLost) -> None:
        with self._guard:
            if self._over is not None:
                return
            self._over = reason
            listeners, self._listeners = self._listeners, []
        log.warning("lost the lock on %s: %s", self.place, reason)
        for tell in listeners:
            tell()

    # On the renewer's loop:

    async def _renew(self) -> None:
        """Heartbeats at a third of the ttl. Whatever goes wrong with them, it tries again until the deadline."""
        _unreleased.add(self)
        try:
            await self._heartbeats()
        finally:
            _unreleased.discard(self)

    async def _heartbeats(self) -> None:
        clock = self.backend.clock
        interval = self.ttl / 3
        due = self._sent_at + interval
        while True:
            await clock.sleep_until(min(due, self._deadline))
            if self.over() is not None:
                return
            pause = min(1.0, interval / 4)
            try:
                await self._heartbeat()
                due = self._sent_at + interval
                continue
            except LockLost as reason:
                self._lose(reason)
                return
            except TimeUp:
                log.info("a heartbeat for %s got no answer and is repeated", self.place)
            except DoclockError as error:
                log.info("a heartbeat for %s failed and is repeated: %s", self.place, error)
                # A server that asks for patience gets it, but not the whole time that is left.
                pause = max(pause, min(error.retry_after or 0, (self._deadline - clock.now()) / 2))
            except Exception:
                # Such as from a function that fetches tokens. The lock must not fall because of one bad moment.
                log.exception("a heartbeat for %s failed and is repeated", self.place)
            due = clock.now() + pause

    async def _heartbeat(self) -> None:
        clock = self.backend.clock
        sent_at = clock.now()
        # A heartbeat that takes longer than this is worth less than a new one, and after the deadline nothing.
        limit = min(sent_at + self.ttl / 3, self._deadline)
        grant = await within(clock, self.backend.extend(self.place, self.lease_id), limit)
        with self._guard:
            if self.over() is None:
                self._sent_at = sent_at
                self._deadline = sent_at + grant.expires_in

    async def release(self) -> None:
        """Unlocks; does nothing the second time.

        Raises `LockLost` if it was lost before, another `DoclockError` if the server could not be told: then the lock
        lives out its ttl.
        """
        with self._guard:
            reason = self.over()
            if self._released:
                return
            if reason is None:
                self._released = True
                self._over = LockLost(f"The lock on {self.place} has been released.", code="LEASE_RELEASED")
        self._renewing.cancel()
        if reason is None:
            await self._unlock()
            return
        if reason.code == "DEADLINE_PASSED":
            await self._give_up_what_may_be_left()
        raise reason

    async def _unlock(self) -> None:
        try:
            await unlock_for(self.backend.release_timeout, self.backend, self.place, lease_id=self.lease_id)
        except LockLost as reason:
            # It had ended before, and no heartbeat had been due since then.
            self._over, self._released = reason, False
            raise

    async def _give_up_what_may_be_left(self) -> None:
        """A server that was away gives its locks more time. We have stopped, so others need not wait for that."""
        try:
            await unlock_for(GIVE_UP_SECONDS, self.backend, self.place, lease_id=self.lease_id)
        except DoclockError:
            pass


#: Leases of this process that are being renewed. Only touched on the renewer's loop.
_unreleased: set[Lease] = set()


def drop(lease: Lease) -> None:
    """Releases, without waiting for it, a lock that nobody can release any more."""
    if lease.is_ours and lease.over() is None:
        renewer.submit(release_quietly(lease))


async def release_quietly(lease: Lease) -> None:
    try:
        await lease.release()
    except DoclockError as error:
        log.warning("the lock on %s was not released: %s", lease.place, error)


async def _release_all() -> None:
    await asyncio.gather(*(release_quietly(lease) for lease in list(_unreleased) if lease.is_ours))


def _at_exit() -> None:
    if not renewer.is_running():
        return
    try:
        renewer.submit(_release_all()).result(EXIT_SECONDS)
    except Exception:
        log.warning("locks that were held at the end of the process may live out their ttl")


atexit.register(_at_exit)
