"""What a backend does: it answers three calls. All policy (waiting, renewing, repeating) is on this side of it.

A backend is only ever called on the event loop of this process's renewer thread, so it needs no locks. It raises
`DoclockError`s: `retryable` ones are repeated by the caller with the same `request_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .clock import Clock
from .place import Place


@dataclass(frozen=True)
class LockRequest:
    """Stays the same, byte for byte, however often it is repeated: the server remembers it by its `request_id`."""

    place: Place
    request_id: str
    session_id: str
    ttl_seconds: int
    capacity: int
    #: How long the server may let it wait in line; 0 asks for an answer at once.
    wait_ms: int
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Grant:
    """A lock as the server describes it. `expires_in` counts from when the answer was made."""

    lease_id: str
    fencing_token: int
    ttl_seconds: int
    expires_in: float


class Backend(Protocol):
    @property
    def clock(self) -> Clock: ...

    @property
    def request_timeout(self) -> float:
        """Seconds that one request may take, beyond what it waits in line."""
        ...

    @property
    def release_timeout(self) -> float:
        """Seconds that a release is repeated while there is no answer. After that the lock lives out its ttl."""
        ...

    async def lock(self, request: LockRequest) -> Grant:
        """Raises `Refused` with code LOCK_HELD if someone else has it and the wait is over."""
        ...

    async def extend(self, place: Place, lease_id: str) -> Grant: ...

    async def unlock(
        self, place: Place, request_id: str, *, lease_id: str | None = None, session_id: str | None = None
    ) -> None:
        """Ends the lock with this lease or, where no lease is known, of this session."""
        ...

    def has_line(self) -> bool:
        """Whether `wait_ms` is understood. A backend that learns it is not raises `Refused` with code NO_LINE once."""
        ...
