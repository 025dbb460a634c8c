"""The one door to the outside world: storage, clock and ids."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Protocol

from tidelake.storage import Storage

#: The empty file that is written to learn the storage's time; Apache Hudi reads no such file.
CLOCK_PROBE = ".hoodie/.aux/tidelake_clock"


class Clock(Protocol):
    """What time it is, and a way to wait."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""

    def sleep_ms(self, delay_ms: int) -> None:
        """Wait."""


class Ids(Protocol):
    """A source of names that nobody else takes."""

    def new(self) -> str:
        """Return a name in the form of a UUID."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def sleep_ms(self, delay_ms: int) -> None:
        """Wait."""
        time.sleep(delay_ms / 1000)  # noqa: TID251 - this is the clock that others take


class RandomIds:
    """Random UUIDs."""

    def new(self) -> str:
        """Return a random UUID."""
        return str(uuid.uuid4())  # noqa: TID251 - this is the source that others take


class Ticker(Protocol):
    """A way to have something done again and again, while other work goes on."""

    def every(self, interval_ms: int, act: Callable[[], None]) -> Callable[[], None]:
        """Call `act` every `interval_ms` until the function that is returned is called."""


class ThreadTicker:
    """Threads of this process; a call that hangs does not keep the next one from being made."""

    def every(self, interval_ms: int, act: Callable[[], None]) -> Callable[[], None]:
        """Call `act` every `interval_ms` until the function that is returned is called."""
        stop = Event()

        def repeat() -> None:
            while not stop.wait(interval_ms / 1000):
                Thread(target=act, daemon=True).start()

        Thread(target=repeat, daemon=True).start()
        return stop.set


@dataclass(frozen=True, slots=True)
class Env:
    """What everything above storage is given to work with."""

    storage: Storage
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=RandomIds)
    ticker: Ticker = field(default_factory=ThreadTicker)

    def storage_now_ms(self) -> int:
        """Return the time by the clock that stamps files, whatever this machine's clock says.

        The age of a file is told by it alone: the modification time of a file that is written now
        is compared with that of the other. It costs two calls to the storage.
        """
        return stamped_now_ms(self.storage, CLOCK_PROBE, self.clock)


def stamped_now_ms(storage: Storage, probe: str, clock: Clock) -> int:
    """Return the time that a storage stamps on a file that is written now, to `probe`."""
    storage.put(probe, b"")
    found = storage.stat(probe)
    return clock.now_ms() if found is None else found.modified_ms
