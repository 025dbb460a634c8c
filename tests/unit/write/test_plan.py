from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.unit.write.tables import options, table
from tidelake.config import IndexType, TableConfig, WriteOperation, WriteOptions
from tidelake.errors import UnsupportedTableError
from tidelake.files.write_task import WriteKind
from tidelake.formats.file_name import bucket_number, parse_base, parse_log
from tidelake.model import FileGroupId, FileSlice, TableType
from tidelake.write.groups import LiveGroup
from tidelake.write.index import FIXED_ID_END, Index
from tidelake.write.operation import planned_stats
from tidelake.write.plan import Workload, WritePlan, plan_new_files, plan_write

T1 = "20260101000000001"
A = "aaaaaaaa-2a8e-4bb7-874c-0a74e1f42a77-0"
B = "bbbbbbbb-2a8e-4bb7-874c-0a74e1f42a77-0"
THIRD = "00000003-2a8e-4bb7-874c-0a74e1f42a77-0"

MOR = table(table_type=TableType.MERGE_ON_READ)
COW = table()
BUCKETS = Index(type=IndexType.BUCKET, buckets=4, hash_fields=("id",))


class Numbers:
    def __init__(self) -> None:
        self.given = 0

    def new(self) -> str:
        self.given += 1
        return f"new-{self.given}"


def group(file_id: str, *, size: int = 1000, logs: int = 0, reserved: bool = False) -> LiveGroup:
    base = parse_base("p", f"{file_id}_0-1-2_{T1}.parquet", size)
    found = [parse_log("p", f".{file_id}_{T1}.log.{n + 1}_0-1-2", 10) for n in range(logs)]
    return LiveGroup(
        slice=FileSlice(
            group=FileGroupId("p", file_id),
            base_instant_time=T1,
            base_file=base if size else None,
            log_files=tuple(log for log in found if log is not None),
        ),
        log_instant=T1,
        log_version=logs + 1,
        is_reserved=reserved,
    )


def plan(
    operation: WriteOperation,
    config: TableConfig,
    counts: Mapping[tuple[str, str | None], int],
    *live: LiveGroup,
    index: Index = Index(),  # noqa: B008 - a frozen value
    given: WriteOptions = options(),  # noqa: B008
    by_file_id: bool = False,
    replaced: Mapping[FileGroupId, str] | None = None,
) -> WritePlan:
    return plan_write(
        operation,
        config,
        index,
        given,
        Workload(counts=counts),
        live,
        by_file_id=by_file_id,
        record_bytes=100,
        ids=Numbers(),
        replaced=replaced or {},
    )


def kinds(found: WritePlan) -> dict[str, WriteKind]:
    return {group: target.kind for (_, group), target in found.targets.items()}


@pytest.mark.parametrize(("config", "kind"), [(COW, WriteKind.MERGE), (MOR, WriteKind.APPEND)])
def test_known_keys_go_where_they_are(config: TableConfig, kind: WriteKind) -> None:
    found = plan(WriteOperation.UPSERT, config, {("p", A): 5}, group(A), group(B))
    assert kinds(found) == {A: kind}
    assert found.touched() == [FileGroupId("p", A)]


def test_new_keys_fill_a_small_file_and_its_updates_follow_it() -> None:
    counts: dict[tuple[str, str | None], int] = {("p", None): 5, ("p", A): 2, ("p", B): 1}
    found = plan(WriteOperation.UPSERT, MOR, counts, group(A), group(B, logs=1))
    assert kinds(found) == {A: WriteKind.MERGE, B: WriteKind.APPEND}
    assert [s.file_id for s in found.shares["p"]] == [A]
    assert found.base_bytes == 1000


def test_a_file_with_logs_or_plans_takes_no_inserts() -> None:
    live = (group(A, logs=1), group(B, reserved=True))
    found = plan(WriteOperation.UPSERT, MOR, {("p", None): 5}, *live)
    assert kinds(found) == {"new-1-0": WriteKind.CREATE}
    assert found.targets["p", "new-1-0"].partition_known


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (options(), WriteKind.CONCAT),
        (options(hoodie__merge__allow__duplicate__on__inserts="false"), WriteKind.MERGE),
    ],
)
def test_an_insert_keeps_duplicates_unless_told(given: WriteOptions, kind: WriteKind) -> None:
    found = plan(WriteOperation.INSERT, COW, {("p", None): 5}, group(A), given=given)
    assert kinds(found) == {A: kind}


def test_buckets_without_files_are_left_to_the_tasks() -> None:
    counts: dict[tuple[str, str | None], int] = {("p", "00000003"): 1, ("p", "00000001"): 1}
    found = plan(WriteOperation.UPSERT, COW, counts, group(THIRD), index=BUCKETS)
    assert kinds(found) == {"00000003": WriteKind.MERGE}
    assert found.new_buckets is not None
    assert found.new_buckets.kind is WriteKind.CREATE


def test_a_delete_makes_no_buckets() -> None:
    found = plan(WriteOperation.DELETE, COW, {("p", "00000001"): 1}, group(THIRD), index=BUCKETS)
    assert found.targets == {}
    assert found.new_buckets is not None
    assert found.new_buckets.kind is None


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("SINGLE_WRITER", WriteKind.CREATE),
        ("OPTIMISTIC_CONCURRENCY_CONTROL", WriteKind.CREATE),
        ("NON_BLOCKING_CONCURRENCY_CONTROL", WriteKind.APPEND),
    ],
)
def test_buckets_of_writers_that_never_give_way_begin_with_a_log(
    mode: str, kind: WriteKind
) -> None:
    index = Index(type=IndexType.BUCKET, buckets=4, hash_fields=("id",), fixed_ids=True)
    given = options(hoodie__write__concurrency__mode=mode)
    found = plan(WriteOperation.UPSERT, MOR, {("p", "00000001"): 1}, index=index, given=given)
    assert found.new_buckets is not None
    assert found.new_buckets.kind is kind
    assert found.new_buckets.fixed_ids


def test_a_bucket_with_two_file_groups_is_not_written_to() -> None:
    other = "00000003-1234-4abc-8def-0123456789ab-0"
    live = group(THIRD), group(other)
    for operation in (WriteOperation.UPSERT, WriteOperation.INSERT, WriteOperation.DELETE):
        with pytest.raises(UnsupportedTableError, match="bucket 3 of partition 'p' has two"):
            plan(operation, MOR, {("p", "00000003"): 1}, *live, index=BUCKETS)
    plan(WriteOperation.UPSERT, MOR, {("p", "00000001"): 1}, *live, index=BUCKETS)
    counts: dict[tuple[str, str | None], int] = {("p", THIRD): 1, ("p", other): 1}
    found = plan(WriteOperation.UPSERT, MOR, counts, *live, index=BUCKETS, by_file_id=True)
    assert len(found.targets) == 2, "rows that were read are changed where they are"


def test_rows_that_were_read_name_file_ids_even_with_buckets() -> None:
    counts: dict[tuple[str, str | None], int] = {("p", THIRD): 1}
    found = plan(WriteOperation.UPSERT, COW, counts, group(THIRD), index=BUCKETS, by_file_id=True)
    assert kinds(found) == {THIRD: WriteKind.MERGE}


def test_a_log_of_version_6_goes_behind_the_others() -> None:
    config = table(table_type=TableType.MERGE_ON_READ, table_version=6)
    found = plan(WriteOperation.UPSERT, config, {("p", A): 1}, group(A, logs=2))
    target = found.targets["p", A]
    assert (target.slice_instant, target.log_version) == (T1, 3)


def test_an_overwrite_makes_new_groups_of_the_right_size() -> None:
    given = options(hoodie__parquet__max__file__size="1000")
    found = plan_new_files(Workload(counts={("p", None): 25}), given, frozenset(), 100, Numbers())
    assert [s.rows for s in found.shares["p"]] == [9, 8, 8]
    assert set(kinds(found).values()) == {WriteKind.CREATE}


def test_the_inflight_file_tells_others_what_is_touched() -> None:
    counts: dict[tuple[str, str | None], int] = {("p", None): 5, ("p", A): 2}
    given = options(hoodie__parquet__small__file__limit="0")
    found = plan(WriteOperation.UPSERT, COW, counts, group(A), given=given)
    stats = planned_stats(Workload(counts=counts), found)["p"]
    assert {(s.file_id, s.num_inserts, s.num_update_writes) for s in stats} == {(A, 0, 2)}


def test_the_inflight_file_names_the_small_files_that_take_new_rows() -> None:
    counts: dict[tuple[str, str | None], int] = {("p", None): 5, ("new", None): 1}
    found = plan(WriteOperation.INSERT, COW, counts, group(A))
    told = planned_stats(Workload(counts=counts), found)
    assert [(s.file_id, s.num_inserts) for s in told["p"]] == [(A, 5)]
    assert told["new"] == []


def test_a_fixed_id_is_not_used_again_once_it_was_replaced() -> None:
    fixed = replace(BUCKETS, fixed_ids=True)
    groups = [FileGroupId("p", f"00000001{FIXED_ID_END}"), FileGroupId("p", THIRD)]
    replaced = {groups[0]: "20260101000000001", groups[1]: "20260102030405678"}
    found = plan(
        WriteOperation.UPSERT, MOR, {("p", "00000003"): 1}, index=fixed, replaced=replaced
    ).new_buckets
    assert found is not None
    assert found.renewed == {
        ("p", "00000001"): "00000001-2026-0101-0000-000000000001-0",
        ("p", "00000003"): "00000003-2026-0102-0304-000000005678-0",
    }
    assert [bucket_number(i) for i in found.renewed.values()] == [1, 3]
