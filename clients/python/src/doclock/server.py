"""The backend that asks a doclock server, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from .backend import Grant, LockRequest
from .clock import Clock, SystemClock
from .errors import DoclockError, NotConfigured, Refused, ServerUnreachable, from_problem
from .place import Place

Token = str | Callable[[], str]


class ServerBackend:
    """`token` may be a function: it is called for every request, so that it can renew what expires."""

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        request_timeout: float = 10.0,
        release_timeout: float = 5.0,
        clock: Clock | None = None,
        transport: Callable[[], httpx.AsyncBaseTransport] | None = None,
    ) -> None:
        address = httpx.URL(url)
        if address.scheme not in ("http", "https") or not address.host:
            raise NotConfigured(f"The server's address must be like https://host:port, not {url!r}.")
        self._url = str(address).rstrip("/")
        self._token = token
        self._request_timeout = request_timeout
        self._release_timeout = release_timeout
        self._clock = clock or SystemClock()
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_line = True

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def request_timeout(self) -> float:
        return self._request_timeout

    @property
    def release_timeout(self) -> float:
        return self._release_timeout

    def has_line(self) -> bool:
        return self._has_line

    async def lock(self, request: LockRequest) -> Grant:
        body: dict[str, Any] = {
            "request_id": request.request_id,
            "session_id": request.session_id,
            "ttl_seconds": request.ttl_seconds,
            "capacity": request.capacity,
        }
        if request.wait_ms:
            body["wait_ms"] = request.wait_ms
        if request.metadata is not None:
            body["metadata"] = dict(request.metadata)
        try:
            return _grant(await self._call("POST", request.place, body, wait=request.wait_ms / 1000))
        except Refused as error:
            if error.code == "UNKNOWN_FIELD" and error.problem.get("field") == "wait_ms":
                self._has_line = False
                raise Refused("This server has no waiting line.", code="NO_LINE", status=error.status) from None
            raise

    async def extend(self, place: Place, lease_id: str) -> Grant:
        return _grant(await self._call("PUT", place, {"lease_id": lease_id}))

    async def unlock(
        self, place: Place, request_id: str, *, lease_id: str | None = None, session_id: str | None = None
    ) -> None:
        body = {"request_id": request_id, "lease_id": lease_id, "session_id": session_id}
        await self._call("DELETE", place, {name: value for name, value in body.items() if value is not None})

    async def _call(self, method: str, place: Place, body: Mapping[str, Any], wait: float = 0) -> Mapping[str, Any]:
        limits = httpx.Timeout(self._request_timeout + wait, connect=self._request_timeout)
        headers = {"authorization": f"Bearer {await self._current_token()}"}
        try:
            response = await self._http().request(
                method, self._url + place.path, json=body, headers=headers, timeout=limits
            )
        except httpx.TransportError as error:
            was_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            detail = f"{self._url} did not answer: {str(error) or type(error).__name__}"
            raise ServerUnreachable(detail, was_sent=was_sent) from error
        return _read(response)

    async def _current_token(self) -> str:
        # A function may go to the network for it, and must not hold up the heartbeats of other locks.
        token = self._token if isinstance(self._token, str) else await asyncio.to_thread(self._token)
        token = token.strip()  # files and environments like to end in a newline
        if not token or not token.isascii() or not token.isprintable():
            raise NotConfigured("The token is empty, or has characters that no token has.")
        return token

    def _http(self) -> httpx.AsyncClient:
        # A forked child has another loop, and must not write into its parent's connections.
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            # Every waiter keeps a connection busy, and heartbeats must not have to queue behind them.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
            transport = self._transport() if self._transport is not None else None
            self._client = httpx.AsyncClient(limits=limits, transport=transport)
            self._loop = loop
        return self._client


def _read(response: httpx.Response) -> Mapping[str, Any]:
    try:
        body = response.json()
    except ValueError:
        body = None
    fields: Mapping[str, Any] = body if isinstance(body, dict) else {}
    if response.status_code != 200:
        raise from_problem(response.status_code, fields)
    return fields


def _grant(answer: Mapping[str, Any]) -> Grant:
    try:
        return Grant(
            lease_id=str(answer["lease_id"]),
            fencing_token=int(answer["fencing_token"]),
            ttl_seconds=int(answer["ttl_seconds"]),
            expires_in=answer["expires_in_ms"] / 1000,
        )
    except (KeyError, TypeError, ValueError):
        detail = "The answer is not one of a doclock server. Is the address right?"
        raise DoclockError(detail, code="NOT_DOCLOCK", status=200) from None
