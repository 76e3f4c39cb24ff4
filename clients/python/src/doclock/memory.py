"""The backend within this process: for tests, and for programs that are alone on one machine.

It behaves as the server does: fencing tokens, expiry, a fair line, semaphores, repeated requests. A forked child starts
with an empty table: what its parent holds is not held in the child's process.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .backend import Grant, LockRequest
from .clock import Clock, SystemClock
from .errors import DoclockError, LockLost, Refused
from .place import Place
from .repeating import TimeUp, within

V = TypeVar("V")

#: How many ended locks and answered requests are remembered.
MEMORY = 10_000
#: How long a waiter keeps its place in line between two calls.
PLACE_SECONDS = 15.0


@dataclass
class _Lock:
    lease_id: str
    session_id: str
    fencing_token: int
    ttl_seconds: int
    expires_at: float
    end: str | None = None


@dataclass
class _Ticket:
    request: LockRequest
    #: Where the waiting call listens; None between two calls of a waiter, who then keeps its place but is passed over.
    granted: asyncio.Future[_Lock] | None = None
    kept_until: float = 0.0


@dataclass
class _Document:
    last_token: int = 0
    capacity: int = 1
    locks: list[_Lock] = field(default_factory=list)
    line: deque[_Ticket] = field(default_factory=deque)


class _Recent(OrderedDict[str, V], Generic[V]):
    def __setitem__(self, key: str, value: V) -> None:
        super().__setitem__(key, value)
        while len(self) > MEMORY:
            self.popitem(last=False)


class _Table:
    def __init__(self) -> None:
        self.documents: dict[Place, _Document] = {}
        self.leases: _Recent[_Lock] = _Recent()
        self.requests: _Recent[_Lock] = _Recent()
        self.unlocks: _Recent[bool] = _Recent()


class MemoryBackend:
    """With `line=False` it makes callers poll, as a server without a waiting line does."""

    request_timeout = 10.0
    release_timeout = 5.0

    def __init__(self, clock: Clock | None = None, *, line: bool = True) -> None:
        self._clock = clock or SystemClock()
        self._line = line
        self._table = _Table()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def clock(self) -> Clock:
        return self._clock

    def has_line(self) -> bool:
        return self._line

    async def lock(self, request: LockRequest) -> Grant:
        document = self._document(request.place)
        table = self._table
        if (known := table.requests.get(request.request_id)) is not None:
            if known.end is not None:
                raise _ended(known)
            return self._grant(known)
        if document.capacity != request.capacity:
            if document.locks or document.line:
                detail = f"Up to {document.capacity} may hold it at once, not {request.capacity}."
                raise Refused(detail, code="CAPACITY_MISMATCH", status=409)
            document.capacity = request.capacity
        if not any(ticket.granted for ticket in document.line) and len(document.locks) < document.capacity:
            return self._grant(self._lock(document, request))
        if not request.wait_ms:
            raise self._held(document)
        return self._grant(await self._wait(document, request))

    async def extend(self, place: Place, lease_id: str) -> Grant:
        self._document(place)
        lock = self._table.leases.get(lease_id)
        if lock is None:
            raise LockLost("There is no such lock.", code="LOCK_NOT_FOUND", status=404)
        if lock.end is not None:
            raise _ended(lock)
        lock.expires_at = self._clock.now() + lock.ttl_seconds
        return self._grant(lock)

    async def unlock(
        self, place: Place, request_id: str, *, lease_id: str | None = None, session_id: str | None = None
    ) -> None:
        document = self._document(place)
        if request_id in self._table.unlocks:
            return
        for lock in document.locks:
            if lock.lease_id == lease_id or (lease_id is None and lock.session_id == session_id):
                self._end(document, lock, "LEASE_RELEASED")
                self._table.unlocks[request_id] = True
                return
        if lease_id is not None and (past := self._table.leases.get(lease_id)) is not None:
            raise _ended(past)
        raise LockLost("There is no such lock.", code="LOCK_NOT_FOUND", status=404)

    # The table:

    def _document(self, place: Place) -> _Document:
        """The document as of now, overdue locks ended."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._table = loop, _Table()
        document = self._table.documents.setdefault(place, _Document())
        self._expire(document)
        return document

    def _expire(self, document: _Document) -> None:
        now = self._clock.now()
        for ticket in [ticket for ticket in document.line if ticket.granted is None and now >= ticket.kept_until]:
            document.line.remove(ticket)
        for lock in [lock for lock in document.locks if now >= lock.expires_at]:
            self._end(document, lock, "LEASE_EXPIRED")

    def _lock(self, document: _Document, request: LockRequest) -> _Lock:
        document.last_token += 1
        expires_at = self._clock.now() + request.ttl_seconds
        lock = _Lock(str(uuid.uuid4()), request.session_id, document.last_token, request.ttl_seconds, expires_at)
        document.locks.append(lock)
        self._table.leases[lock.lease_id] = lock
        self._table.requests[request.request_id] = lock
        return lock

    def _end(self, document: _Document, lock: _Lock, how: str) -> None:
        document.locks.remove(lock)
        lock.end = how
        self._serve_line(document)

    def _serve_line(self, document: _Document) -> None:
        for ticket in list(document.line):
            if len(document.locks) >= document.capacity:
                return
            if ticket.granted is not None and not ticket.granted.done():
                document.line.remove(ticket)
                ticket.granted.set_result(self._lock(document, ticket.request))

    async def _wait(self, document: _Document, request: LockRequest) -> _Lock:
        ticket = next((ticket for ticket in document.line if ticket.request == request), None)
        if ticket is None:
            ticket = _Ticket(request)
            document.line.append(ticket)
        granted: asyncio.Future[_Lock] = asyncio.get_running_loop().create_future()
        ticket.granted = granted
        try:
            return await within(
                self._clock, self._watch(document, granted), self._clock.now() + request.wait_ms / 1000
            )
        except TimeUp:
            if granted.done():
                return granted.result()
            ticket.granted, ticket.kept_until = None, self._clock.now() + PLACE_SECONDS
            raise self._held(document) from None
        except BaseException:
            # The caller has hung up: it gives up its place, and a grant that it cannot have heard of.
            if ticket in document.line:
                document.line.remove(ticket)
            if granted.done() and not granted.cancelled() and granted.result().end is None:
                self._end(document, granted.result(), "LEASE_RELEASED")
            raise

    async def _watch(self, document: _Document, granted: asyncio.Future[_Lock]) -> _Lock:
        """Nobody but those who wait looks at overdue locks, so each waits for the next to end, too."""
        while not granted.done():
            first_end = min((lock.expires_at for lock in document.locks), default=self._clock.now())
            try:
                await within(self._clock, _wait_for(granted), first_end)
            except TimeUp:
                self._expire(document)
        return granted.result()

    def _grant(self, lock: _Lock) -> Grant:
        left = lock.expires_at - self._clock.now()
        return Grant(lock.lease_id, lock.fencing_token, lock.ttl_seconds, expires_in=left)

    def _held(self, document: _Document) -> DoclockError:
        problem = {"position": len(document.line)} if document.line else {}
        return Refused("Someone else holds it.", code="LOCK_HELD", status=409, retryable=True, problem=problem)


async def _wait_for(granted: asyncio.Future[_Lock]) -> None:
    await asyncio.wait({granted})


def _ended(lock: _Lock) -> LockLost:
    detail = {
        "LEASE_EXPIRED": "Your lock has expired.",
        "LEASE_RELEASED": "Your lock has been released.",
        "LEASE_REVOKED": "Your lock has been ended by someone else.",
    }
    assert lock.end is not None
    return LockLost(detail[lock.end], code=lock.end, status=409)
