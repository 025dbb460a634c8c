"""What a lock provider must offer, and what can be said of whoever holds a lock."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from tidelake.txn.locks.process import is_gone, shown_name

_log = logging.getLogger(__name__)


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


def log_takeover(place: str, former_owner: str) -> None:
    """Tell whose lock was taken over: a process that returns finds that it has lost it."""
    ended = "has ended" if is_gone(former_owner) else "was silent for too long"
    _log.warning(
        "the lock at %s was taken over from %s, which %s", place, shown_name(former_owner), ended
    )


def look_and_release(lock: LockProvider) -> bool:
    """Do what `give_back` does for a lock whose release does not tell whose it was."""
    is_ours = lock.still_held(0)
    if is_ours:
        lock.release()
    return is_ours


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

    def lasts(self, margin_ms: int) -> bool:
        """Return what `still_held` does as far as the holder knows without asking others.

        Whoever goes by this asks `still_held` behind what it does then. An answer that costs
        nothing, or that cannot be told by a clock alone, may be that of `still_held`.
        """

    def release(self) -> None:
        """Give the lock back, unless somebody else has it by now; end all waiting for it."""

    def give_back(self) -> bool:
        """Do what `release` does; return whether nobody else had the lock until then."""

    def holder(self) -> Holder | None:
        """Return who holds the lock, whoever that is, or None when it is free."""

    def break_lock(self) -> Holder | None:
        """Take the lock away from whoever holds it, and return who that was."""
