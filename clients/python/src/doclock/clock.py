"""The time that deadlines are counted in."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that only grow, from an arbitrary start."""

    def now(self) -> float: ...

    async def sleep_until(self, moment: float) -> None:
        """Returns once `now()` has reached `moment`."""
        ...


def _clock_that_counts_sleep() -> int | None:
    # Linux stops CLOCK_MONOTONIC while the machine is suspended, and a lock does not wait for that.
    boot_time: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    # macOS has no such clock, but there clock_gettime's CLOCK_MONOTONIC goes on in suspend (time.monotonic() does not).
    return boot_time if boot_time is not None else getattr(time, "CLOCK_MONOTONIC", None)


class SystemClock:
    """The machine's clock, suspended time included."""

    #: Timers of the event loop stand still in suspend. Looking at the clock this often bounds how late they notice.
    LONGEST_NAP = 5.0

    def __init__(self) -> None:
        self._clock_id = _clock_that_counts_sleep()

    def now(self) -> float:
        if self._clock_id is None:
            return time.monotonic()
        return time.clock_gettime(self._clock_id)

    async def sleep_until(self, moment: float) -> None:
        while (left := moment - self.now()) > 0:
            await asyncio.sleep(min(left, self.LONGEST_NAP))
