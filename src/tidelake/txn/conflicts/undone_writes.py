"""Completed writes that were taken off the table since somebody looked, or that are about to be.

A restore and a rollback of a completed write make the table forget rows that others may have built
on. Whoever begins something new passes over what is going; whoever built on what has gone since
gives way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tidelake.errors import CorruptFileError, MissingFileError, WriteConflictError
from tidelake.model import Action, Instant, State
from tidelake.timeline import History, Timeline, TimelineContents


def going(timeline: Timeline, contents: TimelineContents) -> Mapping[Instant, Instant]:
    """Return the completed writes that a pending rollback has begun to take back, each with that.

    They are on the timeline until whoever goes on with the rollback takes them off.
    """
    found: dict[Instant, Instant] = {}
    for rollback in timeline.pending:
        if rollback.action is not Action.ROLLBACK:
            continue
        time = rollback_target(rollback, contents)
        found.update({i: rollback for i in timeline.writes() if i.requested_time == time})
    return found


def rollback_target(rollback: Instant, contents: TimelineContents) -> str | None:
    """Return what a pending rollback takes back; None when nobody can carry it out any more."""
    try:
        target = contents.rollback_plan(rollback).instant_to_rollback
    except MissingFileError:
        return None  # it has ended since the timeline was loaded
    except CorruptFileError:
        if rollback.state is State.REQUESTED:
            return None  # nobody can carry it out
        raise
    return None if target is None else target.commit_time


def without(timeline: Timeline, instants: Collection[Instant]) -> Timeline:
    """Return the timeline as it is once some instants are off it."""
    if not instants:
        return timeline
    return replace(timeline, instants=tuple(i for i in timeline.instants if i not in instants))


def gone_since(seen: Timeline, now: Timeline, history: History) -> list[str]:
    """Return the writes that `seen` shows as completed and that were taken off the table since.

    What is not on the timeline any more was either archived or undone, and the history tells which.
    """
    there = {i.requested_time for i in now.writes()}
    missing = [i for i in seen.writes() if i.requested_time not in there]
    if not missing:
        return []
    archived = history.completion_times()
    return [i.requested_time for i in missing if i.requested_time not in archived]


def savepoint_files(timeline: Timeline, requested_time: str) -> list[str]:
    """Return the timeline files of the savepoint of an instant, pending or completed."""
    saved = Instant(requested_time=requested_time, action=Action.SAVEPOINT, state=State.INFLIGHT)
    return [file_name for file_name, _ in timeline.files_of(saved)]


def refuse_undone(
    ours: str,
    seen: Iterable[Timeline],
    now: Timeline,
    contents: TimelineContents,
    history: History,
) -> None:
    """Raise `WriteConflictError` when what a write was built on has gone since, or is going.

    `seen` are the timelines that it chose its files by. That counts for writers of every mode: rows
    that somebody took back must not return inside of a merged file, and what a condition or a part
    of a row was about is not there any more.
    """
    restore = next((i for i in now.pending if i.action is Action.RESTORE), None)
    if restore is not None:
        raise conflict_with(
            ours, restore.requested_time, "a restore has begun to take the table back"
        )
    for timeline in seen:
        for time in gone_since(timeline, now, history):
            raise conflict_with(ours, time, f"it was built on {time}, which was undone since")
        built_on = {i.requested_time for i in timeline.writes()}
        for instant, rollback in going(now, contents).items():
            if instant.requested_time in built_on:
                raise conflict_with(
                    ours,
                    rollback.requested_time,
                    f"it was built on {instant.requested_time}, which is being rolled back",
                )


def conflict_with(ours: str, theirs: str, rule: str) -> WriteConflictError:
    """Return the error of a write that gives way as a whole, whatever files it touched."""
    return WriteConflictError(
        ours=ours,
        theirs=theirs,
        overlap=frozenset({theirs}),
        rule=rule,
        next_step="run the write again: it starts from the table as it is now; "
        "hoodie.write.num.retries.on.conflict.failures does so by itself",
    )
