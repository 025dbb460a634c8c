from __future__ import annotations

import pytest

from tests.unit.txn.toy_table import PARTITION, Toy, new_storage
from tidelake.formats import plans
from tidelake.formats.commit_metadata import CommitMetadata, WriteStat
from tidelake.formats.plans import (
    ClusteringGroup,
    ClusteringPlan,
    CompactionOperation,
    CompactionPlan,
    RequestedReplaceMetadata,
    SliceInfo,
)
from tidelake.model import Action, Instant, State, TableType
from tidelake.storage import MemoryStorage
from tidelake.timeline import Publisher, Timeline, TimelineContents, load_timeline
from tidelake.txn.conflicts.candidates import (
    Basis,
    Start,
    completed_candidates,
    footprint,
    is_silent,
    of_stats,
    pending_candidates,
)
from tidelake.txn.conflicts.judge import Kind, Slot


def done(requested: int, completed: int, action: Action = Action.DELTACOMMIT) -> Instant:
    return Instant(
        requested_time=str(requested),
        action=action,
        state=State.COMPLETED,
        completion_time=str(completed),
    )


def pending(requested: int, action: Action = Action.DELTACOMMIT) -> Instant:
    return Instant(requested_time=str(requested), action=action, state=State.INFLIGHT)


class TestCompleted:
    """Ours starts at 5; the cases are those of RFC-71's table."""

    before = Timeline(instants=(done(1, 3), pending(2), pending(4)))
    now = Timeline(
        instants=(done(1, 3), done(2, 7), pending(4), pending(5), done(6, 8), pending(9))
    )

    @pytest.mark.parametrize("basis", list(Basis))
    def test_b01_b02_b04_only_results_that_ours_cannot_have_seen(self, basis: Basis) -> None:
        start = Start.of(self.before, "5")
        found = completed_candidates(self.now, start, basis)
        assert [i.requested_time for i in found] == ["2", "6"]

    def test_the_start_remembers_who_was_pending(self) -> None:
        assert Start.of(self.before, "5").pending == {"2", "4"}
        assert Start.of(self.now, "5").pending == {"4", "9"}

    @pytest.mark.parametrize(
        "now",
        [
            pytest.param((done(6, 7),), id="all that was there is archived"),
            pytest.param((done(1, 2), done(6, 7)), id="a commit that was saved is not"),
            pytest.param((done(1, 2), done(3, 4), done(6, 7)), id="a pending one is gone"),
            pytest.param(
                (done(1, 2), pending(2), done(3, 4), done(3, 9, Action.SAVEPOINT)),
                id="the newest is saved",
            ),
        ],
    )
    def test_archival_that_passed_by_is_noticed(self, now: tuple[Instant, ...]) -> None:
        then = Timeline(instants=(done(1, 2), pending(2), done(3, 4)))
        start = Start.of(then, "5")
        assert start.may_miss(Timeline(instants=now))
        assert not start.may_miss(then)

    def test_archival_goes_on_behind_a_newest_write_that_was_saved(self) -> None:
        saved = Timeline(instants=(done(1, 2), done(1, 3, Action.SAVEPOINT)))
        assert Start.of(saved, "5").may_miss(Timeline(instants=(done(1, 2), done(8, 9))))

    def test_a_write_that_is_being_saved_was_complete_at_the_start(self) -> None:
        saving = Timeline(instants=(done(1, 3), pending(1, Action.SAVEPOINT)))
        start = Start.of(saving, "5")
        assert not start.pending
        assert completed_candidates(saving, start, Basis.START) == []

    @pytest.mark.parametrize("basis", list(Basis))
    def test_bookkeeping_does_not_count(self, basis: Basis) -> None:
        now = Timeline(instants=(pending(5), done(6, 7, Action.CLEAN), done(8, 9, Action.ROLLBACK)))
        assert completed_candidates(now, Start.of(Timeline(), "5"), basis) == []


@pytest.fixture
def storage() -> MemoryStorage:
    return new_storage(9, TableType.MERGE_ON_READ)


@pytest.fixture
def toy(storage: MemoryStorage) -> Toy:
    return Toy(storage)


def publish_plans(toy: Toy) -> TimelineContents:
    publisher = Publisher(toy.storage, toy.config)
    compaction = CompactionPlan(
        operations=(
            CompactionOperation(base_instant_time="1", file_id="a", partition_path=PARTITION),
        )
    )
    publisher.request("20", Action.COMPACTION, plans.encode(compaction))
    publisher.start("20", Action.COMPACTION)
    clustering = RequestedReplaceMetadata(
        operation_type="CLUSTER",
        clustering_plan=ClusteringPlan(
            input_groups=(
                ClusteringGroup(slices=(SliceInfo(file_id="b", partition_path=PARTITION),)),
            )
        ),
    )
    publisher.request("30", Action.CLUSTERING, plans.encode(clustering))
    publisher.start("30", Action.CLUSTERING)
    publisher.request("40", Action.DELTACOMMIT)
    publisher.request("50", Action.REPLACECOMMIT)
    profile = CommitMetadata(
        partition_to_write_stats={
            PARTITION: (WriteStat(file_id="", path=None, partition_path=PARTITION),)
        },
        operation_type="INSERT_OVERWRITE",
    )
    publisher.start("50", Action.REPLACECOMMIT, publisher.encode(profile))
    return TimelineContents(toy.storage, toy.config)


PENDING = [
    # ours                allows  who counts
    (Kind.INGESTION,      False,  ["20", "30"]),
    (Kind.INGESTION,      True,   ["20"]),
    (Kind.CLUSTERING,     False,  []),
    (Kind.CLUSTERING,     True,   ["40", "50"]),
    (Kind.COMPACTION,     False,  []),
    (Kind.LOG_COMPACTION, False,  ["20"]),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "allows_update", "expected"), PENDING)
def test_pending_plans_count_by_kind(
    toy: Toy, ours: Kind, allows_update: bool, expected: list[str]
) -> None:
    contents = publish_plans(toy)
    now = load_timeline(toy.storage, toy.config)
    found = pending_candidates(
        now, contents, Start.of(now, "60"), ours=ours, allows_update=allows_update
    )
    assert [i.requested_time for i in found] == expected


def test_plans_are_read_where_they_are_written(toy: Toy) -> None:
    contents = publish_plans(toy)
    by_time = {i.requested_time: i for i in load_timeline(toy.storage, toy.config).pending}
    compaction = footprint(by_time["20"], contents)
    clustering = footprint(by_time["30"], contents)
    assert compaction is not None
    assert clustering is not None
    assert compaction.kind is Kind.COMPACTION
    assert compaction.slots == {Slot(PARTITION, "a")}
    assert clustering.kind is Kind.CLUSTERING
    assert clustering.slots == {Slot(PARTITION, "b")}
    assert not is_silent(compaction)


def test_a_write_that_said_nothing_is_silent_and_an_overwrite_names_its_partitions(
    toy: Toy,
) -> None:
    contents = publish_plans(toy)
    by_time = {i.requested_time: i for i in load_timeline(toy.storage, toy.config).pending}
    silent = footprint(by_time["40"], contents)
    overwrite = footprint(by_time["50"], contents)
    assert silent is not None
    assert is_silent(silent)
    assert overwrite is not None
    assert overwrite.partitions == {PARTITION}


def test_b29_a_plan_that_vanished_was_rolled_back(toy: Toy) -> None:
    publish_plans(toy)
    listed = load_timeline(toy.storage, toy.config)
    Publisher(toy.storage, toy.config).remove(
        ["30.clustering.requested", "30.clustering.inflight", "20.compaction.requested"]
    )
    contents = TimelineContents(toy.storage, toy.config)
    by_time = {i.requested_time: i for i in listed.pending}
    assert footprint(by_time["30"], contents) is None
    assert footprint(by_time["20"], contents) is None


def test_completed_writes_tell_base_files_from_logs(toy: Toy) -> None:
    toy.write({"a": "1"})
    toy = Toy(toy.storage)
    toy.write({"a": "2", "b": "1"})
    timeline = load_timeline(toy.storage, toy.config)
    contents = TimelineContents(toy.storage, toy.config)
    found = footprint(timeline.writes()[-1], contents, slot_name=str.upper)
    assert found is not None
    assert found.slots == {Slot(PARTITION, "A"), Slot(PARTITION, "B")}
    assert found.base_slots == {Slot(PARTITION, "B")}
    assert found.partitions == frozenset()


def test_retired_groups_count_as_rewritten() -> None:
    found = of_stats([], {"p": ["a"]}, operation="CLUSTER", requested_time="1")
    assert found.kind is Kind.CLUSTERING
    assert found.base_slots == found.slots == {Slot("p", "a")}
    assert found.partitions == frozenset()


@pytest.mark.parametrize(
    "operation", ["INSERT_OVERWRITE", "insert_overwrite_table", "DELETE_PARTITION"]
)
def test_overwrites_touch_whole_partitions(operation: str) -> None:
    stat = WriteStat(file_id="n", path="q/n_0-0-0_1.parquet", partition_path="q")
    found = of_stats([stat], {"p": ["a"]}, operation=operation, requested_time="1")
    assert found.partitions == {"p", "q"}
