"""Getting a lock: in the server's line where it has one, by polling where it has not.

1. One request, with one `request_id`, is sent until it is answered with a lock, an end, or the time is up. Repeating it is
   safe: if an answer was lost on its way, the repeat is answered with the lock that was granted.
2. LOCK_HELD after the whole wait: it keeps its place in line, so ask again at once. LOCK_HELD sooner than that, or
   without a line: pause as `delays` says.
3. Time up or cancelled while no answer had come: whatever may have been granted is unlocked by its session, which is of
   this one attempt, so that nothing of anyone else can be meant.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .backend import Backend, Grant, LockRequest
from .errors import DoclockError, LockLost, LockTimeout, ServerUnreachable
from .lease import Lease
from .place import Place
from .repeating import FIRST_REPEAT, TimeUp, delays, unlock_for, within

#: The longest wait the server allows in one request.
LONGEST_WAIT_MS = 55_000
#: We hang up this much before the server would answer: who hangs up gives up its place in line, who is answered keeps it.
HANG_UP_FIRST_MS = 1000
#: The last poll may take this long past the timeout.
LAST_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Wish:
    """What a manager asks for, every time."""

    place: Place
    ttl_seconds: int
    capacity: int
    metadata: Mapping[str, Any] | None

    def request(self, wait_ms: int) -> LockRequest:
        return LockRequest(
            place=self.place,
            request_id=str(uuid.uuid4()),
            session_id=_session_id(),
            ttl_seconds=self.ttl_seconds,
            capacity=self.capacity,
            wait_ms=wait_ms,
            metadata=self.metadata,
        )


def _session_id() -> str:
    """New for every lock: two locks of one process must not pass for one that was resumed. Says where it is from."""
    host = socket.gethostname().encode("ascii", "replace").decode()[:100]
    return f"{host}:{os.getpid()}:{uuid.uuid4().hex}"


async def acquire(backend: Backend, wish: Wish, timeout: float, polls: Iterator[float], longest: float) -> Lease:
    attempt = _Attempt(backend, wish, timeout, polls, longest)
    try:
        return await attempt.run()
    except BaseException:
        await attempt.clean_up()
        raise


def _did_nothing(error: DoclockError) -> bool:
    """Whether it is sure that this request, unlike perhaps one before it, was not granted."""
    if isinstance(error, ServerUnreachable):
        return not error.was_sent
    return error.status is not None and (error.status < 500 or error.code in ("OVERLOADED", "DRAINING"))


async def _unlock_in_doubt(backend: Backend, request: LockRequest) -> None:
    try:
        await unlock_for(request.ttl_seconds, backend, request.place, session_id=request.session_id)
    except DoclockError:
        pass  # Usually LOCK_NOT_FOUND or NOT_OWNER: nothing had been granted.


#: The event loop keeps only weak references to its tasks.
_cleaning_up: set[asyncio.Task[None]] = set()


class _Attempt:
    def __init__(
        self, backend: Backend, wish: Wish, timeout: float, polls: Iterator[float], longest: float
    ) -> None:
        self._backend = backend
        self._clock = backend.clock
        self._wish = wish
        self._timeout = timeout
        self._until = self._clock.now() + timeout
        self._polls = polls
        self._longest_repeat = longest
        self._repeats = delays(FIRST_REPEAT, longest)
        self._request = self._fresh_request()
        #: Whether the server may have granted a lock that we have not heard of.
        self._in_doubt = False

    def _fresh_request(self) -> LockRequest:
        waits = self._timeout > 0 and self._backend.has_line()
        return self._wish.request(min(LONGEST_WAIT_MS, int(self._timeout * 1000) + HANG_UP_FIRST_MS) if waits else 0)

    async def run(self) -> Lease:
        last: DoclockError | None = None
        while True:
            sent_at = self._clock.now()
            try:
                return await self._ask(sent_at)
            except TimeUp:
                raise self._time_up(last) from last
            except DoclockError as error:
                pause = self._pause_after(error, sent_at)
                if pause is None:
                    raise
                last = error
            if self._clock.now() >= self._until:
                raise self._time_up(last) from last
            await self._clock.sleep_until(min(self._clock.now() + pause, self._until))

    async def _ask(self, sent_at: float) -> Lease:
        doubt_before, self._in_doubt = self._in_doubt, True
        try:
            grant = await within(self._clock, self._backend.lock(self._request), self._limit(sent_at))
        except DoclockError as error:
            if _did_nothing(error):
                self._in_doubt = doubt_before
            raise
        grant, sent_at = await self._freshen(grant, sent_at)
        return Lease(self._backend, self._wish.place, grant, sent_at)

    def _limit(self, sent_at: float) -> float:
        if self._request.wait_ms:
            return self._until
        patience = LAST_POLL_SECONDS if self._timeout > 0 else self._backend.request_timeout
        return max(self._until, sent_at + patience)

    async def _freshen(self, grant: Grant, sent_at: float) -> tuple[Grant, float]:
        """After a long wait little or nothing is left of a deadline counted from before it: a heartbeat moves it."""
        while self._clock.now() - sent_at > grant.ttl_seconds / 3:
            sent_at = self._clock.now()
            limit = sent_at + grant.ttl_seconds / 3
            try:
                grant = await within(self._clock, self._backend.extend(self._wish.place, grant.lease_id), limit)
            except TimeUp:
                raise ServerUnreachable("The first heartbeat got no answer.") from None
        return grant, sent_at

    def _pause_after(self, error: DoclockError, sent_at: float) -> float | None:
        """Seconds until the next request, or None if there is no point in one."""
        if error.code == "LOCK_HELD":
            self._in_doubt = False
            self._repeats = delays(FIRST_REPEAT, self._longest_repeat)
            waited = self._request.wait_ms > 0 and (self._clock.now() - sent_at) * 1000 >= self._request.wait_ms * 0.9
            return 0 if waited else next(self._polls)
        if error.code == "NO_LINE":
            self._in_doubt = False
            self._request = self._fresh_request()
            return 0
        if isinstance(error, LockLost):
            # A grant whose answer was lost has ended since. Its request_id will not be granted again.
            self._in_doubt = False
            self._request = self._fresh_request()
            return next(self._repeats)
        if not error.retryable:
            return None
        return max(next(self._repeats), error.retry_after or 0)

    def _time_up(self, last: DoclockError | None) -> LockTimeout:
        why = f" {last.detail}" if last is not None else ""
        return LockTimeout(f"The lock on {self._wish.place} was not granted within {self._timeout:g} s.{why}")

    async def clean_up(self) -> None:
        if not self._in_doubt:
            return
        task = asyncio.ensure_future(_unlock_in_doubt(self._backend, self._request))
        _cleaning_up.add(task)
        task.add_done_callback(_cleaning_up.discard)
        # Usually done by then. While the server is away it goes on behind the caller's back.
        await asyncio.wait({task}, timeout=1.0)
