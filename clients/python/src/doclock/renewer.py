"""The one background thread of this process: all talk with servers happens on its event loop.

It is started by the first call that needs it, in the process that makes that call. After a fork the child has no such
thread (threads are not copied), so the child forgets the parent's and starts its own when it needs one. Everything tied
to an event loop (HTTP connections, the memory backend's table) is made anew per loop by whoever owns it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import selectors
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Renewer:
    def __init__(self) -> None:
        # epoll would be shared with forked children, who could then unregister the parent's sockets. poll is not.
        self._loop = asyncio.SelectorEventLoop(selectors.PollSelector() if hasattr(selectors, "PollSelector") else None)
        # A daemon, so that a lock never released does not keep the process from ending.
        threading.Thread(target=self._run, name="doclock-renewer", daemon=True).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)


# Reentrant because a lock may be dropped, and so submitted, by the garbage collector while this is held.
_starting = threading.RLock()
_current: Renewer | None = None
# Parents' renewers are kept, unused: closing the copy of a loop is not worth the risk.
_inherited: list[Renewer] = []


def submit(work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Runs `work` on the renewer of this process. Cancelling the future cancels the work."""
    global _current
    with _starting:
        if _current is None:
            _current = Renewer()
        renewer = _current
    return renewer.submit(work)


def is_running() -> bool:
    return _current is not None


def _forget_the_parent() -> None:
    global _current, _starting
    # Another thread of the parent may have held it at the fork, and will never let go of this copy.
    _starting = threading.RLock()
    if _current is not None:
        _inherited.append(_current)
        _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_the_parent)
