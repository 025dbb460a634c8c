"""What a heartbeat file of ours says; Apache Hudi's are empty, and its age is all that it reads."""

from __future__ import annotations

import json
from dataclasses import dataclass

from typing_extensions import Self

#: The longest silence that is taken seriously: a hundred years.
_LONGEST_MS = 100 * 366 * 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatContent:
    """The process that writes, how long it may be silent, and whether it shares the table.

    `owner` tells two attempts at one plan apart. `mode` is the concurrency mode of a write, empty
    where an older release has written the file.
    """

    writer: str
    expires_ms: int
    shares: bool = True
    owner: str = ""
    mode: str = ""

    def encode(self) -> bytes:
        """Return the content of the file."""
        said = {"writer": self.writer, "expires_ms": self.expires_ms, "shares": self.shares}
        more = {"owner": self.owner, "mode": self.mode}
        return json.dumps({**said, **{name: text for name, text in more.items() if text}}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self | None:
        """Return what the file says, or None when a program other than tidelake wrote it."""
        try:
            said = json.loads(data)
        except (ValueError, RecursionError):
            return None
        if not isinstance(said, dict):
            return None
        writer, expires_ms = said.get("writer"), said.get("expires_ms")
        shares, owner = said.get("shares", True), said.get("owner", "")
        mode = said.get("mode", "")
        if not (isinstance(writer, str) and isinstance(owner, str) and isinstance(shares, bool)):
            return None
        if not isinstance(mode, str):
            return None
        if type(expires_ms) is not int or not 0 <= expires_ms <= _LONGEST_MS:
            return None
        return cls(writer=writer, expires_ms=expires_ms, shares=shares, owner=owner, mode=mode)


def owner_of(data: bytes) -> str:
    """Return which attempt at a plan a heartbeat is of; empty when it does not say."""
    found = HeartbeatContent.decode(data)
    return "" if found is None else found.owner
