"""Where a lock is: a document in a room."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

#: The room of names that name none.
DEFAULT_ROOM = "locks"


@dataclass(frozen=True)
class Place:
    room: str
    document: str

    @classmethod
    def of(cls, name: str) -> Place:
        """`"refresh"` is document `refresh` of room `locks`; `"minutes/intro"` is document `intro` of room `minutes`."""
        room, slash, document = name.partition("/")
        if not slash:
            room, document = DEFAULT_ROOM, name
        for what, part in (("room", room), ("document", document)):
            check_name(part, f"The {what} of the lock name {name!r}")
        return cls(room, document)

    @property
    def path(self) -> str:
        return f"/api/documents/{quote(self.room, safe='')}/{quote(self.document, safe='')}/lock"

    def __str__(self) -> str:
        return self.document if self.room == DEFAULT_ROOM else f"{self.room}/{self.document}"


def check_name(part: str, subject: str) -> None:
    """Raises ValueError for a name that the server would refuse, so that the mistake shows where it was made."""
    size = len(part.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= 200:
        raise ValueError(f"{subject} must have 1 to 200 bytes of UTF-8; it has {size}.")
    if part in (".", ".."):
        raise ValueError(f"{subject} must not be '.' or '..'.")
    if any(ord(letter) < 32 or 127 <= ord(letter) < 160 or 0xD800 <= ord(letter) < 0xE000 for letter in part):
        raise ValueError(f"{subject} must be valid text without control characters.")
