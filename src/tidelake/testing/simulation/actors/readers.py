"""Who reads, and holds every answer to the journal."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from tidelake.env import Env
from tidelake.errors import (
    CorruptFileError,
    IncrementalRangeError,
    MissingFileError,
    SchemaError,
    SnapshotLostError,
    StorageError,
    TidelakeError,
    TimeTravelError,
)
from tidelake.metadata import MetadataTable, unknown_writes
from tidelake.model import Action, Instant
from tidelake.read.check import check_table
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import ScanPlan
from tidelake.read.snapshot import plan_snapshot
from tidelake.state.table_state import TableState
from tidelake.storage import Storage
from tidelake.testing.simulation.actors.sharing import Repeats
from tidelake.testing.simulation.journal import completed_writes
from tidelake.testing.simulation.toy_rows import Rows, read_toy_slice

_TAKING_AWAY = frozenset({Action.ROLLBACK, Action.RESTORE})


#: What `check` says of the insides of toy files, which are none of Hudi's.
_OF_TOYS = ("footer", "parquet", "magic", "Parquet", "of an Avro block is unknown")
#: What it says of a storage that was made to fail.
_MADE = "made to "


def run_toy(storage: Storage, plan: ScanPlan) -> tuple[Rows, list[str]]:
    """Return the rows of a query by partition and key, and keys that came up twice."""
    rows: Rows = {}
    twice = []
    keep = plan.spec.keep_instants
    for task in plan.tasks:
        for name, row in read_toy_slice(storage, task, plan.spec.blocks).items():
            key = f"{task.partition}/{name}"
            if keep is not None and row[3] not in keep:
                continue
            if key in rows:
                twice.append(key)
            rows[key] = row
    return rows, twice


def time_of(state: TableState, instant: Instant) -> str:
    """Return the time of an instant by which windows and points in time go."""
    return (instant.completion_time or "") if state.by_completion_time else instant.requested_time


@dataclass(frozen=True, kw_only=True)
class Reads(Repeats):
    """Reads the table now, as of a time, or what changed in a window, through either listing."""

    @override
    def act(self, env: Env) -> None:
        state = self.sharing.state(env, by_metadata=self.chance.random() < 0.5)
        self.linger(env)
        told = ""
        try:
            told = self._look(env, state)
        except SchemaError:
            return  # nothing was written yet
        except (MissingFileError, SnapshotLostError, TimeTravelError, IncrementalRangeError):
            return  # what it asked for was too old, or went away while it asked
        if told and not self._is_overtaken(env, state):
            self.journal.wrong.append(told)

    def _is_overtaken(self, env: Env, state: TableState) -> bool:
        """Return whether files may have gone away while it read.

        Of a write that was being taken back already it may see all or nothing.
        """
        try:
            now = self.sharing.state(env, by_metadata=False).timeline.instants
        except StorageError:
            return True
        settled = {i.requested_time for i in state.timeline.completed}
        return any(i.action in _TAKING_AWAY and i.requested_time not in settled for i in now)

    def _look(self, env: Env, state: TableState) -> str:
        writes = completed_writes(state)
        draw = self.chance.random()
        if draw < 0.5 or not writes:
            found, twice = run_toy(env.storage, plan_snapshot(state))
            return _told("a reader", found, self.journal.rows(writes), twice)
        if draw < 0.75:
            return self._as_of(env, state, writes)
        return self._window(env, state, writes)

    def _as_of(self, env: Env, state: TableState, writes: list[Instant]) -> str:
        at = time_of(state, self.chance.choice(writes))
        found, twice = run_toy(env.storage, plan_snapshot(state, as_of=at))
        owed = self.journal.rows(i for i in writes if time_of(state, i) <= at)
        return _told(f"a reader as of {at}", found, owed, twice)

    def _window(self, env: Env, state: TableState, writes: list[Instant]) -> str:
        times = sorted(time_of(state, self.chance.choice(writes)) for _ in range(2))
        start, end = times[0], times[1] if self.chance.random() < 0.5 else None
        found, twice = run_toy(env.storage, plan_incremental(state, start=start, end=end))
        until = [i for i in writes if end is None or time_of(state, i) <= end]
        inside = {i.requested_time for i in until if time_of(state, i) > start}
        owed = {k: r for k, r in self.journal.rows(until).items() if r[3] in inside}
        return _told(f"a window from {start} to {end}", found, owed, twice)


def _told(who: str, found: Rows, owed: Rows, twice: list[str]) -> str:
    if found == owed and not twice:
        return ""
    return f"{who} saw {found} and is owed {owed}; twice: {twice}"


def checked(state: TableState) -> list[str]:
    """Return what `check` has against a table with which nothing is wrong."""
    at = (state.storage, state.config, state.timeline)
    try:
        report = check_table(state, MetadataTable.open(*at), unknown_writes(*at))
    except (StorageError, MissingFileError):
        raise
    except TidelakeError as error:
        is_of_data = isinstance(error, CorruptFileError) and not error.path.startswith(".hoodie")
        is_of_toys = is_of_data and any(word in str(error) for word in _OF_TOYS)
        return [] if is_of_toys else [f"check cannot tell: {error}"]
    return [
        f"check says of {found.path}: {found.problem}"
        for found in report.violations
        if not any(word in found.problem for word in (*_OF_TOYS, _MADE))
    ]


@dataclass(frozen=True, kw_only=True)
class Checks(Repeats):
    """Runs `check`, which has nothing to say of a table that nobody changes meanwhile."""

    @override
    def act(self, env: Env) -> None:
        state = self.sharing.state(env, by_metadata=False)
        try:
            told = checked(state)
        except StorageError:
            return
        now = self.sharing.state(env, by_metadata=False)
        is_same = now.timeline.instants == state.timeline.instants
        if told and is_same and not state.timeline.pending:
            self.journal.wrong += told
