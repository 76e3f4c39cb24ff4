"""Locks between processes and machines, kept by a doclock server.

    from doclock import LockManager

    with LockManager("token-refresh").lock(timeout=30) as lock:
        ...

`LockManager` is for threads and processes, `AsyncLockManager` for asyncio. `doclock.testing` has locks within the process
with a clock that tests move; `doclock.django` a model whose saves cannot overwrite a later holder's.
"""

from .aio import AsyncLockGuard, AsyncLockManager
from .errors import (
    DoclockError,
    Forbidden,
    LockLost,
    LockNotHeld,
    LockTimeout,
    NotConfigured,
    Refused,
    ServerUnreachable,
    StaleToken,
    Unauthorized,
)
from .held import AsyncHeldLock, AsyncLostEvent, HeldLock, LostEvent
from .manager import LockGuard, LockManager
from .memory import MemoryBackend
from .server import ServerBackend

__all__ = [
    "AsyncHeldLock",
    "AsyncLockGuard",
    "AsyncLockManager",
    "AsyncLostEvent",
    "DoclockError",
    "Forbidden",
    "HeldLock",
    "LockGuard",
    "LockLost",
    "LockManager",
    "LockNotHeld",
    "LockTimeout",
    "LostEvent",
    "MemoryBackend",
    "NotConfigured",
    "Refused",
    "ServerBackend",
    "ServerUnreachable",
    "StaleToken",
    "Unauthorized",
]
