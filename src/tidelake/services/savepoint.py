"""Keeping the table as of one commit, whatever is cleaned and archived later.

A savepoint has the time of the commit that it keeps, and names every file that counted then. It
takes effect when its completed file appears; what a crash leaves before that, nobody heeds.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.config import TimeBasis
from tidelake.env import Env
from tidelake.errors import ConfigError, HorizonError
from tidelake.formats import plans
from tidelake.formats.plans import SavepointMetadata, SavepointPartitionMetadata
from tidelake.model import WRITE_ACTIONS, Action, Instant
from tidelake.services.clean_plan import files_beside_cleans, last_clean, names_in, refuse_doomed
from tidelake.services.done_log import log_done
from tidelake.services.service_context import ServiceContext
from tidelake.state.table_state import TableState
from tidelake.timeline import Publisher
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.conflicts.undone_writes import going, savepoint_files
from tidelake.txn.protocol.fenced_publish import complete
from tidelake.view import AsOf


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """A savepoint, under the requested time of the commit that it keeps."""

    requested_time: str
    completion_time: str
    files: int

    @property
    def instant(self) -> str:
        """Return `requested_time`, which is how other calls take the savepoint."""
        return self.requested_time


def savepoint(
    env: Env,
    requested_time: str | None = None,
    *,
    user: str = "tidelake",
    comment: str = "",
    concurrency: Concurrency | None = None,
) -> Savepoint:
    """Keep the files of the table as of a completed write, by default the newest.

    All of it happens under the lock of `concurrency`. Raises `ConfigError` for an instant that did
    not complete, is saved already or is being rolled back, and `HorizonError` when cleans have gone
    beyond it or are about to.
    """
    shared = concurrency or Concurrency()
    began_ms = env.clock.now_ms()
    with shared.section():
        now = ServiceContext.load(env, concurrency=shared)
        instant = _write(now.state, requested_time)
        time = instant.requested_time
        kept = _kept_files(now.state, instant)
        metadata = SavepointMetadata(
            savepointed_by=user,
            savepointed_at=env.clock.now_ms(),
            comments=comment,
            partition_metadata={
                partition: SavepointPartitionMetadata(
                    partition_path=partition, savepoint_data_file=tuple(names)
                )
                for partition, names in kept.items()
            },
        )
        publisher = Publisher(env.storage, now.state.config)
        shared.ensure()
        publisher.start(time, Action.SAVEPOINT)
        done = now.times.next()
        path = publisher.completed_path(time, Action.SAVEPOINT, done)
        complete(env.storage, shared, path, plans.encode(metadata), f"the savepoint of {time}")
    files = sum(map(len, kept.values()))
    log_done(env, began_ms, "savepoint", time, f"{files} files kept")
    return Savepoint(requested_time=time, completion_time=done, files=files)


def _kept_files(state: TableState, instant: Instant) -> dict[str, list[str]]:
    """Return the files to keep, by partition; refuse when they cannot be kept."""
    time = instant.requested_time
    if any(i.requested_time == time for i in state.savepoints()):
        raise ConfigError(f"{time} has a savepoint already", next_step="there is nothing to do")
    rollback = going(state.timeline, state.contents).get(instant)
    if rollback is not None:
        raise ConfigError(
            f"{time} cannot be kept: rollback {rollback.requested_time} has begun to take it back",
            next_step=f"let that rollback finish (`tidelake rollback TABLE {time}` goes on with "
            "it), and keep another instant",
        )
    last = last_clean(state)
    if last is not None and time < last.retained:
        raise HorizonError(
            f"the table as of {time} cannot be kept: cleans left it readable from "
            f"{last.retained} on",
            next_step=f"choose an instant from {last.retained} on",
        )
    kept = _files_as_of(state, instant)
    refuse_doomed(
        state,
        kept,
        problem=f"the table as of {time} cannot be kept",
        next_step="let that clean finish, and keep a later instant",
    )
    return kept


def delete_savepoint(
    env: Env, requested_time: str, *, concurrency: Concurrency | None = None
) -> None:
    """Keep the files of a savepoint no longer; raise `ConfigError` when there is none.

    The next clean deletes what nothing else keeps. What a crash left of a savepoint goes as well.
    """
    shared = concurrency or Concurrency()
    with shared.section():
        now = ServiceContext.load(env, concurrency=shared)
        names = savepoint_files(now.state.timeline, requested_time)
        if not names:
            find_savepoint(now.state, requested_time)
        shared.ensure()
        Publisher(env.storage, now.state.config).remove(names)


def find_savepoint(state: TableState, requested_time: str) -> Instant:
    """Return the completed savepoint of an instant; raise `ConfigError` when there is none."""
    found = state.savepoints()
    for instant in found:
        if instant.requested_time == requested_time:
            return instant
    there = ", ".join(i.requested_time for i in found)
    raise ConfigError(
        f"{requested_time} has no savepoint",
        next_step=f"there are savepoints of {there}" if there else "the table has no savepoint",
    )


def _write(state: TableState, requested_time: str | None) -> Instant:
    if requested_time is None:
        writes = state.timeline.writes()
        if not writes:
            raise ConfigError(
                "the table has no completed write to keep", next_step="write to the table first"
            )
        if state.by_completion_time:
            return max(writes, key=lambda i: i.completion_time or "")
        return writes[-1]
    instant = state.find_instant(requested_time)
    if not instant.is_completed or instant.action not in WRITE_ACTIONS:
        raise ConfigError(
            f"{instant.planned_as} {requested_time} is {instant.state} and cannot be kept: only "
            "completed writes can",
            next_step="give the requested time of a completed commit, deltacommit or replacecommit",
        )
    return instant


def _files_as_of(state: TableState, instant: Instant) -> dict[str, list[str]]:
    at = AsOf(time=instant.requested_time, basis=TimeBasis.REQUESTED)
    if state.by_completion_time and instant.completion_time is not None:
        at = AsOf(time=instant.completion_time, basis=TimeBasis.COMPLETION)
    view = state.view_of(files_beside_cleans(state))
    kept: dict[str, list[str]] = {partition: [] for partition in view.partitions()}
    for found in view.latest_slices(as_of=at):
        kept[found.group.partition] += names_in(found)
    return kept
