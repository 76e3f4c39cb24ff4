"""Which backend a manager uses."""

from __future__ import annotations

import os

from .backend import Backend
from .errors import NotConfigured
from .memory import MemoryBackend
from .server import ServerBackend, Token

_memory = MemoryBackend()
#: One per address and token, so that all managers of a process share its connections. Tokens come and go: the oldest is
#: forgotten when there are too many, and lives on in the locks that were taken by it.
MOST_SERVERS = 64
_servers: dict[tuple[str, Token], ServerBackend] = {}
#: What `doclock.testing` has put in the place of all others.
_replacement: Backend | None = None


def choose(backend: Backend | str | None, url: str | None, token: Token | None) -> Backend:
    """Decided at every use and not when a manager is made: managers are often made as modules are imported."""
    if backend is not None and not isinstance(backend, str):
        return backend
    if _replacement is not None:
        return _replacement
    if backend not in (None, "server", "memory"):
        raise NotConfigured(f"There are the backends 'server' and 'memory', and none named {backend!r}.")
    url = url or os.environ.get("DOCLOCK_URL")
    if backend == "memory" or (backend is None and url is not None and url.rstrip("/") in ("memory:", "memory")):
        return _memory
    if not url:
        raise NotConfigured("Set DOCLOCK_URL to the address of the doclock server, or to memory:// for this process alone.")
    token = token or os.environ.get("DOCLOCK_TOKEN")
    if not token:
        raise NotConfigured("Set DOCLOCK_TOKEN to a token with the role editor. `doclock token` prints one.")
    known = _servers.get((url, token))
    if known is None:
        known = _servers[url, token] = ServerBackend(url, token)
        if len(_servers) > MOST_SERVERS:
            _servers.pop(next(iter(_servers)), None)
    return known


def replace(backend: Backend | None) -> Backend | None:
    """For `doclock.testing`. Returns what was there before."""
    global _replacement
    before, _replacement = _replacement, backend
    return before
