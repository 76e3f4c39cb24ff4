"""What can go wrong, with the server's own codes.

Act on the class or on `code`; show the text to people.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What a heartbeat or an unlock is answered when the lock it names is over.
CODES_OF_LOSS = frozenset(
    {"LEASE_EXPIRED", "LEASE_RELEASED", "LEASE_REVOKED", "LEASE_MISMATCH", "NOT_OWNER", "LOCK_NOT_FOUND"}
)


class DoclockError(Exception):
    """Base of everything this package raises.

    `code` is the server's, or one of this package's own: `UNREACHABLE`, `NOT_CONFIGURED`, `NOT_HELD`, `NOT_OURS`,
    `DEADLINE_PASSED`, `LOCK_TIMEOUT`, `NO_FENCING_TOKEN`, or `HTTP_<status>` when something between here and the server answered.
    """

    def __init__(
        self,
        detail: str,
        *,
        code: str,
        status: int | None = None,
        retryable: bool = False,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{detail} ({code})")
        self.detail = detail
        self.code = code
        self.status = status
        #: Whether the same request may succeed later, unchanged.
        self.retryable = retryable
        #: The whole answer of the server, where there was one.
        self.problem: Mapping[str, Any] = problem or {}

    @property
    def retry_after(self) -> float | None:
        """Seconds until it is worth trying again, if the server said so."""
        millis = self.problem.get("retry_after_ms")
        return millis / 1000 if isinstance(millis, int | float) else None


class LockTimeout(DoclockError, TimeoutError):
    """The lock was not granted in time. Nothing is held. `__cause__` is the last refusal or failure."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, code="LOCK_TIMEOUT", retryable=True)


class LockLost(DoclockError):
    """The lock is over, so whatever it protected must not be written any more."""


class LockNotHeld(DoclockError):
    """`release_lock(raise_exception=True)` found nothing that this thread or task has taken."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, code="NOT_HELD")


class StaleToken(DoclockError):
    """A later holder has claimed the row: this save would have overwritten its work, and was not done."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, code="STALE_TOKEN", status=409)


class ServerUnreachable(DoclockError, ConnectionError):
    """No answer came. Whether the request was done is not known; repeating it with its `request_id` is safe."""

    def __init__(self, detail: str, *, was_sent: bool = True) -> None:
        super().__init__(detail, code="UNREACHABLE", retryable=True)
        #: False if there was not even a connection, so that for sure nothing was done.
        self.was_sent = was_sent


class NotConfigured(DoclockError, ValueError):
    """The address or the token of the server is missing or makes no sense."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, code="NOT_CONFIGURED")


class Refused(DoclockError):
    """The server understood the request and said no."""


class Unauthorized(Refused):
    """401: the token is missing, not valid, expired or revoked."""


class Forbidden(Refused):
    """403: the token does not allow this."""


def from_problem(status: int, problem: Mapping[str, Any]) -> DoclockError:
    """The exception for an answer that is not a success; any body will do, a proxy may have written it."""
    code = problem.get("code")
    if not isinstance(code, str):
        detail = f"Something between here and the doclock server answered with status {status}."
        return Refused(detail, code=f"HTTP_{status}", status=status, retryable=status >= 500, problem=problem)
    kind: type[DoclockError] = Refused
    if code in CODES_OF_LOSS:
        kind = LockLost
    elif status == 401:
        kind = Unauthorized
    elif status == 403:
        kind = Forbidden
    detail = str(problem.get("detail") or problem.get("title") or "The server gave no reason.")
    retryable = problem.get("retryable") is True
    return kind(detail, code=code, status=status, retryable=retryable, problem=problem)
