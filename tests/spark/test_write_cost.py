"""What a small commit may cost: jobs of Spark, and looks at the timeline."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidelake import Table

BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
SIMPLE = {"hoodie.index.type": "SIMPLE"}


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(spark: SparkSession, root: Path, table_type: str, options: dict[str, str]) -> str:
    table = Table.create(
        spark,
        str(root / "trips"),
        changes(spark, 0),
        key="id",
        partition_by="city",
        ordering="ts",
        table_type=table_type,
        options=options,
    )
    table.upsert(changes(spark, 0))
    return table.path


def changes(spark: SparkSession, ts: int) -> DataFrame:
    rows = [(f"key{n}", f"city{n % 3}", ts, n) for n in range(20)]
    return spark.createDataFrame(rows, "id string, city string, ts bigint, fare int")


@contextmanager
def jobs(spark: SparkSession) -> Iterator[list[int]]:
    """Give the jobs that ran meanwhile, once it is over."""
    found: list[int] = []
    context = spark.sparkContext
    group = f"counted-{id(found)}"
    context.setJobGroup(group, group)
    yield found
    found += context.statusTracker().getJobIdsForGroup(group)


_LISTED: list[str] = []


def _note(event: str, arguments: tuple[object, ...]) -> None:
    # What is deleted is listed by descriptor.
    if event == "os.scandir" and isinstance(arguments[0], str):
        _LISTED.append(arguments[0])


@pytest.fixture
def listed() -> list[str]:
    """Return the folders that this process lists from now on."""
    if not _LISTED:
        sys.addaudithook(_note)
    _LISTED.clear()
    return _LISTED


@pytest.mark.sampled(1)
def test_a_small_commit_with_the_bucket_index_takes_two_jobs(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    path = made(spark, tmp_path, table_type, BUCKETS)
    with jobs(spark) as ran:
        commit = Table.open(spark, path).upsert(changes(spark, 1))
    assert commit.updates == 20
    assert len(ran) == 2


@pytest.mark.sampled(1)
def test_a_write_lists_the_timeline_twice_and_each_partition_once(
    spark: SparkSession, tmp_path: Path, table_type: str, listed: list[str]
) -> None:
    """The second look is right before the commit: what others completed is not written over."""
    path = made(spark, tmp_path, table_type, BUCKETS)
    listed.clear()
    Table.open(spark, path).upsert(changes(spark, 1))
    assert sum(folder.endswith(".hoodie/timeline") for folder in listed) == 2
    partitions = sorted(Path(folder).name for folder in listed if "/.hoodie" not in folder)
    assert partitions == ["city=city0", "city=city1", "city=city2"]


@pytest.mark.sampled(1)
def test_a_small_commit_that_looks_for_keys_takes_six_jobs(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    path = made(spark, tmp_path, table_type, SIMPLE)
    with jobs(spark) as ran:
        commit = Table.open(spark, path).upsert(changes(spark, 1))
    assert commit.updates == 20
    assert len(ran) <= 6


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [BUCKETS, SIMPLE], ids=["buckets", "simple"])
@pytest.mark.parametrize("tasks", ["2", "9"])
def test_rows_that_are_spread_over_tasks_reach_their_groups(
    spark: SparkSession, tmp_path: Path, table_type: str, options: dict[str, str], tasks: str
) -> None:
    path = made(spark, tmp_path, table_type, options)
    table = Table.open(spark, path, options={"hoodie.upsert.shuffle.parallelism": tasks})
    before = {s.group for s in table.slices()}
    commit = table.upsert(changes(spark, 1))
    assert (commit.inserts, commit.updates) == (0, 20)
    assert {s.group for s in table.slices()} == before
    assert sorted(table.read().collect()) == sorted(changes(spark, 1).collect())


@pytest.mark.sampled(1)
def test_a_small_merge_takes_few_jobs(spark: SparkSession, tmp_path: Path, table_type: str) -> None:
    path = made(spark, tmp_path, table_type, BUCKETS)
    merge = Table.open(spark, path).merge(changes(spark, 1)).when_matched_update({"fare": "7"})
    with jobs(spark) as ran:
        commit = merge.execute(BUCKETS)
    assert commit.updates == 20
    assert len(ran) <= 8
