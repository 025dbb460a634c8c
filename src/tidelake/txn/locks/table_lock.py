"""The table's lock as a transaction uses it: wait for it, hold it, notice that it is gone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone

from tidelake.env import Clock
from tidelake.errors import LockLostError, LockTimeoutError, TidelakeError
from tidelake.txn.locks.provider import Holder, LockProvider

_log = logging.getLogger(__name__)
#: Waits between attempts to give a lock back, which others would wait for until it expires.
_RELEASE_DELAYS_MS = (100, 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWait:
    """How long to wait for a lock, and how often to ask."""

    wait_ms: int = 60_000
    first_delay_ms: int = 5
    longest_delay_ms: int = 1_000

    def next_delay_ms(self, attempt: int) -> int:
        """Return the pause after an attempt, counted from 0, that found the lock taken."""
        return min(self.longest_delay_ms, self.first_delay_ms << min(attempt, 20))


class TableLock:
    """One writer's hold on the table's lock; entering it again while it is held costs nothing.

    It belongs to one thread: two threads that write one table take a lock each, and exclude each
    other through the provider.
    """

    def __init__(self, provider: LockProvider, clock: Clock, wait: LockWait | None = None) -> None:
        self._provider = provider
        self._clock = clock
        self._wait = wait or LockWait()
        self._depth = 0
        self.held_ms = 0
        """How long the lock has been held in all."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; raise `LockTimeoutError`, which says who has it, when it does not come."""
        if self._depth == 0:
            self._acquire()
        began_ms = self._clock.now_ms()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self.held_ms += self._clock.now_ms() - began_ms
                self._release()

    def ensure(self, margin_ms: int = 1_000) -> None:
        """Raise `LockLostError` unless the lock is ours for `margin_ms` more.

        Asked right before a file appears that others rely on: a process that was stopped for
        longer than the lease learns here that somebody else went on.
        """
        if self._depth == 0 or not self._provider.still_held(margin_ms):
            raise self._lost()

    def ensure_lasting(self, margin_ms: int = 1_000) -> None:
        """Raise `LockLostError` when the lease, by this process's own clock, is no longer ours.

        Asked in front of a file behind which there is `ensure` or `is_held`, and which goes again
        if that fails: others than the lease's own clock are asked there.
        """
        if self._depth == 0 or not self._provider.lasts(margin_ms):
            raise self._lost()

    def _lost(self) -> LockLostError:
        return LockLostError(
            f"the lock at {self._provider.place} was lost while it was needed: {self._holder()}",
            next_step="nothing became visible; run the write again. If it happens often, let locks "
            "live longer (hoodie.write.lock.filesystem.expire, "
            "hoodie.write.lock.storage.validity.timeout.secs)",
        )

    def give_back(self, *, whole: bool = False) -> bool:
        """Give the lock back where `held` has nothing left to do but to end.

        Return whether it is sure that nobody else has had it. Inside of another `held` it is only
        looked at, unless the `whole` of that has nothing left to do either.
        """
        if self._depth != 1 and not (whole and self._depth):
            return self.is_held()
        try:
            return self._provider.give_back()
        except TidelakeError:
            return False

    def regain(self) -> None:
        """Take the lock again, inside of `held`, after somebody else may have had it."""
        self._acquire()

    @property
    def is_entered(self) -> bool:
        """Return whether this is inside of `held`, whether or not the lock is still ours."""
        return self._depth > 0

    def is_held(self) -> bool:
        """Return whether it is sure that nobody else has had the lock since it was taken."""
        try:
            return self._depth > 0 and self._provider.still_held(0)
        except TidelakeError:
            return False

    def _release(self) -> None:
        """Give the lock back; what was done under it counts, whether or not that succeeds."""
        for delay_ms in _RELEASE_DELAYS_MS:
            try:
                self._provider.release()
            except TidelakeError:
                self._clock.sleep_ms(delay_ms)
            else:
                return
        try:
            self._provider.release()
        except TidelakeError as cause:
            _log.warning(
                "the lock at %s could not be given back, and is free once it expires: %s",
                self._provider.place,
                cause.problem,
            )

    def _acquire(self) -> None:
        deadline_ms = self._clock.now_ms() + self._wait.wait_ms
        attempt = 0
        while not self._provider.try_acquire():
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                holder = self._holder()
                self._release()
                raise LockTimeoutError(
                    f"the lock at {self._provider.place} did not come free within "
                    f"{self._wait.wait_ms} ms: {holder}",
                    next_step="if its holder is alive, wait longer "
                    "(hoodie.write.lock.wait_time_ms); if it is dead, `tidelake lock release "
                    "TABLE` frees the lock before it expires",
                )
            self._clock.sleep_ms(min(left_ms, self._wait.next_delay_ms(attempt)))
            attempt += 1

    def _holder(self) -> str:
        try:
            return _shown(self._provider.holder())
        except TidelakeError as cause:
            return f"who holds it cannot be told ({cause.problem})"


def _shown(holder: Holder | None) -> str:
    if holder is None:
        return "nobody holds it now"
    if holder.is_gone:
        return f"{holder.owner} held it, and that process has ended"
    since = "" if holder.since_ms is None else f" since {_moment(holder.since_ms)}"
    until = "" if holder.until_ms is None else f", until {_moment(holder.until_ms)} at the latest"
    return f"{holder.owner} holds it{since}{until}"


def _moment(epoch_ms: int) -> str:
    moment = datetime.fromtimestamp(epoch_ms / 1000, timezone.utc)
    return moment.isoformat(sep=" ", timespec="milliseconds")
