"""Completed writes that were taken off the table since somebody looked, or that are about to be.

A restore and a rollback of a completed write make the table forget rows that others may have built
on. Whoever begins something new passes over what is going; whoever built on what has gone since
gives way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tidelake.errors import CorruptFileError, MissingFileError
from tidelake.model import WRITE_ACTIONS, Action, Instant, State
from tidelake.timeline import History, Timeline, TimelineContents


def going(timeline: Timeline, contents: TimelineContents) -> Mapping[Instant, Instant]:
    """Return the completed writes that a pending rollback has begun to take back, each with that.

    They are on the timeline until whoever goes on with the rollback takes them off.
    """
    found: dict[Instant, Instant] = {}
    for rollback in timeline.pending:
        if rollback.action is not Action.ROLLBACK:
            continue
        time = _target(rollback, contents)
        found.update({i: rollback for i in timeline.writes() if i.requested_time == time})
    return found


def _target(rollback: Instant, contents: TimelineContents) -> str | None:
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
    archived = {i.requested_time for i in history.instants() if i.action in WRITE_ACTIONS}
    return [i.requested_time for i in missing if i.requested_time not in archived]


def savepoint_files(timeline: Timeline, requested_time: str) -> list[str]:
    """Return the timeline files of the savepoint of an instant, pending or completed."""
    saved = Instant(requested_time=requested_time, action=Action.SAVEPOINT, state=State.INFLIGHT)
    return [file_name for file_name, _ in timeline.files_of(saved)]
