"""What a table must hold after each turn, kept in a dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import NamedTuple

from tests.interop.apache_hudi import VERSION

#: 1.0.2 compares the ordering value of a delete, an int, with that of a row that comes back after
#: it: with a column of longs it fails to read its own tables as well as ours.
_ORDERING = "int" if VERSION == "1.0.2" else "bigint"
SCHEMA = (
    f"id string, region string, ts {_ORDERING}, fare double, note string, day date, "
    "created timestamp, at bigint"
)

_START = datetime(2026, 1, 1, 10)  # noqa: DTZ001 - Spark gives and takes times without a zone


class Row(NamedTuple):
    """One row of every table here."""

    id: str
    region: str
    ts: int
    fare: float
    note: str | None
    day: date
    created: datetime
    at: int


def rows(numbers: Iterable[int], *, ts: int, note: str = "made") -> list[Row]:
    """Return a row for each number; key and partition depend on the number alone."""
    return [
        Row(
            id=f"k{n}",
            region=f"r{n % 3}",
            ts=ts,
            fare=(n + ts) / 4,
            note=None if n % 5 == 0 else f"{note} {n}",
            day=date(2026, 1, 1) + timedelta(days=n % 2),
            created=_START + timedelta(seconds=61 * n + ts),
            at=1_767_225_600_000 + (n % 2) * 40 * 86_400_000,
        )
        for n in numbers
    ]


State = dict[str, tuple[Row, int]]
"""Rows by key, each with the turn that last changed it."""


@dataclass(slots=True, kw_only=True)
class Truth:
    """Every state the table has had, one a turn."""

    path: Callable[[Row], str]
    """Partition path of a row."""
    by_event_time: bool = True
    states: list[State] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    """The time of each turn, as queries take it."""
    lost: list[tuple[int, Row]] = field(default_factory=list)
    """Rows that were written too late to count, with their turn."""

    @property
    def now(self) -> State:
        """Return the state after the last turn."""
        return self.states[-1] if self.states else {}

    def upsert(self, given: Sequence[Row]) -> None:
        """Take rows whose key is new, or whose ordering value is not behind."""
        state, turn = dict(self.now), len(self.states)
        for row in given:
            old = state.get(row.id)
            if old is None or not self.by_event_time or row.ts >= old[0].ts:
                state[row.id] = (row, turn)
            else:
                self.lost.append((turn, row))
        self.states.append(state)

    def delete(self, keys: Iterable[str]) -> None:
        """Drop rows by key."""
        gone = set(keys)
        self.states.append({k: v for k, v in self.now.items() if k not in gone})

    def overwrite(self, given: Sequence[Row]) -> None:
        """Replace the partitions that the rows belong to."""
        touched = {self.path(row) for row in given}
        state = {k: v for k, v in self.now.items() if self.path(v[0]) not in touched}
        turn = len(self.states)
        self.states.append({**state, **{row.id: (row, turn) for row in given}})

    def overwrite_table(self, given: Sequence[Row]) -> None:
        """Replace everything."""
        turn = len(self.states)
        self.states.append({row.id: (row, turn) for row in given})

    def delete_partitions(self, paths: Sequence[str]) -> None:
        """Drop whole partitions."""
        self.states.append({k: v for k, v in self.now.items() if self.path(v[0]) not in paths})

    def unchanged(self) -> None:
        """Note a turn that changes no row."""
        self.states.append(dict(self.now))

    def at(self, turn: int) -> Counter[Row]:
        """Return the rows after a turn."""
        return Counter(row for row, _ in self.states[turn].values())

    def window(self, start: int, end: int) -> Counter[Row]:
        """Return the rows after turn `end` that changed after turn `start`."""
        return Counter(row for row, turn in self.states[end].values() if turn > start)

    def losers(self, start: int, end: int) -> Counter[Row]:
        """Return rows written in the window that lost against a row from before it."""
        known = self.states[end]
        return Counter(
            row
            for turn, row in self.lost
            if start < turn <= end and row.id in known and known[row.id][1] <= start
        )

    def ever(self) -> set[Row]:
        """Return every row that was committed at any time."""
        return {row for state in self.states for row, _ in state.values()}
