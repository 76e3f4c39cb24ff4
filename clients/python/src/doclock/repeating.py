"""Time limits and repeats that every call shares."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from .backend import Backend
from .clock import Clock, SystemClock
from .errors import DoclockError, ServerUnreachable
from .place import Place

T = TypeVar("T")

#: After a failure the first repeat comes soon: often only the answer was lost.
FIRST_REPEAT = 0.1


class TimeUp(Exception):
    """A request was given up: the limit came before its answer."""


def delays(initial: float, longest: float, uniform: Callable[[float, float], float] = random.uniform) -> Iterator[float]:
    """The pauses between polls: each half as long again as the one before, and scattered so that waiters spread out."""
    delay = initial
    while True:
        yield min(delay * uniform(0.5, 1.5), longest)
        delay = min(delay * 1.5, longest)


async def within(clock: Clock, work: Coroutine[Any, Any, T], limit: float) -> T:
    """The result of `work`, or `TimeUp` once the clock has reached `limit`; then `work` has been cancelled and has ended."""
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep_until(limit))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeUp
    finally:
        timer.cancel()
        task.cancel()
        await asyncio.gather(task, timer, return_exceptions=True)


async def unlock_for(
    seconds: float, backend: Backend, place: Place, *, lease_id: str | None = None, session_id: str | None = None
) -> None:
    """Unlocks, repeating until the server has answered; raises what went wrong last if that takes longer.

    By the machine's clock also where the backend has another: the end of a `with` must not wait for a test to move it.
    """
    clock = SystemClock()
    limit = clock.now() + seconds
    request_id = str(uuid.uuid4())
    pauses = delays(FIRST_REPEAT, 1.0)
    last: DoclockError = ServerUnreachable(f"No answer came that {place} is unlocked.")
    while True:
        try:
            unlock = backend.unlock(place, request_id, lease_id=lease_id, session_id=session_id)
            return await within(clock, unlock, limit)
        except TimeUp:
            raise last from None
        except DoclockError as error:
            if not error.retryable or clock.now() >= limit:
                raise
            last = error
        await clock.sleep_until(min(clock.now() + next(pauses), limit))
