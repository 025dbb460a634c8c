"""What a lock provider must offer, and what can be said of whoever holds a lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a lock, as far as the lock itself tells.

    `until_ms` is None for a lock that never expires by itself, `since_ms` when nobody wrote it
    down. `is_gone` says that its process has ended for sure, so that the lock is free.
    """

    owner: str
    since_ms: int | None = None
    until_ms: int | None = None
    is_gone: bool = False


class LockProvider(Protocol):
    """One lock of one table, as one process sees it; nothing here waits."""

    @property
    def place(self) -> str:
        """Return where the lock is, for messages."""

    def try_acquire(self) -> bool:
        """Take the lock if it is free or has expired."""

    def still_held(self, margin_ms: int) -> bool:
        """Return whether the lock is ours for `margin_ms` more; extend it when it runs short.

        An answer that got lost on its way is looked up, never guessed.
        """

    def release(self) -> None:
        """Give the lock back, unless somebody else has it by now; end all waiting for it."""

    def holder(self) -> Holder | None:
        """Return who holds the lock, whoever that is, or None when it is free."""

    def break_lock(self) -> Holder | None:
        """Take the lock away from whoever holds it, and return who that was."""
