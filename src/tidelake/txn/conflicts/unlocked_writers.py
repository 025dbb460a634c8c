"""Traces of writers that do not honour the table's lock.

Under the lock times are published in their order, and of two writes that overlap in time and touch
the same file group one has given way. What contradicts that was done by somebody without the lock:
by another lock than the others', by a clock and no lock, or by a writer that thinks it is alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidelake.config import ConcurrencyMode
from tidelake.model import WRITE_ACTIONS, Instant
from tidelake.model.table_format import TableFormat
from tidelake.timeline import Timeline
from tidelake.txn.conflicts.judge import Footprint, Kind, Rule, Slot, judge, overlap


def came_late(then: Timeline, now: Timeline, *, by_completion: bool) -> list[Instant]:
    """Return the writes that appeared since `then` with a time that had passed by then.

    Both timelines were loaded under the lock. `by_completion` says that completion times are
    written down; modification times are anybody's.
    """
    latest = max((i.requested_time for i in then.instants), default="")
    latest_completion = max((i.completion_time or "" for i in then.completed), default="")
    known = {i.key for i in then.instants}
    done = {i.key for i in then.completed}
    return [
        i
        for i in now.instants
        if i.planned_as.completed_as in WRITE_ACTIONS
        and (
            (i.key not in known and i.requested_time < latest)
            or (
                by_completion
                and i.is_completed
                and i.key not in done
                and (i.completion_time or "") < latest_completion
            )
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """Two completed writes that overlap in time and in what they touch."""

    first: Footprint
    second: Footprint
    """The one that completed later, and should have given way."""
    shared: frozenset[Slot]
    rule: Rule


def unexplained(writes: Sequence[Footprint], *, table_version: int) -> Iterator[Unexplained]:
    """Return the pairs of completed writes of which no lock let both complete."""
    done = sorted(writes, key=lambda found: found.completion_time or "")
    for at, second in enumerate(done):
        if second.kind in (Kind.COMPACTION, Kind.LOG_COMPACTION):
            continue
        for first in reversed(done[:at]):
            if (first.completion_time or "") < second.requested_time:
                break
            rule = judge(second, first, table_version=table_version)
            shared = overlap(second, first)
            if rule.refuses and not (
                TableFormat(table_version).has_own_logs and _never_gives_way(first, second, shared)
            ):
                yield Unexplained(first=first, second=second, shared=shared, rule=rule)


def _never_gives_way(first: Footprint, second: Footprint, shared: frozenset[Slot]) -> bool:
    """Return whether the later write only added logs, as writers do that give way to nobody.

    A commit says the mode of its writer. Apache Hudi's do not, nor do those of older releases of
    ours: where keys have buckets, such a write may have been made in that mode.
    """
    if second.mode:
        is_said = second.mode == ConcurrencyMode.NON_BLOCKING.value
    else:
        is_said = all(slot.is_bucket for slot in shared)
    return is_said and all(
        slot not in second.base_slots | first.retired
        and second.file_ids.get(slot) == first.file_ids.get(slot)
        and slot.partition not in first.partitions | second.partitions
        for slot in shared
    )
