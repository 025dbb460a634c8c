"""A lock among the threads of one process, for tables that no other process writes."""

from __future__ import annotations

import os
from threading import Lock
from typing import ClassVar

from tidelake.env import Clock
from tidelake.txn.locks.process import ThisProcess, process_name
from tidelake.txn.locks.provider import Holder, look_and_release


class InProcessLock:
    """The lock of one table in this process; it expires with the process."""

    _guard: ClassVar[Lock] = Lock()
    _held: ClassVar[dict[str, tuple[InProcessLock, int]]] = {}
    """By table who holds the lock, and since when; a forked child inherits it, and waits."""

    def __init__(self, table: str, clock: Clock) -> None:
        # A table may be reached by more than one path.
        self._table = os.path.realpath(table) if table.startswith("/") else table
        self._clock = clock
        self._process = ThisProcess()

    @property
    def place(self) -> str:
        """Return where the lock is, for messages."""
        return f"this process, for {self._table}"

    def try_acquire(self) -> bool:
        """Take the lock if it is free."""
        with self._guard:
            if self._table in self._held:
                return False
            self._process = ThisProcess()
            self._held[self._table] = (self, self._clock.now_ms())
            return True

    def still_held(self, margin_ms: int) -> bool:  # noqa: ARG002 - it never runs out
        """Return whether the lock is ours."""
        with self._guard:
            found = self._held.get(self._table)
            return found is not None and found[0] is self and not self._process.is_inherited

    def lasts(self, margin_ms: int) -> bool:
        """Return whether the lock is ours; see `LockProvider.lasts`."""
        return self.still_held(margin_ms)

    def release(self) -> None:
        """Give the lock back, unless it was taken away."""
        with self._guard:
            found = self._held.get(self._table)
            if found is not None and found[0] is self and not self._process.is_inherited:
                del self._held[self._table]

    def give_back(self) -> bool:
        """Give the lock back; return whether nobody else had it until then."""
        return look_and_release(self)

    def holder(self) -> Holder | None:
        """Return who holds the lock, or None when it is free."""
        with self._guard:
            found = self._held.get(self._table)
        return None if found is None else Holder(owner=process_name(), since_ms=found[1])

    def break_lock(self) -> Holder | None:
        """Take the lock away from whoever holds it."""
        found = self.holder()
        with self._guard:
            self._held.pop(self._table, None)
        return found
