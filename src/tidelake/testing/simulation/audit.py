"""What must hold once a history has ended; it knows the journal and the files, not the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidelake.env import Env
from tidelake.errors import (
    IncrementalRangeError,
    MissingFileError,
    SchemaError,
    TimeTravelError,
)
from tidelake.metadata import MetadataTable
from tidelake.metadata.names import COLUMN_STATS
from tidelake.metadata.record_index import open_record_index
from tidelake.model import WRITE_ACTIONS, Action, Instant
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import Selection
from tidelake.read.snapshot import plan_snapshot
from tidelake.state.table_state import TableState
from tidelake.storage import FileInfo
from tidelake.testing.simulation.actors.readers import checked, run_toy, time_of
from tidelake.testing.simulation.actors.sharing import Sharing
from tidelake.testing.simulation.journal import Journal, completed_writes
from tidelake.testing.simulation.toy_index import found_in_index
from tidelake.testing.simulation.toy_rows import SCHEMA, Rows, read_rows
from tidelake.timeline.table_schema import commit_with_schema
from tidelake.view import Listing
from tidelake.write.schema_conflict import extends
from tidelake.write.schema_evolution import without_meta_columns

#: What brings no columns, and says those of the table as it completes.
_WITHOUT_SCHEMA = frozenset({"COMPACT", "DELETE", "DELETE_PARTITION"})


def violations(
    env: Env, journal: Journal, sharing: Sharing, *, times: int | None = None
) -> list[str]:
    """Return everything that is wrong with the table, in words.

    It is read as of every commit and in every window between two, or in the newest `times` of them.
    """
    wrong = list(journal.wrong)
    state = sharing.state(env, by_metadata=False)
    if any(i.action is Action.RESTORE for i in state.timeline.pending):
        return wrong  # until somebody finishes it, nobody is owed anything
    writes = completed_writes(state)
    first = 0 if times is None else max(0, len(writes) - times)
    wrong += list(_wrong_rows(env, state, journal, writes, first, "without its metadata table"))
    by_metadata = _through_metadata(sharing.state(env, by_metadata=True))
    if by_metadata is not None:
        wrong += list(
            _wrong_rows(env, by_metadata, journal, writes, first, "by its metadata table")
        )
        wrong += _wrong_places(by_metadata)
    wrong += _wrong_outcomes(journal, writes)
    wrong += journal.lost_updates(writes)
    wrong += _in_two_places(journal.rows(writes)) if sharing.moves else ()
    wrong += _bad_times(state)
    wrong += _broken_plans(state)
    wrong += _lost_savepoints(state)
    wrong += _bad_schemas(state, journal)
    wrong += checked(state)
    return wrong


class _ReadOnce:
    """The list of files of a metadata table, of which each partition is read once."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._files: dict[str, Sequence[FileInfo]] = {}

    def partitions(self) -> Sequence[str]:
        return self._listing.partitions()

    def files_of(self, partitions: Sequence[str]) -> Mapping[str, Sequence[FileInfo]]:
        new = [partition for partition in partitions if partition not in self._files]
        self._files |= self._listing.files_of(new) if new else {}
        return {partition: self._files[partition] for partition in partitions}


def _through_metadata(state: TableState) -> TableState | None:
    """Return the table as its metadata table lists it, or None where it has none in use."""
    found = MetadataTable.open(state.storage, state.config, state.timeline)
    if found is None:
        return None
    return TableState(
        storage=state.storage,
        config=state.config,
        timeline=state.timeline,
        options=state.options,
        metadata=lambda *_: (_ReadOnce(found), found),
    )


def _wrong_rows(
    env: Env, state: TableState, journal: Journal, writes: Sequence[Instant], first: int, how: str
) -> Iterator[str]:
    """Yield every answer that is wrong: now, as of each commit from `first` on, and in between."""
    try:
        found, twice = run_toy(env.storage, plan_snapshot(state))
    except SchemaError:
        found, twice = {}, []
    except MissingFileError as gone:
        yield f"a file of the table is gone, read {how}: {gone.path}"
        return
    yield from _compared(f"the table, read {how},", found, journal.rows(writes), twice)
    yield from _left_out(env, state, found)
    # What a clean is deleting is gone before the clean has completed.
    is_cleaned = any(i.action is Action.CLEAN for i in state.timeline.pending)
    start = time_of(state, writes[first - 1]) if first else None
    for at in range(first, len(writes)):
        end = time_of(state, writes[at])
        until = writes[: at + 1]
        owed = journal.rows(until)
        try:
            found, twice = run_toy(env.storage, plan_snapshot(state, as_of=end))
            yield from _compared(f"the table as of {end}, read {how},", found, owed, twice)
        except TimeTravelError:
            pass  # it is cleaned
        except MissingFileError as gone:
            if not is_cleaned:
                yield f"a file of the table as of {end} is gone, read {how}: {gone.path}"
        try:
            found, twice = run_toy(env.storage, plan_incremental(state, start=start, end=end))
            ours = {key: row for key, row in owed.items() if row[3] == writes[at].requested_time}
            yield from _compared(f"the window ({start}, {end}], read {how},", found, ours, twice)
        except IncrementalRangeError:
            pass
        except MissingFileError as gone:
            if not is_cleaned:
                yield f"a file of the window ({start}, {end}] is gone, read {how}: {gone.path}"
        start = end


def _left_out(env: Env, state: TableState, rows: Rows) -> Iterator[str]:
    """Yield the rows that a condition on the column with statistics does not find."""
    if state.statistics is None or COLUMN_STATS not in state.config.metadata_partitions:
        return
    for value in sorted({row[1] for row in rows.values() if row[1] is not None}):
        plan = plan_snapshot(state, Selection(where=f"a = {value}"))
        found, _ = run_toy(env.storage, plan)
        lost = [key for key, row in rows.items() if row[1] == value and key not in found]
        if lost:
            yield f"a query for a = {value} leaves out the files with {', '.join(lost)}"


def _compared(what: str, found: Rows, owed: Rows, twice: Sequence[str]) -> Iterator[str]:
    if found != owed:
        yield f"{what} holds {found}, and its commits together make {owed}"
    if twice:
        yield f"{what} holds {', '.join(twice)} more than once"


def _wrong_places(state: TableState) -> Iterator[str]:
    """Yield the rows that the record index, if there is one, has elsewhere or not at all."""
    index = open_record_index(state.storage, state.config, state.timeline)
    if index is None:
        return
    rows = read_rows(state)
    known = found_in_index(index, (key.partition("/")[2] for key in rows))
    for key, (file_id, _) in rows.items():
        partition, _, name = key.partition("/")
        place = known.get(name)
        if place is None or (place.partition, place.file_id) != (partition, file_id):
            yield f"{key} is in file group {file_id}, and the record index has it in {place}"


def _in_two_places(rows: Rows) -> list[str]:
    """Return the keys that are in more than one partition, where each may be in one alone."""
    names = [key.partition("/")[2] for key in sorted(rows)]
    return [f"{n} is in more than one partition" for n in sorted(set(names)) if names.count(n) > 1]


def _wrong_outcomes(journal: Journal, writes: Sequence[Instant]) -> list[str]:
    completed = {i.requested_time: i for i in writes}
    kept = {time: completed.get(time) for time in journal.restored_to}

    def may_be_gone(requested_time: str, completion_time: str) -> bool:
        if requested_time in journal.taken_back:
            return True
        return any(
            saved is None
            or completion_time > (saved.completion_time or "")
            or requested_time > saved.requested_time
            for saved in kept.values()
        )

    wrong = [
        f"{commit.requested_time} was reported as committed and is not on the timeline"
        for commit in journal.landed
        if commit.requested_time not in completed
        and not may_be_gone(commit.requested_time, commit.completion_time)
    ]
    wrong += [
        f"{time} was reported as undone or refused, and completed all the same"
        for time in journal.refused
        if time in completed
    ]
    return wrong


def _broken_plans(state: TableState) -> list[str]:
    """Return the pending plans of which a file is gone: nobody could carry them out."""
    wrong = []
    for instant in state.timeline.pending:
        if instant.planned_as is not Action.COMPACTION:
            continue
        for operation in state.contents.compaction_plan(instant).operations or ():
            names = [*(operation.delta_file_paths or ())]
            names += [operation.data_file_path] if operation.data_file_path else []
            wrong += [
                f"compaction {instant.requested_time} needs {name}, which is gone"
                for name in names
                if state.storage.stat(f"{operation.partition_path}/{name}") is None
            ]
    return wrong


def _lost_savepoints(state: TableState) -> list[str]:
    """Return the savepoints of which a file is gone."""
    return [
        f"savepoint {instant.requested_time} keeps {name}, which is gone"
        for instant in state.timeline.completed
        if instant.action is Action.SAVEPOINT
        for partition, kept in state.contents.savepoint_metadata(instant).partition_metadata.items()
        for name in kept.savepoint_data_file
        if state.storage.stat(f"{partition}/{name}") is None
    ]


def _bad_schemas(state: TableState, journal: Journal) -> list[str]:
    """Return the commits whose schema does not go on from the one that completed before it.

    The table's own, which is that of one of them, has the columns of all, unless that was undone
    from which others have taken them over.
    """
    wrong = []
    before = without_meta_columns(SCHEMA)
    for instant in state.timeline.by_completion_time():
        if instant.action not in WRITE_ACTIONS:
            continue
        metadata = state.contents.commit_metadata(instant)
        if metadata.operation_type in _WITHOUT_SCHEMA or not metadata.schema:
            continue
        if not extends(before, metadata.schema):
            wrong.append(f"{instant.requested_time} took columns off the table: {metadata.schema}")
        before = metadata.schema
    found = commit_with_schema(state.writes_by_time(), state.contents)
    is_undone = journal.taken_back or journal.restored_to
    if found is not None and not is_undone and not extends(before, found[1]):
        wrong.append(f"the table has the columns {found[1]}, and was given {before}")
    return wrong


def _bad_times(state: TableState) -> list[str]:
    instants = [i for i in state.timeline.instants if i.action is not Action.SAVEPOINT]
    requested = [i.requested_time for i in instants]
    completed = [i.completion_time for i in state.timeline.instants if i.completion_time]
    wrong = []
    if len(set(requested)) < len(requested):
        wrong.append("two requested times on the timeline are the same")
    if not state.by_completion_time:
        return wrong
    if len({*requested, *completed}) < len(requested) + len(completed):
        wrong.append("two times on the timeline are the same")
    wrong += [
        f"{i.requested_time} completed at {i.completion_time}, before it was requested"
        for i in instants
        if i.completion_time is not None and i.completion_time <= i.requested_time
    ]
    return wrong
