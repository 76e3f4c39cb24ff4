"""A lock as its user sees it."""

from __future__ import annotations

import asyncio
import threading
import weakref

from . import renewer
from .lease import Lease, drop


class LostEvent:
    """Set once the lock is lost: the server said so, or no heartbeat was answered in time. Never unset."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    def is_set(self) -> bool:
        """Looks at the clock: true at the deadline, even if this process was stopped and has run for a moment only."""
        return self._lease.is_lost()

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the lock is lost or the timeout is over, and says whether it is lost."""
        told = threading.Event()
        take_back = self._lease.when_lost(told.set)
        try:
            told.wait(timeout)
        finally:
            take_back()
        return self.is_set()


class AsyncLostEvent:
    """`LostEvent` for asyncio."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    def is_set(self) -> bool:
        """As `LostEvent.is_set`."""
        return self._lease.is_lost()

    async def wait(self) -> bool:
        """Returns True once the lock is lost. Give it a limit with `asyncio.wait_for` or cancel it."""
        loop = asyncio.get_running_loop()
        told = asyncio.Event()
        take_back = self._lease.when_lost(lambda: loop.call_soon_threadsafe(told.set))
        try:
            await told.wait()
        finally:
            take_back()
        return True


class _Held:
    """Dropping the last reference to a lock that was not released releases it."""

    def __init__(self, lease: Lease, parallelism: int) -> None:
        self._lease = lease
        self.parallelism = parallelism
        weakref.finalize(self, drop, lease).atexit = False

    @property
    def name(self) -> str:
        return str(self._lease.place)

    @property
    def fencing_token(self) -> int:
        """Grows by one with every grant of this name. Storage that remembers the highest one can refuse late writes."""
        return self._lease.fencing_token

    @property
    def lease_id(self) -> str:
        return self._lease.lease_id

    def ensure_held(self) -> None:
        """Raises `LockLost` unless the lock is held now. Asks the clock, not the server, so it costs nothing."""
        reason = self._lease.over()
        if reason is not None:
            raise reason

    def __repr__(self) -> str:
        state = "over" if self._lease.over() is not None else "held"
        return f"<{type(self).__name__} {self.name!r} token={self.fencing_token} {state}>"


class HeldLock(_Held):
    def __init__(self, lease: Lease, parallelism: int) -> None:
        super().__init__(lease, parallelism)
        self.lost = LostEvent(lease)

    def release(self) -> None:
        """Unlocks; does nothing the second time. Raises `LockLost` if it was lost, or why the server was not told."""
        if not self._lease.is_ours:
            self.ensure_held()
        renewer.submit(self._lease.release()).result()


class AsyncHeldLock(_Held):
    def __init__(self, lease: Lease, parallelism: int) -> None:
        super().__init__(lease, parallelism)
        self.lost = AsyncLostEvent(lease)

    async def release(self) -> None:
        """As `HeldLock.release`. Goes on in the background if the caller is cancelled."""
        if not self._lease.is_ours:
            self.ensure_held()
        await asyncio.shield(asyncio.wrap_future(renewer.submit(self._lease.release())))
