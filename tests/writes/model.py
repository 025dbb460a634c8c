"""The truth about a table that is being written: a dictionary, and what operations do to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelake.model import Word

Row = Mapping[str, Any]
Values = tuple[Any, ...]

COLUMNS = ("id", "region", "city", "day", "ts", "fare", "note")
SCHEMA = "id string, region string, city string, day bigint, ts bigint, fare double, note string"


class Do(Word):
    """An operation, by the name of its door."""

    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    UPSERT = "upsert"
    DELETE = "delete"
    DELETE_WHERE = "delete_where"
    UPDATE_WHERE = "update_where"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITIONS = "delete_partitions"
    COMPACT = "compact"


_OVERWRITING = frozenset({Do.INSERT_OVERWRITE, Do.INSERT_OVERWRITE_TABLE})


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in SQL, and the same in Python."""

    sql: str
    holds: Callable[[Row], bool] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One write."""

    do: Do
    rows: tuple[Row, ...] = ()
    where: Condition | None = None
    note: str | None = None
    """What an update sets the note to."""
    partitions: tuple[Values, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What makes two rows the same, and which of them wins."""

    key: tuple[str, ...]
    partition: Callable[[Row], Values]
    is_global: bool = False
    by_event_time: bool = True

    def of(self, row: Row) -> Values:
        """Return what no two rows of a table share."""
        own = tuple(row[name] for name in self.key)
        return own if self.is_global else (self.partition(row), *own)

    def is_newer(self, new: Row, old: Row) -> bool:
        """Return whether `new`, which came later, takes the place of `old`."""
        return not self.by_event_time or new["ts"] >= old["ts"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A row, and the number of the commit that wrote it."""

    row: Row
    commit: int


class Model:
    """The rows of a table after every commit."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self._rows: dict[Values, Kept] = {}
        self._made_up = 0
        self.losers: dict[Values, int] = {}
        """The last commit that brought a row which was older than the one that was there."""
        self.graves: dict[Values, int] = {}
        """The ordering value that a deleted row had."""
        self.states: list[list[Kept]] = []
        """What the table held after each commit."""
        self.changes: list[list[Values]] = []
        """What each commit changed: `i`, `u` or `d`, and the row before and after."""

    @property
    def rows(self) -> list[Row]:
        """Return the rows as they are now."""
        return [kept.row for kept in self._rows.values()]

    def partitions(self) -> list[Values]:
        """Return the partitions that hold rows."""
        return sorted({self.identity.partition(row) for row in self.rows})

    def apply(self, step: Step) -> None:
        """Do what the operation does, as the next commit."""
        commit = len(self.states)
        before = self._rows
        if step.do is Do.DELETE:
            gone_keys = {self.identity.of(row) for row in step.rows}
            self._bury(lambda row: self.identity.of(row) in gone_keys)
        elif step.do is Do.DELETE_WHERE and step.where is not None:
            self._bury(step.where.holds)
        elif step.do is Do.UPDATE_WHERE and step.where is not None:
            self._rows = {
                key: Kept({**kept.row, "note": step.note}, commit)
                if step.where.holds(kept.row)
                else kept
                for key, kept in self._rows.items()
            }
        elif step.do is Do.DELETE_PARTITIONS:
            self._keep(lambda row: self.identity.partition(row) not in step.partitions)
        else:
            if step.do is Do.INSERT_OVERWRITE_TABLE:
                self._rows = {}
            if step.do is Do.INSERT_OVERWRITE:
                touched = {self.identity.partition(row) for row in step.rows}
                self._keep(lambda row: self.identity.partition(row) not in touched)
            self._merge(step.rows, commit)
        self.changes.append(self._changed(before, step.do))
        self.states.append(list(self._rows.values()))

    def _changed(self, before: Mapping[Values, Kept], do: Do) -> list[Values]:
        """Return what became of the rows `before`; what is overwritten goes, whatever its key."""
        found: list[Values] = []
        now = self._rows
        for key in before.keys() | now.keys():
            old, new = before.get(key), now.get(key)
            if old is new:
                continue
            is_update = (
                old is not None
                and new is not None
                and do not in _OVERWRITING
                and self.identity.partition(old.row) == self.identity.partition(new.row)
            )
            images = [None if kept is None else as_values(kept.row) for kept in (old, new)]
            if is_update:
                found.append(("u", *images))
                continue
            if old is not None:
                found.append(("d", images[0], None))
            if new is not None:
                found.append(("i", None, images[1]))
        return sorted(found, key=repr)

    def _keep(self, wanted: Callable[[Row], bool]) -> None:
        self._rows = {key: kept for key, kept in self._rows.items() if wanted(kept.row)}

    def _bury(self, gone: Callable[[Row], bool]) -> None:
        dead = {key: kept for key, kept in self._rows.items() if gone(kept.row)}
        self.graves.update({key: kept.row["ts"] for key, kept in dead.items()})
        self._keep(lambda row: not gone(row))

    def _merge(self, rows: Iterable[Row], commit: int) -> None:
        incoming: dict[Values, Row] = {}
        for row in rows:
            key = self._key(row)
            if key not in incoming or self.identity.is_newer(row, incoming[key]):
                incoming[key] = row
        for key, row in incoming.items():
            known = self._rows.get(key)
            if known is None or self.identity.is_newer(row, known.row):
                self._rows = {**self._rows, key: Kept(row, commit)}
            else:
                self.losers[key] = commit

    def _key(self, row: Row) -> Values:
        if self.identity.key:
            return self.identity.of(row)
        self._made_up += 1
        return (self._made_up,)


def as_values(row: Row) -> Values:
    """Return a row in a form in which it compares."""
    return tuple(row[name] for name in COLUMNS)


def values(rows: Iterable[Row]) -> list[Values]:
    """Return rows in a form and an order in which they compare."""
    return sorted(map(as_values, rows), key=repr)


def told(steps: Sequence[Step]) -> str:
    """Return steps as a person reads them."""
    return "\n".join(f"  {at}: {_told(step)}" for at, step in enumerate(steps))


def _told(step: Step) -> str:
    rows = ", ".join(str(tuple(row.values())) for row in step.rows)
    where = "" if step.where is None else f" {step.where.sql}"
    note = "" if step.do is not Do.UPDATE_WHERE else f" note={step.note!r}"
    partitions = "" if not step.partitions else f" {step.partitions}"
    return f"{step.do.value} {rows}{where}{note}{partitions}"


def without_ties(rows: Sequence[Row], identity: Identity) -> tuple[Row, ...]:
    """Return rows of which no two with one identity are equally new."""
    seen: set[tuple[Values, Any]] = set()
    found = []
    for row in rows:
        mark = (identity.of(row), row["ts"] if identity.by_event_time else None)
        if mark not in seen:
            seen.add(mark)
            found.append(row)
    return tuple(found)
