"""Completed files that reached the storage after their write was rolled back.

A request that the storage lost sight of may be carried out minutes later, when the next write has
rolled the instant back and deleted its files. The file then says that a write completed of which
nothing is left. A rollback takes the pending files of an instant off the timeline, so that such a
file stands there alone. Where a service was carried out again under the same time, its completion
time is from before the rollback. While the rollback is on its way, the file is younger than its
plan; the file of a completed write that somebody takes back is older.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidelake.config import TableConfig
from tidelake.errors import Malformed, MissingFileError
from tidelake.formats import plans
from tidelake.formats.instant_name import LAYOUT_1, InstantName
from tidelake.model import Action, Instant, State
from tidelake.storage import Storage
from tidelake.timeline.timeline import Timeline, pending_file

#: Returns the completion time that a modification time stands for.
CompletionTime = Callable[[int], str]


def late_files(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    modified_ms: Mapping[str, int],
    completion_time: CompletionTime,
) -> frozenset[str]:
    """Return the names of completed files that do not count, because a rollback came before them.

    `modified_ms` are the modification times of timeline files. Nothing is read but rollbacks, and
    those only where some file looks as if it had come late.
    """
    rollbacks = [i for i in timeline.instants if i.action in (Action.ROLLBACK, Action.RESTORE)]
    if not rollbacks:
        return frozenset()
    suspects: dict[str, list[tuple[str, bool]]] = {}
    at_work = any(_is_at_work(i) for i in rollbacks)
    for instant in timeline.writes():
        for file_name, is_alone in _suspicious(
            timeline, instant, modified_ms, completion_time, config, all_of_them=at_work
        ):
            suspects.setdefault(instant.requested_time, []).append((file_name, is_alone))
    found: set[str] = set()
    for rollback in rollbacks:
        earlier = {time for time in suspects if time < rollback.requested_time}
        if earlier and (rollback.is_completed or _is_at_work(rollback)):
            comes_late = _lateness(rollback, config, modified_ms)
            for time in earlier & _undone_times(storage, config, rollback):
                found.update(name for name, alone in suspects[time] if comes_late(name, alone))
    return frozenset(found)


def _lateness(
    rollback: Instant, config: TableConfig, modified_ms: Mapping[str, int]
) -> Callable[[str, bool], bool]:
    """Return what tells whether a completed file of an instant that was rolled back is late."""
    plan_ms = modified_ms.get(pending_file(rollback, State.REQUESTED), 0)

    def comes_late(file_name: str, is_alone: bool) -> bool:
        if not rollback.is_completed:
            return modified_ms.get(file_name, 0) > plan_ms
        name = InstantName.parse(file_name, config.layout_version)
        completed = None if name is None else name.completion_time
        return is_alone or (completed is not None and completed < rollback.requested_time)

    return comes_late


def _is_at_work(instant: Instant) -> bool:
    """Return whether a rollback is on its way, which whoever comes next will carry out."""
    return instant.action is Action.ROLLBACK and not instant.is_completed


def _suspicious(
    timeline: Timeline,
    instant: Instant,
    modified_ms: Mapping[str, int],
    completion_time: CompletionTime,
    config: TableConfig,
    *,
    all_of_them: bool,
) -> Iterable[tuple[str, bool]]:
    """Return completed files of an instant that may be late, each with whether it is alone."""
    files = timeline.files_of(instant)
    started = [modified_ms.get(name, 0) for name, at in files if at.state is State.INFLIGHT]
    done = [(name, at) for name, at in files if at.state is State.COMPLETED]
    for file_name, name in done:
        if not started:
            yield file_name, True
        elif all_of_them or _is_of_earlier_attempt(name, completion_time(max(started)), config):
            yield file_name, False


def _is_of_earlier_attempt(name: InstantName, started: str, config: TableConfig) -> bool:
    """Return whether a file may tell of an attempt before the one that is on the timeline.

    Copied tables say so of all files, since their modification times are those of the copy.
    """
    completed = name.completion_time
    return config.layout_version != LAYOUT_1 and completed is not None and completed < started


def _undone_times(storage: Storage, config: TableConfig, rollback: Instant) -> set[str]:
    """Return the times that a rollback takes back; a damaged one, or one that is gone, tells none.

    Whoever needs to know what a rollback says reads it again, and is told what is wrong.
    """
    try:
        if not rollback.is_completed:
            name = pending_file(rollback, State.REQUESTED)
            data = storage.read(f"{config.timeline_folder}/{name}")
            target = plans.decode(plans.RollbackPlan, data).instant_to_rollback
            return set() if target is None else {target.commit_time}
        data = storage.read(f"{config.timeline_folder}/{rollback.file_name}")
        if rollback.action is Action.RESTORE:
            return set(plans.decode(plans.RestoreMetadata, data).instants_to_rollback)
        return set(plans.decode(plans.RollbackMetadata, data).commits_rollback)
    except (Malformed, MissingFileError):
        return set()
