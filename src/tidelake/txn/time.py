"""The times that name instants."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from tidelake.config import TableConfig
from tidelake.env import Clock
from tidelake.errors import UnsupportedTableError
from tidelake.formats.instant_name import LAYOUT_1
from tidelake.timeline import Timeline

_DIGITS = 17
_FIRST = "00000000000000000"


class InstantTimes:
    """A source of times of one timeline, each greater than all before it.

    They follow the clock, but a clock that stands behind the timeline does not go back: whatever
    compares two instants compares these texts. Times of one writer are told apart here; telling
    those of two writers apart takes a lock around `next` and the file that publishes it.
    """

    def __init__(self, clock: Clock, config: TableConfig, timeline: Timeline) -> None:
        self._clock = clock
        self._utc = config.timeline_timezone_utc
        self._last = _high_water(config, timeline)

    def next(self) -> str:
        """Return a time that nothing on the timeline has reached."""
        now = self.at(self._clock.now_ms())
        self._last = now if now > self._last else _successor(self._last)
        return self._last

    def at(self, epoch_ms: int) -> str:
        """Return a moment in the digits of the timeline."""
        moment = datetime.fromtimestamp(epoch_ms // 1000, timezone.utc)
        if not self._utc:
            moment = moment.astimezone()  # what Hudi calls LOCAL: the zone of the process
        return f"{moment:%Y%m%d%H%M%S}{epoch_ms % 1000:03d}"


def _high_water(config: TableConfig, timeline: Timeline) -> str:
    times = [i.requested_time for i in timeline.instants]
    if config.layout_version != LAYOUT_1:
        # Layout 1 has completion times in UTC whatever the zone of the names is.
        times += [i.completion_time for i in timeline.completed if i.completion_time]
    return max((_padded(time) for time in times), default=_FIRST)


def _padded(time: str) -> str:
    """Return the last moment of a time of any precision: older tables count seconds."""
    return time[:_DIGITS].ljust(_DIGITS, "9")


def _successor(time: str) -> str:
    try:
        moment = datetime.strptime(time[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
        later = moment + timedelta(milliseconds=int(time[14:]) + 1)
    except (ValueError, OverflowError) as cause:
        raise UnsupportedTableError(
            f"the timeline has an instant at {time}, which is in the future and is no time",
            next_step="`tidelake timeline TABLE` shows it; writing goes on once it is removed",
        ) from cause
    return f"{later:%Y%m%d%H%M%S}{later.microsecond // 1000:03d}"
