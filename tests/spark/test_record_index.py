"""Keys that are looked up in the record index of the metadata table."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tests.spark.test_write_cost import jobs
from tidelake import Table
from tidelake.env import Env
from tidelake.metadata.own_table import OwnTable
from tidelake.metadata.table import MetadataTable
from tidelake.metadata.upkeep import GroupToCompact
from tidelake.spark.workers.metadata_groups import compact_on
from tidelake.storage import LocalStorage
from tidelake.timeline import load_table_config, load_timeline
from tidelake.txn import InstantTimes

MADE = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
INDEXED = {**MADE, "hoodie.index.type": "RECORD_INDEX"}
MOVING = {
    **MADE,
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.record.index.update.partition.path": "true",
}


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def rows(spark: SparkSession, *given: tuple[str, str, int, int]) -> DataFrame:
    return spark.createDataFrame(list(given), "id string, city string, ts bigint, fare int")


def made(
    spark: SparkSession, root: Path, table_type: str, options: dict[str, str]
) -> tuple[Table, DataFrame]:
    first = rows(spark, *((f"k{n}", f"c{n % 3}", 1, n) for n in range(30)))
    table = Table.create(
        spark,
        str(root / "trips"),
        first,
        key="id",
        partition_by="city",
        ordering="ts",
        table_type=table_type,
        options=options,
    )
    table.bulk_insert(first)
    return Table.open(spark, table.path, options=options), first


def found(table: Table, key: str) -> list[tuple[str, str, int, int]]:
    """Return partition path, city, ordering value and fare of the rows of a key."""
    frame = table.read(where=f"id = '{key}'", meta=True)
    return [
        tuple(r) for r in frame.select("_hoodie_partition_path", "city", "ts", "fare").collect()
    ]


@pytest.mark.sampled(1)
def test_keys_are_found_where_the_index_has_them(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    table, first = made(spark, tmp_path, table_type, INDEXED)
    groups = {s.group for s in table.slices()}
    with jobs(spark) as ran:
        commit = table.upsert(first.withColumns({"ts": F.lit(2), "fare": F.col("fare") + 1000}))
    assert (commit.inserts, commit.updates) == (0, 30)
    assert len(ran) <= 6
    assert {s.group for s in table.slices()} == groups
    assert table.read(where="fare >= 1000").count() == table.read().count() == 30
    more = rows(spark, *((f"k{n}", f"c{n % 3}", 3, -n) for n in range(25, 40)))
    commit = table.upsert(more)
    assert (commit.inserts, commit.updates) == (10, 5)
    assert table.read().count() == table.read().select("id").distinct().count() == 40
    assert table.delete(rows(spark, ("k1", "c1", 9, 9), ("nobody", "c1", 9, 9))).deletes == 1
    assert not found(table, "k1")
    assert table.upsert(rows(spark, ("k1", "c2", 4, 4))).inserts == 1
    assert found(table, "k1") == [("city=c2", "c2", 4, 4)]


@pytest.mark.sampled(1)
def test_a_key_with_another_partition_stays_unless_asked_for(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    table, _ = made(spark, tmp_path, table_type, INDEXED)
    table.upsert(rows(spark, ("k0", "c9", 5, 500), ("k3", "c0", 5, 503)))
    assert found(table, "k0") == [("city=c0", "c0", 5, 500)]
    assert table.read(where="city = 'c9'").count() == 0
    assert table.read(where="city = 'c0' and fare >= 500").count() == 2
    assert table.delete_where("city = 'c0' and fare = 503").deletes == 1
    table.upsert(rows(spark, ("k3", "c0", 5, 3)))
    moving = Table.open(spark, table.path, options=MOVING)
    commit = moving.upsert(
        rows(spark, ("k1", "c9", 5, 501), ("k2", "c9", 0, 502), ("n", "c9", 1, 1))
    )
    assert commit.deletes == 1
    assert found(moving, "k1") == [("city=c9", "c9", 5, 501)]
    assert found(moving, "k2") == [("city=c2", "c2", 1, 2)], "the row that is there is newer"
    moving.upsert(rows(spark, ("k1", "c9", 6, 601)))
    assert found(moving, "k1") == [("city=c9", "c9", 6, 601)]
    assert moving.read().count() == 31


@pytest.mark.sampled(1)
def test_keys_of_replaced_partitions_are_new_when_they_come_again(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    table, _ = made(spark, tmp_path, table_type, INDEXED)
    table.insert_overwrite(rows(spark, ("k0", "c0", 2, 100), ("n", "c0", 2, 101)))
    table.delete_partitions(["city=c1"])
    again = rows(spark, ("k0", "c0", 3, 0), ("k3", "c0", 3, 3), ("k1", "c1", 3, 1))
    commit = table.upsert(again)
    assert (commit.inserts, commit.updates) == (2, 1)
    assert table.read().count() == table.read().select("id").distinct().count() == 14
    assert commit.deletes == 0
    assert found(table, "k1") == [("city=c1", "c1", 3, 1)]


@pytest.mark.sampled(1)
def test_what_a_merge_or_a_row_deleted_is_new_when_it_comes_again(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    first = spark.createDataFrame(
        [(f"k{n}", "a", 1, False) for n in range(8)],
        "id string, city string, ts bigint, _hoodie_is_deleted boolean",
    )
    table = Table.create(
        spark,
        str(tmp_path / "t"),
        first,
        key="id",
        partition_by="city",
        ordering="ts",
        table_type=table_type,
        options=INDEXED,
    )
    table.bulk_insert(first)
    table = Table.open(spark, table.path, options=INDEXED)
    table.merge(first.where("id = 'k1'")).when_matched_delete().execute()
    gone = first.where("id = 'k2'").withColumns({"ts": F.lit(2), "_hoodie_is_deleted": F.lit(True)})
    table.upsert(gone)
    assert table.read().count() == 6
    again = first.where("id in ('k1', 'k2')").withColumns({"city": F.lit("b"), "ts": F.lit(3)})
    table.upsert(again)
    in_b = [r[0] for r in table.read(where="city = 'b'", meta=True).select("id").collect()]
    assert sorted(in_b) == ["k1", "k2"]
    with pytest.raises(Exception, match=r"a row to insert has the key 'k[12]'"):
        table.merge(again, on="target.ts = source.ts + 100").when_not_matched_insert_all().execute()
    assert table.read().count() == 8


@pytest.mark.deep
def test_many_keys_are_looked_up_where_their_entries_lie(
    spark: SparkSession, tmp_path: Path
) -> None:
    many = spark.range(0, 120_000, 1, 3).selectExpr(
        "concat('key-', id) as id", "concat('c', id % 2) as city", "1L as ts", "0 as fare"
    )
    table = Table.create(
        spark, str(tmp_path / "t"), many, key="id", partition_by="city", ordering="ts",
        options=INDEXED,
    )  # fmt: skip
    table.bulk_insert(many)
    table = Table.open(spark, table.path, options=INDEXED)
    commit = table.upsert(many.where("id < 'key-9'").withColumn("ts", F.lit(2)))
    assert commit.inserts == 0
    assert commit.updates == table.read(where="ts = 2").count() > 100_000
    assert table.read().count() == 120_000


def test_without_an_index_every_partition_is_looked_through(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, _ = made(spark, tmp_path, "COPY_ON_WRITE", {})
    indexed = Table.open(spark, table.path, options={"hoodie.index.type": "RECORD_INDEX"})
    with caplog.at_level(logging.WARNING, "tidelake"):
        indexed.upsert(rows(spark, ("k0", "c9", 5, 500)))
    assert "has no record index" in caplog.text
    assert [(path, fare) for path, _, _, fare in found(indexed, "k0")] == [("city=c0", 500)]


@pytest.mark.deep
def test_a_large_metadata_table_is_compacted_by_workers(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, first = made(spark, tmp_path, "MERGE_ON_READ", INDEXED)
    table.upsert(first.withColumn("ts", F.lit(2)))
    storage = LocalStorage(table.path)
    own = OwnTable.load(storage)
    assert own is not None
    times = InstantTimes(Env(storage).clock, own.config, own.timeline)
    groups = [
        GroupToCompact(
            storage=own.storage.spec, slice=one, instant_time=times.next(), schema=own.schema
        )
        for partition in ("files", "record_index")
        for one in own.slices(partition)
    ]
    stats = compact_on(spark)(groups)
    assert [stat.file_id for stat in stats] == [one.slice.group.file_id for one in groups]
    assert sum(stat.num_writes or 0 for stat in stats[1:]) == 30
    assert all(own.storage.stat(stat.path or "") is not None for stat in stats)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("has_metadata_table", [False, True])
def test_a_table_that_has_rows_gets_an_index_of_them(
    spark: SparkSession, tmp_path: Path, table_type: str, has_metadata_table: bool
) -> None:
    before = {"hoodie.metadata.enable": str(has_metadata_table).lower()}
    table, first = made(spark, tmp_path, table_type, before)
    table.upsert(rows(spark, *((f"k{n}", f"c{n % 3}", 2, 0) for n in range(25, 35))))
    table.delete(rows(spark, ("k0", "c0", 3, 3)))
    table = Table.open(spark, table.path, options=INDEXED)
    commit = table.upsert(rows(spark, *((f"k{n}", "c9", 4, n) for n in range(30, 36))))
    assert (commit.inserts, commit.updates) == (1, 5)
    held = table.read(meta=True).collect()
    assert len(held) == len({row.id for row in held}) == 35
    storage = LocalStorage(table.path)
    config = load_table_config(storage)
    index = MetadataTable.open(storage, config, load_timeline(storage, config))
    assert index is not None
    places = {
        row["_hoodie_record_key"]: (
            row["_hoodie_partition_path"],
            row["_hoodie_file_name"].partition("_")[0],
        )
        for row in held
    }
    assert index.record_index_lookup([*places, "k0", "nobody"]) == places
    again = table.upsert(first.where("id in ('k0', 'k7')").withColumn("ts", F.lit(9)))
    assert (again.inserts, again.updates) == (1, 1)
