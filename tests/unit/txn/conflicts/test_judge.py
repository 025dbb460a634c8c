from __future__ import annotations

from itertools import product

import pytest

from tidelake.formats.commit_metadata import WriteStat
from tidelake.txn.conflicts.candidates import of_stats
from tidelake.txn.conflicts.judge import Footprint, Kind, Rule, Slot, judge, overlap

OURS = "20260301000000500"
EARLY = "20260301000000400"
LATE = "20260301000000600"
DONE = "20260301000000700"


def touching(
    kind: Kind,
    requested_time: str,
    *names: str,
    completed: bool = True,
    base: bool = False,
    partition: str = "p",
) -> Footprint:
    slots = frozenset(Slot(partition, name) for name in names)
    return Footprint(
        kind=kind,
        requested_time=requested_time,
        completion_time=DONE if completed else None,
        slots=slots,
        base_slots=slots if base else frozenset(),
    )


def replacing(requested_time: str, *partitions: str, completed: bool = True) -> Footprint:
    return Footprint(
        kind=Kind.INGESTION,
        requested_time=requested_time,
        completion_time=DONE if completed else None,
        partitions=frozenset(partitions),
    )


TABLE = [
    # ours                theirs               requested  done   version  the rule that decides
    (Kind.INGESTION,      Kind.INGESTION,      EARLY,     True,  9,       Rule.OVERLAP),
    (Kind.INGESTION,      Kind.INGESTION,      LATE,      True,  6,       Rule.OVERLAP),
    (Kind.INGESTION,      Kind.COMPACTION,     EARLY,     False, 6,       Rule.PLANNED_FIRST),
    (Kind.INGESTION,      Kind.COMPACTION,     EARLY,     True,  9,       Rule.PLANNED_FIRST),
    (Kind.INGESTION,      Kind.COMPACTION,     LATE,      False, 6,       Rule.SHARED_LOGS),
    (Kind.INGESTION,      Kind.COMPACTION,     LATE,      True,  6,       Rule.SHARED_LOGS),
    (Kind.INGESTION,      Kind.COMPACTION,     LATE,      False, 8,       Rule.OWN_LOGS),
    (Kind.INGESTION,      Kind.COMPACTION,     LATE,      True,  9,       Rule.OWN_LOGS),
    (Kind.INGESTION,      Kind.LOG_COMPACTION, LATE,      False, 6,       Rule.SHARED_LOGS),
    (Kind.INGESTION,      Kind.LOG_COMPACTION, LATE,      False, 9,       Rule.OWN_LOGS),
    (Kind.INGESTION,      Kind.CLUSTERING,     EARLY,     True,  9,       Rule.CLUSTERED_AWAY),
    (Kind.INGESTION,      Kind.CLUSTERING,     EARLY,     False, 9,       Rule.CLUSTERING_PENDING),
    (Kind.INGESTION,      Kind.CLUSTERING,     LATE,      False, 6,       Rule.CLUSTERING_PENDING),
    (Kind.CLUSTERING,     Kind.INGESTION,      LATE,      True,  9,       Rule.CLUSTERING_YIELDS),
    (Kind.CLUSTERING,     Kind.INGESTION,      EARLY,     False, 9,       Rule.CLUSTERING_YIELDS),
    (Kind.CLUSTERING,     Kind.COMPACTION,     LATE,      True,  9,       Rule.OVERLAP),
    (Kind.LOG_COMPACTION, Kind.INGESTION,      LATE,      True,  9,       Rule.COMMITTED_BLOCKS),
    (Kind.LOG_COMPACTION, Kind.COMPACTION,     LATE,      True,  9,       Rule.COMPACTED_PAST),
    (Kind.LOG_COMPACTION, Kind.COMPACTION,     EARLY,     False, 9,       Rule.OVERLAP),
    (Kind.LOG_COMPACTION, Kind.LOG_COMPACTION, LATE,      True,  9,       Rule.OVERLAP),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs", "when", "completed", "version", "rule"), TABLE)
def test_same_file_group(
    ours: Kind, theirs: Kind, when: str, completed: bool, version: int, rule: Rule
) -> None:
    found = judge(
        touching(ours, OURS, "a", "b"),
        touching(theirs, when, "b", completed=completed),
        table_version=version,
    )
    assert found is rule


ALLOWED = {Rule.DISJOINT, Rule.COMMITTED_BLOCKS, Rule.PLANNED_FIRST, Rule.OWN_LOGS}


@pytest.mark.parametrize("rule", list(Rule))
def test_a_rule_allows_or_refuses(rule: Rule) -> None:
    assert rule.refuses is (rule not in ALLOWED)


@pytest.mark.parametrize(("ours", "theirs"), list(product(Kind, Kind)))
def test_disjoint_file_groups_never_conflict(ours: Kind, theirs: Kind) -> None:
    found = judge(touching(ours, OURS, "a"), touching(theirs, LATE, "b"), table_version=9)
    assert found is Rule.DISJOINT


@pytest.mark.parametrize(("ours", "theirs"), list(product(Kind, Kind)))
def test_b16_the_same_file_id_in_another_partition_is_another_file_group(
    ours: Kind, theirs: Kind
) -> None:
    found = judge(
        touching(ours, OURS, "a", partition="p"),
        touching(theirs, LATE, "a", partition="q"),
        table_version=9,
    )
    assert found is Rule.DISJOINT


@pytest.mark.parametrize("when", [EARLY, LATE])
@pytest.mark.parametrize("completed", [True, False])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_b08_a_base_file_never_stands_beside_a_compaction(
    when: str, completed: bool, version: int
) -> None:
    ours = touching(Kind.INGESTION, OURS, "a", base=True)
    theirs = touching(Kind.COMPACTION, when, "a", completed=completed)
    assert judge(ours, theirs, table_version=version) is Rule.TWO_BASES


def test_a_base_file_of_another_group_does_not_matter_to_a_compaction() -> None:
    ours = Footprint(
        kind=Kind.INGESTION,
        requested_time=OURS,
        slots=frozenset({Slot("p", "a"), Slot("p", "b")}),
        base_slots=frozenset({Slot("p", "b")}),
    )
    theirs = touching(Kind.COMPACTION, LATE, "a")
    assert judge(ours, theirs, table_version=9) is Rule.OWN_LOGS


class TestWholePartitions:
    def test_meet_any_write_into_them(self) -> None:
        wrote = touching(Kind.INGESTION, LATE, "new group")
        assert judge(replacing(OURS, "p"), wrote, table_version=9) is Rule.OVERLAP
        assert judge(wrote, replacing(OURS, "p"), table_version=9) is Rule.OVERLAP

    def test_meet_each_other(self) -> None:
        found = judge(replacing(OURS, "p", "q"), replacing(LATE, "q"), table_version=9)
        assert found is Rule.OVERLAP
        assert overlap(replacing(OURS, "p", "q"), replacing(LATE, "q")) == {Slot("q", "*")}

    def test_b31_leave_other_partitions_alone(self) -> None:
        wrote = touching(Kind.INGESTION, LATE, "a", partition="q")
        assert judge(replacing(OURS, "p"), wrote, table_version=9) is Rule.DISJOINT

    def test_b13_meet_pending_clusterings(self) -> None:
        planned = touching(Kind.CLUSTERING, EARLY, "a", completed=False)
        assert judge(replacing(OURS, "p"), planned, table_version=9) is Rule.CLUSTERING_PENDING

    @pytest.mark.parametrize("when", [EARLY, LATE])
    def test_meet_compactions_of_any_age(self, when: str) -> None:
        planned = touching(Kind.COMPACTION, when, "a", completed=False)
        assert judge(replacing(OURS, "p"), planned, table_version=9) is Rule.TWO_BASES


@pytest.mark.parametrize(
    ("partition", "rule"), [("p", Rule.CLUSTERING_WAITS), ("q", Rule.DISJOINT)]
)
def test_rows_without_a_file_group_may_go_to_any_of_their_partition(
    partition: str, rule: Rule
) -> None:
    """Apache's profile of an insert does not name the small files that take its rows."""
    profile = [WriteStat(file_id="", path=None, partition_path=partition, num_inserts=3)]
    insert = of_stats(profile, {}, operation="INSERT", requested_time=LATE)
    clustering = touching(Kind.CLUSTERING, OURS, "a", completed=False)
    assert judge(clustering, insert, table_version=9) is rule


@pytest.mark.parametrize("partition", ["p", "q"])
def test_a_pending_write_meets_whoever_replaces_a_partition_that_it_named(partition: str) -> None:
    pending = of_stats([], {}, operation="UPSERT", requested_time=LATE, touched=[partition])
    ours = replacing(OURS, "p", completed=False)
    met = judge(ours, pending, table_version=9) is Rule.WRITERS_PENDING
    assert met == (partition == "p")
