"""When archived writes completed, read from as much of the history as a question needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from typing_extensions import override

from tidelake.formats.history_footer import Span, may_hold


class TimesPart(Protocol):
    """A part of the history; a range that is None may hold any time."""

    @property
    def named_span(self) -> Span | None:
        """Return the range that the part's name speaks of, which may be too narrow."""

    @property
    def requested_span(self) -> Span | None:
        """Return the earliest and the latest requested time, of services too."""

    @property
    def completed_span(self) -> Span | None:
        """Return the earliest and the latest completion time, of services too."""

    @property
    def times(self) -> Mapping[str, str]:
        """Return requested to completion times of the writes."""


class LoadedTimes:
    """A part that was read already."""

    def __init__(self, times: Mapping[str, str]) -> None:
        self.times = times
        self.requested_span: Span | None = _span(times.keys())
        self.named_span = self.requested_span
        self.completed_span: Span | None = _span(times.values())


def _span(times: Collection[str]) -> Span:
    return (min(times), max(times)) if times else ("~", "")


class ArchivedTimes(Mapping[str, str]):
    """Requested to completion times of archived writes.

    A question reads the parts of the history whose range it falls into, each once.
    """

    def __init__(self, parts: Sequence[TimesPart]) -> None:
        self._parts = parts

    @classmethod
    def of(cls, times: Mapping[str, str]) -> ArchivedTimes:
        """Return the times themselves when they are such a value, and one around them if not."""
        return times if isinstance(times, ArchivedTimes) else cls([LoadedTimes(times)])

    @override
    def __getitem__(self, requested_time: str) -> str:
        # Of an instant that is in several parts the newest record counts, as everywhere. Names tell
        # for nothing where it is, but those of upgraded tables may leave it out.
        named = [part for part in self._parts if part.named_span is not None]
        for part in reversed(named):
            if may_hold(part.named_span, requested_time, requested_time):
                found = part.times.get(requested_time)
                if found is not None:
                    return found
        for part in reversed(self._parts):
            if may_hold(part.requested_span, requested_time, requested_time):
                found = part.times.get(requested_time)
                if found is not None:
                    return found
        raise KeyError(requested_time)

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    @override
    def __len__(self) -> int:
        return len(self._all)

    def __bool__(self) -> bool:
        return any(part.times for part in self._parts)

    @property
    def oldest(self) -> str | None:
        """Return the earliest requested time, or None when nothing is archived."""
        spans = [part.requested_span for part in self._parts]
        if any(span is None for span in spans):
            return min(self._all, default=None)
        return min((span[0] for span in spans if span and span[0] <= span[1]), default=None)

    def within(self, first: str, last: str) -> Mapping[str, str]:
        """Return the times of the writes that were requested from `first` on and before `last`."""
        return {
            requested: done
            for part in self._parts
            if may_hold(part.requested_span, first, last)
            for requested, done in part.times.items()
            if first <= requested < last
        }

    def completed_after(self, time: str) -> Mapping[str, str]:
        """Return the times of the writes that completed after `time`."""
        return {
            requested: done
            for part in self._parts
            if may_hold(part.completed_span, time, "~")
            for requested, done in part.times.items()
            if done > time
        }

    def has_completed_by(self, time: str) -> bool:
        """Return whether a write completed at `time` or before."""
        return any(
            done <= time
            for part in self._parts
            if may_hold(part.completed_span, "", time)
            for done in part.times.values()
        )

    @cached_property
    def _all(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for part in self._parts:
            found.update(part.times)
        return found
