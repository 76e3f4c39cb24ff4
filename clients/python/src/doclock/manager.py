"""`LockManager`: one thing at a time, whichever process or machine asks."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from . import backends, renewer
from .acquiring import Wish, acquire
from .backend import Backend
from .errors import DoclockError, LockNotHeld
from .held import HeldLock, _Held
from .lease import Lease, log
from .place import Place
from .repeating import delays
from .server import Token

H = TypeVar("H", bound=_Held)


class _Manager:
    """What the managers of threads and of asyncio have in common."""

    def __init__(
        self,
        name: str,
        parallelism: int = 1,
        *,
        ttl: int = 30,
        backend: Backend | str | None = None,
        url: str | None = None,
        token: Token | None = None,
        metadata: Mapping[str, Any] | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        _check_whole("parallelism", parallelism, 1, 1000)
        _check_whole("ttl", ttl, 1, 86_400)
        self.name = name
        self.parallelism = parallelism
        self._wish = Wish(Place.of(name), ttl, parallelism, metadata)
        self._backend = backend
        self._url = url
        self._token = token
        self._uniform = uniform
        self._set_up()

    def _set_up(self) -> None:
        raise NotImplementedError

    async def _acquire(self, held: Callable[[Lease, int], H], timeout: float, initial: float, longest: float) -> H:
        backend = backends.choose(self._backend, self._url, self._token)
        polls = delays(initial, longest, self._uniform)
        return held(await acquire(backend, self._wish, timeout, polls, longest), self.parallelism)

    def _nothing_to_release(self) -> LockNotHeld:
        return LockNotHeld(f"Nothing is held here by await_lock() of {self.name!r}.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, parallelism={self.parallelism})"


def _check_whole(what: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{what} must be a whole number from {least} to {most}, not {value!r}.")


def check_waiting(timeout: float, initial_delay: float, max_delay: float) -> None:
    if not (math.isfinite(timeout) and timeout >= 0):
        raise ValueError(f"timeout must be a number of seconds, 0 or more, not {timeout!r}.")
    for what, value in (("initial_delay", initial_delay), ("max_delay", max_delay)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{what} must be a number of seconds above 0, not {value!r}.")


class LockManager(_Manager):
    """A lock by name, held by at most `parallelism` at once among all who use the same server.

        with LockManager("token-refresh").lock(timeout=30) as lock:
            ...                             # alone
            lock.ensure_held()              # raises LockLost if that is not so any more
            save(fencing_token=lock.fencing_token)

    The server is named by `url` and `token`, or by DOCLOCK_URL and DOCLOCK_TOKEN. A manager may be shared by threads and
    made before a fork. `ttl` is how many seconds a lock outlives its holder when that dies or is cut off; while the
    holder lives, heartbeats go out by themselves.
    """

    def _set_up(self) -> None:
        # A thread that ends drops, and so releases, what it has taken and not released.
        self._of_thread = threading.local()

    def await_lock(self, timeout: float = 600, initial_delay: float = 1.0, max_delay: float = 30.0) -> HeldLock:
        """Waits for the lock and takes it. Raises `LockTimeout`, a `TimeoutError`, if it is not granted in time.

        Waits in the server's line, first come first served; `initial_delay` and `max_delay` are the pauses between
        attempts where there is no line. Every call must be followed by `release_lock()` in the same thread, or
        `release()` of the lock it returned in any.
        """
        held = self._take(timeout, initial_delay, max_delay)
        self._taken().append(held)
        return held

    def release_lock(self, raise_exception: bool = False) -> None:
        """Releases what this thread's last `await_lock()` took.

        Problems are logged, and raised only with `raise_exception`: `LockNotHeld` if nothing is held here, `LockLost`
        if it was lost before, another `DoclockError` if the server could not be told.
        """
        taken = self._taken()
        try:
            if not taken:
                raise self._nothing_to_release()
            taken.pop().release()
        except DoclockError as error:
            if raise_exception:
                raise
            log.warning("%s", error)

    def lock(self, timeout: float = 600, initial_delay: float = 1.0, max_delay: float = 30.0) -> LockGuard:
        """For `with`: waits as `await_lock` does, releases at the end, on errors too. Nothing happens before `with`."""
        return LockGuard(self, timeout, initial_delay, max_delay)

    def _take(self, timeout: float, initial_delay: float, max_delay: float) -> HeldLock:
        check_waiting(timeout, initial_delay, max_delay)
        future = renewer.submit(self._acquire(HeldLock, timeout, initial_delay, max_delay))
        try:
            return future.result()
        except BaseException:
            # Such as KeyboardInterrupt or a task's time limit, raised into the wait.
            future.cancel()
            raise

    def _taken(self) -> list[HeldLock]:
        held: list[HeldLock] = getattr(self._of_thread, "held", [])
        # After a fork the copy of what the parent holds is not ours to release.
        held = [lock for lock in held if lock._lease.is_ours]
        self._of_thread.held = held
        return held


class LockGuard:
    def __init__(self, manager: LockManager, timeout: float, initial_delay: float, max_delay: float) -> None:
        self._manager = manager
        self._waiting = (timeout, initial_delay, max_delay)
        self._held: list[HeldLock] = []

    def __enter__(self) -> HeldLock:
        held = self._manager._take(*self._waiting)
        self._held.append(held)
        return held

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._held.pop().release()
        except DoclockError as problem:
            # Raised, it would stand in the place of the body's own error.
            log.warning("%s", problem)
