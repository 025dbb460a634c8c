"""Whether an instant took effect, where a pending one is older than what is archived."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tidelake.model import Action, Instant, State
from tidelake.timeline import Timeline
from tidelake.view.table_view import CommitTimes

PENDING = Instant(requested_time="001", action=Action.DELTACOMMIT, state=State.INFLIGHT)
DONE = Instant(
    requested_time="005",
    action=Action.DELTACOMMIT,
    state=State.COMPLETED,
    completion_time="006",
)
#: The last one was archived after the timeline was looked at.
HISTORY = {"002": "004", "007": "008"}


def test_what_lies_behind_a_pending_instant_is_looked_for_in_the_history() -> None:
    times = CommitTimes(Timeline(instants=(PENDING, DONE)), lambda: HISTORY)
    assert [times(t) for t in ("001", "002", "003", "005", "007")] == [
        None,
        "004",
        None,
        "006",
        None,
    ]
    assert times.is_committed("002")
    assert not times.is_committed("003")
    assert times.archived_within() == {"002"}


def test_before_anything_has_completed_nothing_is_archived() -> None:
    """Others may complete and archive instants after a writer has looked at the timeline."""
    times = CommitTimes(Timeline(instants=(PENDING,)), lambda: HISTORY)
    assert times("002") is None
    assert not times.is_committed("002")
    assert times.archived_within() == frozenset()


@pytest.mark.parametrize("history", [{}, {"003": "004"}])
def test_what_was_rolled_back_is_not_taken_for_archived(history: Mapping[str, str]) -> None:
    """A writer that was rolled back came back, and put a file there before it looked."""
    times = CommitTimes(Timeline(instants=(DONE,)), lambda: history, lambda: {"002", "003"})
    assert times("002") is None
    assert not times.is_committed("002")
    assert times.is_committed("001")
    assert times.is_committed("003") is ("003" in history)


UNDONE = Instant(
    requested_time="009", action=Action.ROLLBACK, state=State.COMPLETED, completion_time="010"
)


@pytest.mark.parametrize("left", [(DONE, UNDONE), (UNDONE,)])
def test_what_is_archived_counts_though_the_newest_writes_were_rolled_back(
    left: tuple[Instant, ...],
) -> None:
    """A saved write stayed, later ones were archived, and those behind them were taken back."""
    times = CommitTimes(Timeline(instants=left), lambda: HISTORY)
    assert times.is_committed("007")
    assert times("007") == "008"
    assert not times.is_committed("008")
    assert times("008") is None
