"""What is being taken away from a table while it is checked, and may be gone here or there."""

from __future__ import annotations

from tidelake.errors import CorruptFileError, MissingFileError
from tidelake.formats.plans import doomed_files
from tidelake.model import Action, Instant
from tidelake.state.table_state import TableState
from tidelake.txn.conflicts.undone_writes import rollback_target


def being_cleaned(state: TableState) -> frozenset[str]:
    """Return the paths of the files that pending cleans delete.

    They go before the metadata table learns of it, and that counts once the clean has completed. No
    reader of the newest snapshot needs them; whoever cleans next finishes what died in between.
    """
    found: set[str] = set()
    for instant in state.timeline.pending:
        if instant.action is not Action.CLEAN:
            continue
        try:
            plan = state.contents.clean_plan(instant)
        except (CorruptFileError, MissingFileError):
            continue
        for partition, names in doomed_files(plan).items():
            found.update(f"{partition}/{name}" if partition else name for name in names)
    return frozenset(found)


def being_undone(state: TableState) -> frozenset[str]:
    """Return the times of pending rollbacks and restores, and of the writes that they take back.

    The write itself may be off the timeline already, and its files gone.
    """
    found: set[str] = set()
    for instant in state.timeline.pending:
        if instant.action not in (Action.ROLLBACK, Action.RESTORE):
            continue
        found.add(instant.requested_time)
        try:
            found.update(_undone_times(state, instant))
        except (CorruptFileError, MissingFileError):
            continue  # nobody can carry it out, or it has ended meanwhile
    return frozenset(found)


def _undone_times(state: TableState, instant: Instant) -> set[str]:
    if instant.action is Action.RESTORE:
        plan = state.contents.restore_plan(instant)
        return {target.commit_time for target in plan.instants_to_rollback}
    target = rollback_target(instant, state.contents)
    return set() if target is None else {target}
