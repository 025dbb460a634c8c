"""What must hold once a history has ended; it knows the journal and the files, not the engine."""

from __future__ import annotations

from collections import Counter

from tidelake.config import ConcurrencyMode
from tidelake.errors import MissingFileError
from tidelake.model import Action
from tidelake.storage import Storage
from tidelake.testing.simulation.journal import Journal
from tidelake.testing.simulation.toy_rows import SCHEMA, Snapshot, read_toy
from tidelake.timeline.table_schema import writes_in_order
from tidelake.write.schema_conflict import extends


def violations(storage: Storage, journal: Journal, mode: ConcurrencyMode) -> list[str]:
    """Return everything that is wrong with the table, in words."""
    snapshot = Snapshot.load(storage)
    completed = {i.requested_time for i in snapshot.completed()}
    wrong = list(journal.wrong)
    try:
        found = read_toy(storage, snapshot)
    except MissingFileError as gone:
        return [*wrong, f"a file of the table is gone: {gone.path}"]
    owed = journal.rows(snapshot)
    if found != owed:
        wrong.append(f"the table holds {found}, and all commits together make {owed}")
    wrong += [
        f"{commit.requested_time} was reported as committed and is not on the timeline"
        for commit in journal.landed
        if commit.requested_time not in completed
    ]
    wrong += [
        f"{time} was reported as refused and completed all the same"
        for time in journal.refused
        if time in completed
    ]
    wrong += _bad_times(snapshot)
    wrong += _broken_plans(storage, snapshot)
    wrong += _bad_schemas(snapshot)
    if mode is ConcurrencyMode.OPTIMISTIC:
        wrong += _lost_updates(journal, completed, found)
    return wrong


def _broken_plans(storage: Storage, snapshot: Snapshot) -> list[str]:
    """Return the pending plans of which a file is gone: nobody could carry them out."""
    wrong = []
    for instant in snapshot.timeline.pending:
        if instant.planned_as is not Action.COMPACTION:
            continue
        for operation in snapshot.contents.compaction_plan(instant).operations or ():
            names = [*(operation.delta_file_paths or ())]
            names += [operation.data_file_path] if operation.data_file_path else []
            wrong += [
                f"compaction {instant.requested_time} needs {name}, which is gone"
                for name in names
                if storage.stat(f"{operation.partition_path}/{name}") is None
            ]
    return wrong


def _bad_schemas(snapshot: Snapshot) -> list[str]:
    """Return the commits whose schema does not go on from the one before it."""
    wrong = []
    before = SCHEMA
    for instant in writes_in_order(snapshot.config, snapshot.timeline):
        metadata = snapshot.contents.commit_metadata(instant)
        if metadata.operation_type != "UPSERT" or not metadata.schema:
            continue
        if not extends(before, metadata.schema):
            wrong.append(f"{instant.requested_time} took columns off the table: {metadata.schema}")
        before = metadata.schema
    return wrong


def _lost_updates(
    journal: Journal, completed: set[str], found: dict[str, tuple[int, int]]
) -> list[str]:
    counts = Counter(key for time in completed for key in journal.written.get(time, ()))
    return [
        f"{key} was counted up {count} times and stands at {found.get(key, (0, 0))[0]}"
        for key, count in sorted(counts.items())
        if found.get(key, (0, 0))[0] != count
    ]


def _bad_times(snapshot: Snapshot) -> list[str]:
    instants = snapshot.timeline.instants
    requested = [i.requested_time for i in instants]
    completed = [i.completion_time for i in instants if i.completion_time]
    wrong = []
    if len({*requested, *completed}) < len(requested) + len(completed):
        wrong.append("two times on the timeline are the same")
    wrong += [
        f"{i.requested_time} completed at {i.completion_time}, before it was requested"
        for i in instants
        if i.completion_time is not None and i.completion_time <= i.requested_time
    ]
    return wrong
