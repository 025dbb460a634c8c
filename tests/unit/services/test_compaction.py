from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import Unpack
from tidelake.config import CompactionOptions, CompactionStrategy, CompactionTrigger, WriteOptions
from tidelake.errors import ConfigError, MissingFileError
from tidelake.formats.plans import CompactionOperation
from tidelake.model import Action, BaseFile, FileGroupId, FileSlice, Instant, LogFile, State
from tidelake.operations.open_table import open_state
from tidelake.services.compaction import (
    is_due,
    narrowed,
    operation,
    plan_compaction,
    planned_slices,
)
from tidelake.timeline import Timeline, TimelineContents
from tidelake.view import StorageListing, TableView

UNBOUNDED = CompactionOptions(strategies=(CompactionStrategy.UNBOUNDED,))
PLANNED_BY_APACHE = [
    "v6_mor_compaction_pending",
    "v6_mor_compaction_done",
    "v6_mor_by_12",
    "v8_mor_compaction_pending",
    "v8_mor_compaction_executed",
    "v8_mor_nbcc_overlap_compacted",
    "v9_mor_compaction_pending",
    "v9_mor_compaction_executed",
    "v9_mor_nbcc_overlap_compacted",
    "v9_mor_nbcc_commit_time_compacted",
    "mor_avro_v8_trips_8i3u1d",
    "mor_avro_v9_txns_nonpart_nometa",
]


def names(found: CompactionOperation) -> CompactionOperation:
    """Return the operation with its logs in the order of their names, which is Apache's."""
    return replace(found, delta_file_paths=tuple(sorted(found.delta_file_paths)))


@pytest.mark.parametrize("name", PLANNED_BY_APACHE)
def test_we_plan_what_apache_planned(name: str, golden_table: Unpack) -> None:
    state = open_state(str(golden_table(name)))
    plans = [i for i in state.timeline.instants if i.planned_as is Action.COMPACTION]
    assert plans
    for planned in plans:
        at = planned.requested_time
        version = state.config.table_version
        then = [
            i
            for i in state.timeline.completed
            if ((i.completion_time or "") if version >= 8 else i.requested_time) < at
        ]
        contents = TimelineContents(state.storage, state.config)
        view = TableView(
            table_version=version,
            timeline=Timeline(instants=tuple(then)),
            contents=contents,
            listing=StorageListing(state.storage),
            history_times=dict,
        )
        made = plan_compaction(
            view, contents, CompactionOptions(), table_version=version, requested_time=at
        )
        theirs = contents.compaction_plan(planned)
        assert made is not None
        assert made.version == theirs.version
        ours = sorted(map(names, made.operations), key=str)
        assert ours == sorted(map(names, theirs.operations), key=str)


@pytest.mark.parametrize("name", ["v6_mor_compaction_pending", "v9_mor_compaction_pending"])
def test_the_slices_of_a_plan_of_apache_are_found(name: str, golden_table: Unpack) -> None:
    state = open_state(str(golden_table(name)))
    (pending,) = [i for i in state.timeline.pending if i.action is Action.COMPACTION]
    plan = state.contents.compaction_plan(pending)
    found = planned_slices(state.view, plan)
    assert [(s.group.file_id, len(s.log_files)) for s in found] == [
        (o.file_id, len(o.delta_file_paths)) for o in plan.operations
    ]
    assert all(s.base_file is not None for s in found)


def test_a_plan_whose_log_is_gone_cannot_be_run(golden_table: Unpack) -> None:
    state = open_state(str(golden_table("v9_mor_compaction_pending")))
    (pending,) = [i for i in state.timeline.pending if i.action is Action.COMPACTION]
    plan = state.contents.compaction_plan(pending)
    lost = replace(plan.operations[0], delta_file_paths=(".x-0_20260101000000000.log.1_0-0-0",))
    with pytest.raises(MissingFileError, match="nothing was written"):
        planned_slices(state.view, replace(plan, operations=(lost,)))


MIB = 1 << 20


def piece(partition: str, base_mib: int, *log_mib: int) -> FileSlice:
    base = BaseFile(
        partition=partition,
        name="b",
        file_id="f",
        write_token="0",
        instant_time="1",
        extension="parquet",
        size_bytes=base_mib * MIB,
    )
    logs = [
        LogFile(
            partition=partition,
            name=f"l{at}",
            file_id="f",
            instant_time="1",
            version=at,
            write_token="0",
            suffix="",
            size_bytes=size * MIB,
        )
        for at, size in enumerate(log_mib)
    ]
    return FileSlice(
        group=FileGroupId(partition, "f"),
        base_instant_time="1",
        base_file=base if base_mib else None,
        log_files=tuple(logs),
    )


SLICES = [
    piece("2026/11/01", 10, 1),
    piece("2026/11/02", 20, 1, 1, 1),
    piece("2026/11/03", 30, 8),
    piece("2026/11/04", 0, 2, 2),
]


def chosen(**given: Any) -> list[str]:
    options = CompactionOptions(**given)
    made = [operation(found, options) for found in SLICES]
    return [o.partition_path[-1] for o in narrowed(made, options)]


def test_costs_are_counted_as_hudi_counts_them() -> None:
    made = operation(SLICES[2], CompactionOptions())
    assert made.metrics == {
        "TOTAL_LOG_FILES": 1.0,
        "TOTAL_IO_MB": 68.0,
        "TOTAL_IO_READ_MB": 38.0,
        "TOTAL_LOG_FILES_SIZE": 8.0 * MIB,
        "TOTAL_IO_WRITE_MB": 30.0,
    }
    # A slice without a base file will get one of the size at which files are full.
    assert (operation(SLICES[3], CompactionOptions()).metrics or {})["TOTAL_IO_MB"] == 124.0


def test_the_largest_logs_come_first() -> None:
    assert chosen() == ["3", "4", "2", "1"]
    assert chosen(log_size_threshold_bytes=4 * MIB) == ["3", "4"]


def test_the_most_logs_come_first() -> None:
    by_count = (CompactionStrategy.LOG_FILE_NUM,)
    assert chosen(strategies=by_count) == ["2", "4", "1", "3"]
    assert chosen(strategies=by_count, log_count_threshold=2) == ["2", "4"]


def test_a_bound_is_passed_by_one_slice_at_most() -> None:
    bounded = (CompactionStrategy.BOUNDED_IO,)
    assert chosen(strategies=bounded, target_io_mib=21) == ["1"]
    assert chosen(strategies=bounded, target_io_mib=22) == ["1", "2"]
    assert chosen(strategies=(CompactionStrategy.UNBOUNDED,), target_io_mib=1) == [*"1234"]


def test_the_last_days_are_compacted() -> None:
    assert chosen(strategies=(CompactionStrategy.DAY_BASED,), day_partitions=2) == ["4", "3"]


def test_strategies_narrow_each_other() -> None:
    both = (CompactionStrategy.PARTITION_REGEX, CompactionStrategy.LOG_FILE_SIZE)
    assert chosen(strategies=both, partition_regex=r".*/0[123]", target_io_mib=60) == ["3"]


def at(second: int) -> str:
    return f"202611150000{second:02d}000"


def done(action: Action, requested: int, completed: int, planned: Action | None = None) -> Instant:
    return Instant(
        requested_time=at(requested),
        action=action,
        state=State.COMPLETED,
        completion_time=at(completed),
        pending_action=planned,
    )


DELTAS = [done(Action.DELTACOMMIT, second, second + 1) for second in (1, 3, 5)]
COMPACTED = done(Action.COMMIT, 7, 10, Action.COMPACTION)
LATE = done(Action.DELTACOMMIT, 6, 8)
PENDING = Instant(requested_time=at(12), action=Action.COMPACTION, state=State.REQUESTED)
AFTER = done(Action.DELTACOMMIT, 13, 14)


@pytest.mark.parametrize(
    ("instants", "given", "is_it"),
    [
        (DELTAS, {"max_delta_commits": 3}, True),
        (DELTAS, {"max_delta_commits": 4}, False),
        # What completed after a compaction was requested is behind it.
        ([*DELTAS, LATE, COMPACTED], {"max_delta_commits": 1}, True),
        ([*DELTAS, LATE, COMPACTED], {"max_delta_commits": 2}, False),
        ([*DELTAS, PENDING, AFTER], {"max_delta_commits": 4}, True),
        (
            [*DELTAS, PENDING, AFTER],
            {
                "max_delta_commits": 2,
                "trigger": CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST,
            },
            False,
        ),
        (DELTAS, {"trigger": CompactionTrigger.TIME_ELAPSED, "max_delta_seconds": 29}, True),
        (DELTAS, {"trigger": CompactionTrigger.TIME_ELAPSED, "max_delta_seconds": 30}, False),
        (DELTAS, {"trigger": CompactionTrigger.NUM_OR_TIME, "max_delta_seconds": 29}, True),
        (DELTAS, {"trigger": CompactionTrigger.NUM_AND_TIME, "max_delta_seconds": 29}, False),
        ([], {"max_delta_commits": 1}, False),
    ],
)
def test_when_a_compaction_is_due(
    instants: Sequence[Instant], given: dict[str, Any], is_it: bool
) -> None:
    timeline = Timeline(instants=tuple(sorted(instants, key=lambda i: i.requested_time)))
    options = CompactionOptions(**given)
    assert is_due(timeline, options, at=at(30)) is is_it


def test_up_to_version_7_nothing_is_planned_over_a_pending_write(golden_table: Unpack) -> None:
    state = open_state(str(golden_table("v6_mor_failed_lazy")))
    assert any(piece.log_files for piece in state.view.latest_slices())
    assert (
        plan_compaction(
            state.view, state.contents, UNBOUNDED, table_version=6, requested_time="2027"
        )
        is None
    )


def test_classes_of_hudi_are_known_with_and_without_their_package() -> None:
    given = "org.apache.hudi.table.action.compact.strategy.UnBoundedCompactionStrategy, "
    options = WriteOptions.from_options(
        {"hoodie.compaction.strategy": f"{given}LogFileNumBasedCompactionStrategy"}
    )
    assert options.services.compaction.strategies == (
        CompactionStrategy.UNBOUNDED,
        CompactionStrategy.LOG_FILE_NUM,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.compaction.strategy", "com.example.Mine"),
        ("hoodie.compact.inline.trigger.strategy", "WHENEVER"),
        ("hoodie.compact.inline.max.delta.commits", "0"),
        ("hoodie.compaction.partition.path.regex", "("),
    ],
)
def test_a_wrong_option_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        WriteOptions.from_options({name: value})
