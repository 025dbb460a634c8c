"""Writes that build on others: what a commit names as its base must have completed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidelake.model import WRITE_ACTIONS, Instant
from tidelake.read.state import TableState
from tidelake.view import TableView


@dataclass(frozen=True, slots=True)
class LostBase:
    """A completed write, and the time of one that it builds on and that has not completed."""

    instant: Instant
    base_time: str
    file_id: str


def lost_bases(state: TableState, view: TableView) -> Iterator[LostBase]:
    """Yield writes whose base is pending or unknown: its completed file was lost.

    A slice that a plan opened is named by the plan, which need not be carried out yet.
    """
    planned = {
        i.requested_time for i in state.timeline.pending if i.planned_as not in WRITE_ACTIONS
    }
    first = state.timeline.first_completed_time
    told = set()
    for instant in state.timeline.writes():
        for stat in state.contents.commit_metadata(instant).write_stats:
            base = stat.prev_commit or ""
            if not base.isdecimal() or base in planned or base in told:
                continue
            if first is None or base < first or base >= instant.requested_time:
                continue
            if not view.times.is_committed(base):
                told.add(base)
                yield LostBase(instant, base, stat.file_id or "")
