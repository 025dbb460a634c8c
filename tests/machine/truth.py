"""The truth about a table: its rows as plain values, and what every operation does to them.

The rules are those of docs/merge.md and of docs/decisions; nothing here is computed by the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.machine.kinds import Kind
from tests.machine.rows import Columns, Row, Values
from tests.machine.steps import Clause, Deed, Do, On, Step
from tests.partial_model import Event, Rule, State, compacted


class RefusedError(Exception):
    """The table owes an error, and stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A row, and the step that wrote it last."""

    row: Row
    step: int
    state: State
    """The same row as one of `partial_model`, with the ages of columns that came alone."""
    is_settled: bool = True
    """Whether all readers owe one answer to whether it changed since a time."""


@dataclass(frozen=True, slots=True)
class Open:
    """A key of which the table may hold one of several rows, and nobody says which.

    On merge-on-read a row that comes back after its delete, and is older than it was, is one; see
    docs/decisions/0008. `None` stands for no row.
    """

    choices: tuple[Kept | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """All that a table holds."""

    columns: Columns
    now: Mapping[Values, Kept] = field(default_factory=dict)
    past: Mapping[Values, tuple[Kept, ...]] = field(default_factory=dict)
    """Former versions of keys, which a log may still bring back once they were deleted."""
    open: Mapping[Values, Open] = field(default_factory=dict)
    """Keys that are settled by what the table shows after the step."""
    unsettled: Mapping[Values, int] = field(default_factory=dict)
    """Keys of which a row was brought that lost, with the step that brought it last."""

    @property
    def plain(self) -> list[Row]:
        """Return the rows."""
        return [kept.row for kept in self.now.values()]


_RULE = Rule()


class Truth:
    """What a table of some kind becomes by each step."""

    def __init__(self, kind: Kind, columns: Columns) -> None:
        self.kind = kind
        self.rows = Rows(columns=columns)

    def after(self, step: Step, at: int) -> Rows:
        """Return what the table holds after a step; raise `RefusedError` where it refuses it."""
        do, rows = step.do, self.rows
        if step.columns is not None and do is not Do.DELETE:
            rows = _with_columns(rows, {**rows.columns, **step.columns})
        change = _Change(self.kind, rows, at)
        if do in (Do.INSERT, Do.BULK_INSERT, Do.UPSERT, Do.SINK) and not step.is_again:
            change.upsert(step.rows)
        elif do is Do.INSERT_NEW:
            change.insert_new(step.rows)
        elif do is Do.PARTIAL:
            assert step.columns is not None
            change.upsert_some(step.rows, tuple(step.columns))
        elif do is Do.DELETE:
            gone = {self.kind.identity(row) for row in step.rows}
            change.delete(lambda row: self.kind.identity(row) in gone)
        elif do is Do.DELETE_WHERE and step.where is not None:
            holds = step.where.of
            change.delete(lambda row: holds(row) is True)
        elif do is Do.UPDATE_WHERE and step.where is not None and step.values is not None:
            change.update_where(step)
        elif do is Do.MERGE:
            change.merge(step)
        elif do is Do.OVERWRITE:
            touched = {self.kind.place(row) for row in step.rows}
            change.drop(lambda row: self.kind.place(row) in touched)
            change.upsert(step.rows)
        elif do is Do.OVERWRITE_TABLE:
            change.drop(lambda _: True)
            change.upsert(step.rows)
        elif do is Do.DELETE_PARTITIONS:
            change.drop(lambda row: row["p"] in step.partitions)
        elif do is Do.COMPACT:
            change.compact()
        return change.rows()


class _Change:
    def __init__(self, kind: Kind, rows: Rows, at: int) -> None:
        self._kind = kind
        self._at = at
        self._before = rows
        self._now = dict(rows.now)
        self._past = dict(rows.past)
        self._open: dict[Values, Open] = {}
        self._unsettled = dict(rows.unsettled)

    def rows(self) -> Rows:
        """Return what the table holds afterwards."""
        return replace(
            self._before,
            now=self._now,
            past=self._past,
            open=self._open,
            unsettled=self._unsettled,
        )

    def drop(self, gone: Callable[[Row], bool]) -> None:
        """Take rows away together with their files."""
        for key, kept in list(self._now.items()):
            if gone(kept.row):
                del self._now[key]
        for key, ones in list(self._past.items()):
            self._past[key] = tuple(one for one in ones if not gone(one.row))

    def delete(self, gone: Callable[[Row], bool]) -> None:
        """Delete rows, which always takes effect."""
        for key, kept in list(self._now.items()):
            if gone(kept.row):
                self._forget(key)

    def _forget(self, key: Values) -> None:
        kept = self._now.pop(key)
        if self._kind.mor:
            self._past[key] = (*self._past.get(key, ()), kept)

    def upsert(self, rows: Iterable[Row]) -> None:
        """Bring whole rows, the newest of each key."""
        for row in self._newest(rows):
            self._bring(row)

    def insert_new(self, rows: Iterable[Row]) -> None:
        """Bring the rows whose keys the table does not have."""
        known = set(self._now)
        self.upsert(row for row in rows if self._kind.identity(row) not in known)

    def _newest(self, rows: Iterable[Row]) -> list[Row]:
        found: dict[Values, Row] = {}
        for row in rows:
            key = self._kind.identity(row)
            if key not in found or self._order(row) >= self._order(found[key]):
                found[key] = row
        return list(found.values())

    def _order(self, row: Row) -> int:
        return self._kind.order(row)

    def _bring(self, row: Row) -> None:
        key = self._kind.identity(row)
        old = self._now.get(key)
        row = self._full(row)
        if old is not None and self._stays(old.row, row):
            row = {**row, **{name: old.row[name] for name in self._kind.partition}}
        event = Event(self._order(row), dict(row), is_whole=True)
        if old is None:
            self._settle_new(key, event)
        else:
            self._put(key, old, event)

    def _stays(self, old: Row, new: Row) -> bool:
        """Return whether a key that arrives with another partition stays where it is."""
        kind = self._kind
        return not kind.moves and kind.place(old) != kind.place(new)

    def _full(self, row: Row) -> Row:
        return {name: row.get(name) for name in self._before.columns}

    def _settle_new(self, key: Values, event: Event) -> None:
        kept = self._kept(_RULE.after(None, event))
        past = self._past.get(key, ())
        choices = [kept]
        if not self._kind.moves:
            # A key that a log deleted is still the base file's, in its partition.
            places = {self._kind.place(one.row): one.row for one in past}
            for row in places.values():
                there = {name: row[name] for name in self._kind.partition}
                choices.append(replace(kept, row={**kept.row, **there}))
        choices += [replace(one, is_settled=False) for one in past if one.state.order > event.order]
        self._now[key] = kept
        if len(choices) > 1:
            self._open[key] = Open(tuple(choices))

    def _kept(self, state: State) -> Kept:
        # What a partial record does not bring is null where there was no row.
        row = {name: state.values.get(name) for name in self._before.columns}
        return Kept(row=row, step=self._at, state=state)

    def _put(self, key: Values, old: Kept, event: Event) -> None:
        """Let a record meet the row that is there."""
        if event.order < old.state.order:
            self._come_late(key, old, event)
            return
        state = _RULE.after(old.state, event)
        if not self._kind.mor:
            state = State(state.order, state.values)
        moved = self._kind.place(old.row) != self._kind.place(state.values)
        if self._kind.mor:
            self._past[key] = (*self._past.get(key, ()), old)
        self._now[key] = replace(self._kept(state), is_settled=not moved)

    def _come_late(self, key: Values, old: Kept, event: Event) -> None:
        """Let a record meet a newer row: it brings what no newer partial record has brought."""
        self._unsettled[key] = self._at
        state = _RULE.after(old.state, event)
        if not self._kind.mor or state is old.state:
            return
        self._past[key] = (*self._past.get(key, ()), old)
        self._now[key] = replace(self._kept(state), is_settled=False)
        # A write that packs new rows into the file group may have folded its logs meanwhile.
        folded = replace(old, state=compacted(old.state) or old.state, is_settled=False)
        self._open[key] = Open((self._now[key], folded))

    def upsert_some(self, rows: Iterable[Row], columns: Sequence[str]) -> None:
        """Bring rows that have some columns."""
        for row in self._newest(rows):
            key = self._kind.identity(row)
            old = self._now.get(key)
            brought = {name: row[name] for name in columns}
            if old is not None and self._stays(old.row, row):
                brought |= {name: old.row[name] for name in self._kind.partition}
            event = Event(self._order(row), brought)
            if old is None:
                # A new row is written whole.
                self._settle_new(key, replace(event, values=self._full(row), is_whole=True))
            elif self._kind.mor:
                self._put(key, old, event)
            else:
                values = {**old.row, **brought}
                self._put(key, old, replace(event, values=values, is_whole=True))

    def update_where(self, step: Step) -> None:
        """Give columns of rows new values."""
        assert step.where is not None
        assert step.values is not None
        for key, old in list(self._now.items()):
            if step.where.of(old.row) is True:
                made = {name: one.of(old.row) for name, one in step.values.items()}
                self._update(key, old, {**old.row, **made}, None)

    def _update(self, key: Values, old: Kept, row: Row, brought: Sequence[str] | None) -> None:
        """Put a row in the place of one, unless it is older; `brought` are columns in a log."""
        row = self._full(row)
        order = self._order(row)
        if order < old.state.order:
            return
        if brought is None or not self._kind.mor:
            event = Event(order, dict(row), is_whole=True)
        else:
            event = Event(order, {name: row[name] for name in brought})
        self._put(key, old, event)

    def merge(self, step: Step) -> None:
        """Merge rows by the clauses of a step."""
        kind, before = self._kind, dict(self._now)
        matched_sources: set[int] = set()
        for key, old in before.items():
            partners = [
                (number, row)
                for number, row in enumerate(step.rows)
                if _matches(kind, step.on, old.row, row)
            ]
            matched_sources |= {number for number, _ in partners}
            if len(partners) > 1:
                raise RefusedError("several rows match one")
            clauses = step.matched if partners else step.left
            source = partners[0][1] if partners else {}
            clause = _first(clauses, _scope(old.row, source))
            if clause is not None:
                self._apply(key, old, source, clause)
        inserted = []
        for number, row in enumerate(step.rows):
            clause = _first(step.unmatched, _scope({}, row))
            if number in matched_sources or clause is None:
                continue
            made = (
                row
                if clause.values is None
                else {n: one.of(_scope({}, row)) for n, one in clause.values.items()}
            )
            if kind.identity(made) in before:
                raise RefusedError("a row to insert has a key that the table has")
            inserted.append(made)
        for row in self._newest(inserted):
            self._bring(row)

    def _apply(self, key: Values, old: Kept, source: Row, clause: Clause) -> None:
        if clause.deed is Deed.DELETE:
            self._forget(key)
            return
        if clause.values is None:
            made = {name: source[name] for name in source if name in self._before.columns}
        else:
            scope = _scope(old.row, source)
            made = {name: one.of(scope) for name, one in clause.values.items()}
        fixed = (*self._kind.key, *self._kind.partition)
        if any(name in made and made[name] != old.row[name] for name in fixed):
            raise RefusedError("a merge leaves keys and partitions as they are")
        brought = None
        if self._kind.mor and self._kind.version >= 8:
            # Clauses of one merge may set different columns; each logs what it sets.
            names = {*made, *self._kind.ordering}
            if not names >= set(self._before.columns):
                brought = tuple(n for n in self._before.columns if n in names)
        self._update(key, old, {**old.row, **made}, brought)

    def compact(self) -> None:
        """Fold logs into base files, which changes no answer."""
        for key, kept in self._now.items():
            state = compacted(kept.state)
            assert state is not None
            self._now[key] = replace(kept, state=state)


def _with_columns(rows: Rows, columns: Columns) -> Rows:
    if dict(columns) == dict(rows.columns):
        return rows

    def completed(kept: Kept) -> Kept:
        return replace(kept, row={name: kept.row.get(name) for name in columns})

    now = {key: completed(kept) for key, kept in rows.now.items()}
    past = {key: tuple(map(completed, ones)) for key, ones in rows.past.items()}
    return replace(rows, columns=columns, now=now, past=past)


def _scope(target: Row, source: Row) -> Mapping[str, object]:
    return {
        **{f"target.{name}": one for name, one in target.items()},
        **{f"source.{name}": one for name, one in source.items()},
    }


def _first(clauses: Sequence[Clause], scope: Mapping[str, object]) -> Clause | None:
    return next((c for c in clauses if c.condition is None or c.condition.of(scope) is True), None)


def _matches(kind: Kind, on: On, target: Row, source: Row) -> bool:
    if on.is_identity:
        return kind.identity(target) == kind.identity(source)
    if any(target[n] is None or target[n] != source[n] for n in on.names):
        return False
    return on.also is None or on.also.of(_scope(target, source)) is True
