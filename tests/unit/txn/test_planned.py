from __future__ import annotations

import pytest

from tidelake.errors import ConfigError, PlanCompletedError
from tidelake.model import Action, Instant, State
from tidelake.timeline import Timeline
from tidelake.txn import find_plan

DONE = Instant(requested_time="1", action=Action.COMMIT, state=State.COMPLETED, completion_time="2")


def test_a_plan_that_is_half_archived_is_done() -> None:
    """Its own files go first: what is left says no more that it was a compaction."""
    timeline = Timeline(instants=(DONE,), file_names=frozenset({"1_2.commit"}))
    with pytest.raises(PlanCompletedError, match="compaction 1 completed at 2"):
        find_plan(timeline, "1", Action.COMPACTION)


def test_a_write_is_no_plan() -> None:
    timeline = Timeline(
        instants=(DONE,), file_names=frozenset({"1.commit.requested", "1.inflight", "1_2.commit"})
    )
    with pytest.raises(ConfigError, match="1 is a commit and no compaction"):
        find_plan(timeline, "1", Action.COMPACTION)
