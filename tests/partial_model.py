"""The rule for partial records under one ordering column, one record after the other.

The newest whole row stands for all before it. Of partial records after it each column goes by the
newest that brings it, whatever the whole row's age; a late record that meets a whole row alone is
void. A compaction makes a whole row of what is there, as new as the newest record in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Event:
    """What a write brings of one key; a delete without `ts` is one by arrival."""

    ts: int | None
    values: Mapping[str, Any] = field(default_factory=dict)
    is_whole: bool = False
    is_delete: bool = False

    @property
    def by_arrival(self) -> bool:
        return self.is_delete and self.ts is None

    @property
    def order(self) -> int:
        """Return the ordering value, zero for none, as in Hudi."""
        return self.ts or 0


@dataclass(frozen=True)
class State:
    """A row, or the delete that took it away.

    `ages` are the ordering values of columns that partial records brought after the whole row.
    """

    order: int
    values: Mapping[str, Any] = field(default_factory=dict)
    ages: Mapping[str, int] = field(default_factory=dict)
    has_partial: bool = False
    deleted_by: Event | None = None


@dataclass(frozen=True)
class Rule:
    """How records of one key merge; the two switches are those of payload classes."""

    ties_to_earlier: bool = False
    deletes_by_arrival: bool = False

    def is_newer(self, new: int, old: int) -> bool:
        return new > old if self.ties_to_earlier else new >= old

    def after(self, state: State | None, new: Event) -> State:
        """Return what a record makes of the row before it."""
        if state is None or not self._wins(state, new):
            return _first(new) if state is None else self._late(state, new)
        if state.deleted_by is not None or new.is_delete or new.is_whole:
            return _first(new)
        ages = {**state.ages, **dict.fromkeys(new.values, new.order)}
        return State(new.order, {**state.values, **new.values}, ages, has_partial=True)

    def _wins(self, state: State, new: Event) -> bool:
        gone = state.deleted_by
        if self.deletes_by_arrival and (new.is_delete or gone is not None):
            return True
        if gone is not None and gone.by_arrival:
            return not new.is_delete
        return new.by_arrival or self.is_newer(new.order, state.order)

    def _late(self, state: State, new: Event) -> State:
        if state.deleted_by is not None or new.is_delete or not state.has_partial:
            return state
        brought = {
            name: value
            for name, value in new.values.items()
            if name not in state.ages or self.is_newer(new.order, state.ages[name])
        }
        ages = {**state.ages, **dict.fromkeys(brought, new.order)}
        return replace(state, values={**state.values, **brought}, ages=ages)

    def merged(self, base: State | None, log: Sequence[Event]) -> State | None:
        """Return what a file slice holds of a key: its base row, and the records of its logs.

        After a delete by arrival the newest record decides whether the base row comes back
        (docs/decisions/0008).
        """
        ends = [e for e in log if e.by_arrival or (e.is_delete and self.deletes_by_arrival)]
        if base is None or not ends:
            state = base
            for event in log:
                state = self.after(state, event)
            return state
        alone = self.merged(None, log)
        assert alone is not None
        gone = alone.deleted_by
        if gone is not None and (gone.by_arrival or self.deletes_by_arrival):
            return alone
        return alone if self.is_newer(alone.order, base.order) else base


def _first(new: Event) -> State:
    if new.is_delete:
        return State(new.order, deleted_by=new)
    ages = {} if new.is_whole else dict.fromkeys(new.values, new.order)
    return State(new.order, new.values, ages, has_partial=not new.is_whole)


def merged(base: State | None, log: Sequence[Event]) -> State | None:
    """Return what a file slice of a table with event-time ordering holds of a key."""
    return Rule().merged(base, log)


def compacted(state: State | None) -> State | None:
    """Return what a compaction leaves: no delete, and a whole row."""
    if state is None or state.deleted_by is not None:
        return None
    return State(state.order, state.values)


def may_differ(base: State | None, log: Sequence[Event], at: int) -> bool:
    """Return whether a compaction after the first `at` records may change what is read later.

    A base file has one ordering value a row and knows nothing of deletes. So it may where a record
    comes after the compaction that is older than what was folded: than a row with partial records
    in it, or than a delete. And whatever is older than the row that a delete by arrival took away
    (docs/decisions/0008).
    """
    folded = merged(base, log[:at])
    if folded is not None and (folded.has_partial or folded.deleted_by is not None):
        later = [event.order for event in log[at:] if not event.by_arrival]
        if min(later, default=folded.order) < folded.order:
            return True
    newest = 0 if base is None else base.order
    is_ended = False
    for event in log:
        if is_ended and not event.by_arrival and event.order < newest:
            return True
        is_ended |= event.by_arrival
        newest = max(newest, event.order)
    return False
