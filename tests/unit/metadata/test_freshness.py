"""A metadata table that misses a write must not be taken for the whole."""

from __future__ import annotations

import pytest
from typing_extensions import override

from tests.unit.txn.toy_table import new_storage
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.metadata.freshness import unknown
from tidelake.model import Action, Instant, State, TableType
from tidelake.timeline import Timeline, TimelineContents, load_table_config

BUILD, AGAIN, STATS = "0" * 17, f"{1:017d}", f"{2:017d}"
BEFORE = "20260301100000000"
T1, T2, T3 = (f"2026030110000000{n}" for n in (1, 3, 5))
LATER = {T1: "20260301100000002", T2: "20260301100000004", T3: "20260301100000006"}


def timeline(*times: str, pending: str | None = None, **done: str) -> Timeline:
    instants = [
        Instant(
            requested_time=time,
            action=Action.DELTACOMMIT,
            state=State.COMPLETED,
            completion_time=done.get(f"t{time}", LATER.get(time[:17], time)),
        )
        for time in times
    ]
    if pending is not None:
        instants.append(
            Instant(requested_time=pending, action=Action.DELTACOMMIT, state=State.INFLIGHT)
        )
    return Timeline(instants=tuple(instants))


def with_plan(planned: str, completed: str | None, *times: str) -> Timeline:
    """Return writes behind a compaction."""
    plan = Instant(
        requested_time=planned,
        action=Action.COMMIT if completed else Action.COMPACTION,
        state=State.COMPLETED if completed else State.REQUESTED,
        completion_time=completed,
        pending_action=Action.COMPACTION if completed else None,
    )
    return Timeline(instants=(plan, *timeline(*times).instants))


class Contents(TimelineContents):
    """What instants of the metadata table wrote: to `files`, but for one that builds statistics."""

    def __init__(self) -> None:
        storage = new_storage(9, TableType.MERGE_ON_READ)
        super().__init__(storage, load_table_config(storage))

    @override
    def commit_metadata(self, instant: Instant) -> CommitMetadata:
        name = "column_stats" if instant.requested_time in (STATS, f"{T2}011") else "files"
        return CommitMetadata(partition_to_write_stats={name: ()})


TABLE = {
    "every write is there": (timeline(T1, T2), timeline(BUILD, T1, T2), False),
    "ahead of the table": (timeline(T1), timeline(BUILD, T1, T2), False),
    "a write is missing": (timeline(T1, T2), timeline(BUILD, T1), True),
    "a write in between is missing": (timeline(T1, T2, T3), timeline(BUILD, T1, T3), True),
    "its twin is pending": (timeline(T1, T2), timeline(BUILD, T1, pending=T2), True),
    "pending on the table": (timeline(T1, pending=T2), timeline(BUILD, T1), False),
    "its twin is archived": (timeline(T1, T2), timeline(T2), False),
    "built after the write": (timeline(T1, T2), timeline(BUILD, T2, **{f"t{BUILD}": T2}), False),
    "built by version 6 after the write": (timeline(T1, T2), timeline(f"{T1}010", T2), False),
    "built anew after the write": (
        timeline(T1, T2, T3),
        timeline(BUILD, T1, AGAIN, T3, **{f"t{AGAIN}": LATER[T2]}),
        False,
    ),
    "built anew by version 6 after the write": (
        timeline(T1, T2, T3),
        timeline(BEFORE, f"{T2}010", T3),
        False,
    ),
    "statistics built after the write": (
        timeline(T1, T2, T3),
        timeline(BUILD, T1, STATS, T3, **{f"t{STATS}": LATER[T2]}),
        True,
    ),
    "statistics built by version 6 after the write": (
        timeline(T1, T2, T3),
        timeline(T1, f"{T2}011", T3, **{f"t{T2}011": LATER[T2]}),
        True,
    ),
    "built by version 6 while a plan was carried out": (
        with_plan(T1, LATER[T3], T2),
        timeline(BEFORE, f"{T2}010", T1, T3),
        True,
    ),
    "built by version 6 while a plan was pending": (
        with_plan(T1, None, T2),
        timeline(BEFORE, f"{T2}010", T3),
        True,
    ),
    "built by version 6 after the plan": (
        with_plan(T1, LATER[T1], T2),
        timeline(BEFORE, f"{T2}010", T1, T3),
        False,
    ),
    "built while a plan was pending": (
        with_plan(T1, None, T2),
        timeline(BUILD, T3, **{f"t{BUILD}": LATER[T2]}),
        False,
    ),
    "nothing written yet": (timeline(), timeline(BUILD), False),
}


@pytest.mark.parametrize("story", TABLE)
def test_what_the_metadata_table_does_not_know(story: str) -> None:
    table, metadata, behind = TABLE[story]
    assert bool(unknown(table.writes(), table, metadata, Contents())) is behind


def test_a_service_of_the_metadata_table_with_the_time_of_a_write_does_not_know_it() -> None:
    service = Instant(
        requested_time=T2, action=Action.ROLLBACK, state=State.COMPLETED, completion_time=T3
    )
    metadata = timeline(BUILD, T1, T3)
    metadata = Timeline(instants=(*metadata.instants[:2], service, *metadata.instants[2:]))
    table = timeline(T1, T2, T3)
    assert [i.requested_time for i in unknown(table.writes(), table, metadata, Contents())] == [T2]
