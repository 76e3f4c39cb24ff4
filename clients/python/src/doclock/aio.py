"""`AsyncLockManager`: `LockManager` for asyncio."""

from __future__ import annotations

import asyncio
import weakref
from types import TracebackType
from typing import Any

from . import renewer
from .errors import DoclockError
from .held import AsyncHeldLock
from .lease import log
from .manager import _Manager, check_waiting


class AsyncLockManager(_Manager):
    """`LockManager` for asyncio: the same options, `async with` and `await`.

        async with AsyncLockManager("token-refresh").lock(timeout=30) as lock:
            ...

    Heartbeats go out from a thread of their own, so work that blocks the event loop does not lose the lock.
    """

    def _set_up(self) -> None:
        # A task that ends drops, and so releases, what it has taken and not released.
        self._of_task: weakref.WeakKeyDictionary[asyncio.Task[Any], list[AsyncHeldLock]] = weakref.WeakKeyDictionary()

    async def await_lock(
        self, timeout: float = 600, initial_delay: float = 1.0, max_delay: float = 30.0
    ) -> AsyncHeldLock:
        """As `LockManager.await_lock`; followed by `release_lock()` in the same task, or `release()` in any."""
        held = await self._take(timeout, initial_delay, max_delay)
        self._taken().append(held)
        return held

    async def release_lock(self, raise_exception: bool = False) -> None:
        """As `LockManager.release_lock`, for what this task's last `await_lock()` took."""
        taken = self._taken()
        try:
            if not taken:
                raise self._nothing_to_release()
            await taken.pop().release()
        except DoclockError as error:
            if raise_exception:
                raise
            log.warning("%s", error)

    def lock(self, timeout: float = 600, initial_delay: float = 1.0, max_delay: float = 30.0) -> AsyncLockGuard:
        """For `async with`: waits as `await_lock` does, releases at the end, on errors and when cancelled too."""
        return AsyncLockGuard(self, timeout, initial_delay, max_delay)

    async def _take(self, timeout: float, initial_delay: float, max_delay: float) -> AsyncHeldLock:
        check_waiting(timeout, initial_delay, max_delay)
        # Cancelling the caller cancels the wait; a lock granted in that very moment is dropped, and so released.
        work = self._acquire(AsyncHeldLock, timeout, initial_delay, max_delay)
        return await asyncio.wrap_future(renewer.submit(work))

    def _taken(self) -> list[AsyncHeldLock]:
        task = asyncio.current_task()
        assert task is not None, "await_lock() and release_lock() run in a task"
        held = self._of_task.get(task, [])
        self._of_task[task] = [lock for lock in held if lock._lease.is_ours]
        return self._of_task[task]


class AsyncLockGuard:
    def __init__(self, manager: AsyncLockManager, timeout: float, initial_delay: float, max_delay: float) -> None:
        self._manager = manager
        self._waiting = (timeout, initial_delay, max_delay)
        self._held: list[AsyncHeldLock] = []

    async def __aenter__(self) -> AsyncHeldLock:
        held = await self._manager._take(*self._waiting)
        self._held.append(held)
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._held.pop().release()
        except DoclockError as problem:
            # Raised, it would stand in the place of the body's own error.
            log.warning("%s", problem)
