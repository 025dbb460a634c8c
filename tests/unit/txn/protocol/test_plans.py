from __future__ import annotations

import pytest
from typing_extensions import override

from tests.unit.services.test_fencing import Lease, sharing
from tests.unit.txn.toy_table import Toy, new_storage
from tidelake.config import TableConfig
from tidelake.env import Env
from tidelake.errors import ConfigError, LockLostError, PlanCompletedError
from tidelake.model import Action, Instant, State, TableType
from tidelake.testing import FaultyStorage
from tidelake.timeline import Timeline
from tidelake.txn import InstantTimes, NoMetadataTable, find_plan, schedule

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


class LosesTheLock(NoMetadataTable):
    """Takes so long to prepare a plan that the lock is lost meanwhile."""

    def __init__(self, env: Env, lease: Lease) -> None:
        super().__init__(env)
        self._lease = lease

    @override
    def prepare(
        self,
        config: TableConfig,
        timeline: Timeline,
        times: InstantTimes,
        *,
        is_fresh: bool = False,
    ) -> TableConfig:
        if any(i.action is Action.COMPACTION for i in timeline.pending):
            self._lease.lose()
        return super().prepare(config, timeline, times, is_fresh=is_fresh)


def test_a_plan_is_published_right_behind_the_last_look_at_the_lock() -> None:
    """On version 6 the metadata table is prepared for it, which may take long."""
    storage = FaultyStorage(new_storage(6, TableType.MERGE_ON_READ))
    Toy(storage).write({"a-0": "a"})
    toy, lease = Toy(storage), Lease(storage)
    with pytest.raises(LockLostError):
        schedule(
            toy.env,
            toy.config,
            toy.timeline,
            action=Action.COMPACTION,
            make_plan=lambda *_: b"plan",
            keeper=LosesTheLock(toy.env, lease),
            concurrency=sharing(lease),
        )
    assert not Toy(storage).timeline.pending
