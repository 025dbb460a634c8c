"""A metadata table that misses a write must not be taken for the whole."""

from __future__ import annotations

import pytest

from tidelake.metadata.freshness import unknown
from tidelake.model import Action, Instant, State
from tidelake.timeline import Timeline

BUILD = "0" * 17
T1, T2, T3 = (f"2026030110000000{n}" for n in (1, 3, 5))
LATER = {T1: "20260301100000002", T2: "20260301100000004", T3: "20260301100000006"}


def timeline(*times: str, pending: str | None = None, **done: str) -> Timeline:
    instants = [
        Instant(
            requested_time=time,
            action=Action.DELTACOMMIT,
            state=State.COMPLETED,
            completion_time=done.get(f"t{time}", LATER.get(time, time)),
        )
        for time in times
    ]
    if pending is not None:
        instants.append(
            Instant(requested_time=pending, action=Action.DELTACOMMIT, state=State.INFLIGHT)
        )
    return Timeline(instants=tuple(instants))


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
    "nothing written yet": (timeline(), timeline(BUILD), False),
}


@pytest.mark.parametrize("story", TABLE)
def test_what_the_metadata_table_does_not_know(story: str) -> None:
    table, metadata, behind = TABLE[story]
    assert bool(unknown(table.writes(), metadata)) is behind
