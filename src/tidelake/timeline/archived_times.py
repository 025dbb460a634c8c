"""When archived writes completed, read from as much of the history as a question needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from typing_extensions import override


class TimesPart:
    """A part of the history: the range of its requested times, and its times once asked for."""

    def __init__(
        self, span: Callable[[], tuple[str, str] | None], load: Callable[[], Mapping[str, str]]
    ) -> None:
        """Read nothing yet; a `span` of None may hold any time."""
        self._find_span = span
        self._load = load

    @classmethod
    def of(cls, times: Mapping[str, str]) -> TimesPart:
        """Return a part that is loaded already."""
        return cls(lambda: (min(times), max(times)) if times else ("~", ""), lambda: times)

    @cached_property
    def span(self) -> tuple[str, str] | None:
        """Return the earliest and the latest requested time, or None when only a look tells."""
        return self._find_span()

    @cached_property
    def times(self) -> Mapping[str, str]:
        """Return requested to completion times."""
        return self._load()

    def may_hold(self, first: str, last: str) -> bool:
        """Return whether a requested time from `first` to `last` may be in this part."""
        return self.span is None or (self.span[0] <= last and first <= self.span[1])


class ArchivedTimes(Mapping[str, str]):
    """Requested to completion times of archived writes.

    A question reads the parts of the history whose range it falls into, each once.
    """

    def __init__(self, parts: Sequence[TimesPart]) -> None:
        self._parts = parts

    @classmethod
    def of(cls, times: Mapping[str, str]) -> ArchivedTimes:
        """Return the times themselves when they are such a value, and one around them if not."""
        return times if isinstance(times, ArchivedTimes) else cls([TimesPart.of(times)])

    @override
    def __getitem__(self, requested_time: str) -> str:
        # Of an instant that is in several parts the newest record counts, as everywhere.
        for part in reversed(self._parts):
            if part.may_hold(requested_time, requested_time):
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
        spans = [part.span for part in self._parts]
        if any(span is None for span in spans):
            return min(self._all, default=None)
        return min((span[0] for span in spans if span and span[0] <= span[1]), default=None)

    def within(self, first: str, last: str) -> Mapping[str, str]:
        """Return the times of the writes that were requested from `first` on and before `last`."""
        return {
            requested: done
            for part in self._parts
            if part.may_hold(first, last)
            for requested, done in part.times.items()
            if first <= requested < last
        }

    @cached_property
    def _all(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for part in self._parts:
            found.update(part.times)
        return found
