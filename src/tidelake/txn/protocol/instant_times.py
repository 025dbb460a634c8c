"""The times that name instants."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from tidelake.config import TableConfig
from tidelake.env import Clock
from tidelake.errors import ClockAheadError, UnsupportedTableError
from tidelake.formats.instant_name import LAYOUT_1
from tidelake.model.instant_digits import instant_digits, shown_moment
from tidelake.timeline import Timeline

_log = logging.getLogger(__name__)

_DIGITS = 17
_FIRST = "00000000000000000"
#: By how much a clock may be behind the timeline before that is worth a word.
_TOLD_SKEW_MS = 200
#: The last day that has a time in digits, in any zone.
LAST_MS = 253_402_200_000_000


class InstantTimes:
    """A source of times of one timeline, each greater than all before it.

    They follow the clock, but a clock that stands behind the timeline does not go back: whatever
    compares two instants compares these texts. Times of one writer are told apart here; telling
    those of two writers apart takes a lock around a look at the timeline, `next`, and the file that
    publishes it. Writers that look at their clocks alone, as Apache Hudi's do, are kept behind by
    `max_skew_ms`: nobody else gets a time before every clock has passed it that differs by no more.
    A clock that is further behind does not hold the others up until it has caught up.
    """

    def __init__(
        self,
        clock: Clock,
        config: TableConfig,
        timeline: Timeline,
        *,
        max_skew_ms: int = 0,
        max_future_ms: int | None = None,
        fence: Callable[[], None] = lambda: None,
        lease: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the clock and what is there; `fence` raises once others may publish times, too.

        `lease` raises when that follows from this process's own clock.
        """
        self._fence = fence
        self._lease = lease
        self._clock = clock
        self._config = config
        self._max_skew_ms = max_skew_ms
        self._max_future_ms = max_future_ms
        self._last = _high_water(config, timeline)

    def ensure(self) -> None:
        """Raise `LockLostError` when others may have come in since the lock was taken.

        Ask right before a file appears that counts, in the metadata table as well, and once more
        behind it: what a process publishes there that was stopped for long, it alone takes off.
        """
        self._fence()

    def ensure_lasting(self) -> None:
        """Raise `LockLostError` when the lease has run out by this process's own clock.

        In front of files behind which `ensure` is asked, and which go again if that raises.
        """
        self._lease()

    def see(self, timeline: Timeline) -> None:
        """Take note of what others have published."""
        self._last = max(self._last, _high_water(self._config, timeline))

    def next(self) -> str:
        """Return a time that nothing on the timeline has reached.

        Raises `ClockAheadError` when that is too far in the future.
        """
        now_ms = self._clock.now_ms()
        now = self.at(now_ms)
        behind_ms = 0
        if now > self._last:
            self._last = now
        else:
            self._refuse_future(now, now_ms)
            later = _successor(self._last)
            behind_ms = _distance_ms(now, later)
            if self._last > self._latest_reading(now_ms + max(self._max_skew_ms, _TOLD_SKEW_MS)):
                _log.warning(
                    "this machine's clock says %s and is behind the timeline, which is at %s, "
                    "by %d ms",
                    now,
                    self._last,
                    behind_ms,
                )
            self._last = later
        if self._max_skew_ms:
            self._clock.sleep_ms(self._max_skew_ms + min(behind_ms, self._max_skew_ms))
        return self._last

    def refuse_future(self) -> None:
        """Raise what `next` would, before something is done that has to end with a time."""
        now_ms = self._clock.now_ms()
        now = self.at(now_ms)
        if now <= self._last:
            self._refuse_future(now, now_ms)
            _successor(self._last)

    def _refuse_future(self, now: str, now_ms: int) -> None:
        if self._max_future_ms is None:
            return
        if self._last > self._latest_reading(now_ms + self._max_future_ms):
            raise ClockAheadError(
                f"the timeline has an instant at {self._last}, and this machine's clock says {now}",
                next_step="set the clock right; if it is right, and the instant is to stay, raise "
                "hoodie.time.generator.max_future_ms",
            )

    def at(self, epoch_ms: int) -> str:
        """Return a moment in the digits of the timeline."""
        moment = datetime.fromtimestamp(epoch_ms // 1000, timezone.utc)
        if not self._config.timeline_timezone_utc:
            moment = moment.astimezone()  # what Hudi calls LOCAL: the zone of the process
        return instant_digits(moment + timedelta(milliseconds=epoch_ms % 1000))

    def _latest_reading(self, epoch_ms: int) -> str:
        """Return the greatest digits that a right clock may have shown up to this moment.

        In the hour after the end of summer time those of the hour before are greater than now's.
        """
        epoch_ms = min(epoch_ms, LAST_MS)
        shown = self.at(epoch_ms)
        if self._config.timeline_timezone_utc:
            return shown
        moment = datetime.fromtimestamp(epoch_ms // 1000, timezone.utc)
        moment += timedelta(milliseconds=epoch_ms % 1000)
        before = (moment - timedelta(days=1)).astimezone().tzinfo
        return max(shown, instant_digits(moment.astimezone(before)))


def _high_water(config: TableConfig, timeline: Timeline) -> str:
    times = [i.requested_time for i in timeline.instants]
    if config.layout_version != LAYOUT_1:
        # Layout 1 has completion times in UTC whatever the zone of the names is.
        times += [i.completion_time for i in timeline.completed if i.completion_time]
    return max((_padded(time) for time in times), default=_FIRST)


def _padded(time: str) -> str:
    """Return the last moment of a time of any precision: older tables count seconds."""
    return time[:_DIGITS].ljust(_DIGITS, "9")


def _distance_ms(earlier: str, later: str) -> int:
    return (shown_moment(later) - shown_moment(earlier)) // timedelta(milliseconds=1)


def _successor(time: str) -> str:
    try:
        later = shown_moment(time) + timedelta(milliseconds=1)
    except (ValueError, OverflowError) as cause:
        raise UnsupportedTableError(
            f"the timeline has an instant at {time}, which is in the future and is no time",
            next_step="`tidelake timeline TABLE` shows it; writing goes on once it is removed",
        ) from cause
    return instant_digits(later)
