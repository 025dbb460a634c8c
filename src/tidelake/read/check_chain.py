"""Writes that build on others: a commit names its base, which must be the newest that completed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.file_name import parse_base
from tidelake.model import WRITE_ACTIONS, Instant
from tidelake.state.table_state import TableState
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


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A base file that was written by a write that did not see another one's."""

    earlier: Instant
    later: Instant
    file_id: str


def passed_over_bases(state: TableState, *, by_completion: bool) -> Iterator[PassedOver]:
    """Yield pairs of writes of which the later merged a base file older than the earlier's.

    The earlier had completed when the later began, by its times: it took them before it lost the
    lock, and completed when the later had chosen its files. Without `by_completion` the completion
    times prove nothing, and requested times say which came first. Compactions merge what their plan
    names, which the rules for plans see to.
    """
    found: dict[tuple[str, str], list[Instant]] = {}
    for instant in state.timeline.writes():
        metadata = state.contents.commit_metadata(instant)
        for partition, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                if _is_base(partition, stat):
                    before = found.setdefault((partition, stat.file_id or ""), [])
                    if not metadata.compacted:
                        yield from _unseen(before, instant, stat, by_completion=by_completion)
                    before.append(instant)


def _is_base(partition: str, stat: WriteStat) -> bool:
    name = (stat.path or "").rpartition("/")[2]
    return parse_base(partition, name, 0) is not None


def _unseen(
    before: list[Instant], later: Instant, stat: WriteStat, *, by_completion: bool
) -> Iterator[PassedOver]:
    base = stat.prev_commit or ""
    if not base.isdecimal():
        return
    for earlier in before:
        time = earlier.completion_time if by_completion else earlier.requested_time
        if base < earlier.requested_time < later.requested_time and (
            (time or "") < later.requested_time
        ):
            yield PassedOver(earlier, later, stat.file_id or "")
            return
