"""Streams into a table and out of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import tidelake
from tidelake import Table

SCHEMA = "id string, ts bigint, v int"
NAME = "hoodie.datasource.write.streaming.checkpoint.identifier"
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
}


def rows(spark: SparkSession, *values: tuple[str, int, int]) -> DataFrame:
    return spark.createDataFrame(list(values), SCHEMA)


def found(table: Table) -> dict[str, tuple[int, int]]:
    return {r["id"]: (r["ts"], r["v"]) for r in table.read().collect()}


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Table:
    table = Table.create(spark, str(tmp_path / "source"), SCHEMA, key="id", ordering="ts")
    table.upsert(rows(spark, ("a", 1, 1), ("b", 1, 1)))
    return table


def follow(spark: SparkSession, table: Table, **options: Any) -> DataFrame:
    tidelake.register(spark)
    return spark.readStream.format("tidelake").options(**options).load(table.path)


def run(stream: DataFrame, path: str, checkpoint: Path, options: dict[str, str]) -> StreamingQuery:
    query = (
        stream.select("id", "ts", "v")
        .writeStream.foreachBatch(tidelake.sink(path, options))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(240)
    return query


@pytest.mark.slow
def test_a_table_follows_another_and_restarts_where_it_was(
    spark: SparkSession, source: Table, tmp_path: Path
) -> None:
    path = str(tmp_path / "copy")
    run(follow(spark, source), path, tmp_path / "checkpoint", OPTIONS)
    copy = Table.open(spark, path)
    assert found(copy) == {"a": (1, 1), "b": (1, 1)}
    commits = len(copy.timeline())
    source.upsert(rows(spark, ("b", 2, 2), ("c", 1, 3)))
    source.upsert(rows(spark, ("d", 1, 4)))
    stream = follow(spark, source, maxFilesPerTrigger="1")
    run(stream, path, tmp_path / "checkpoint", OPTIONS)
    assert found(copy) == {"a": (1, 1), "b": (2, 2), "c": (1, 3), "d": (1, 4)}
    assert len(copy.timeline()) >= commits + 2, "a commit at a time"
    again = len(copy.timeline())
    run(follow(spark, source), path, tmp_path / "checkpoint", OPTIONS)
    assert len(copy.timeline()) == again, "nothing new, nothing written"


@pytest.mark.slow
def test_a_batch_that_comes_again_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {
        **OPTIONS,
        "hoodie.datasource.write.operation": "insert",
        NAME: "clicks",
        "hoodie.index.type": "SIMPLE",
    }
    write = tidelake.sink(path, options)
    for batch in (0, 1, 1, 0, 1):
        write(rows(spark, (f"k{batch}", 1, batch)), batch)
    table = Table.open(spark, path)
    assert sorted(r["id"] for r in table.read().collect()) == ["k0", "k1"]
    other = tidelake.sink(path, {**options, NAME: "views"})
    other(rows(spark, ("k0 of views", 1, 0)), 0)
    assert table.read().count() == 3


@pytest.mark.deep
@pytest.mark.slow
def test_two_streams_may_begin_a_table_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    Table.create(spark, path, SCHEMA, options=OPTIONS)
    monkeypatch.setattr(Table, "exists", lambda *_: False)
    tidelake.sink(path, {**OPTIONS, NAME: "views"})(rows(spark, ("a", 1, 1)), 0)
    assert found(Table.open(spark, path)) == {"a": (1, 1)}


@pytest.mark.deep
@pytest.mark.slow
def test_outside_of_a_query_the_number_of_a_batch_tells(
    spark: SparkSession, tmp_path: Path
) -> None:
    write = tidelake.sink(str(tmp_path / "t"), OPTIONS)
    write(rows(spark, ("a", 1, 1)), 0)
    write(rows(spark, ("a", 1, 2)), 0)
    assert found(Table.open(spark, str(tmp_path / "t"))) == {"a": (1, 1)}


@pytest.mark.slow
@pytest.mark.parametrize("index", ["BUCKET", "GLOBAL_SIMPLE"])
def test_what_may_be_another_batch_is_not_dropped(
    spark: SparkSession, tmp_path: Path, index: str
) -> None:
    options = {**OPTIONS, "hoodie.index.type": index}
    path = str(tmp_path / "t")
    upsert = tidelake.sink(path, options)
    delete = tidelake.sink(path, {**options, "hoodie.datasource.write.operation": "delete"})
    upsert(rows(spark, ("a", 1, 1), ("b", 1, 1)), 0)
    delete(rows(spark, ("a", 1, 1)), 0)
    table = Table.open(spark, path)
    assert found(table) == {"b": (1, 1)}
    with pytest.raises(tidelake.ConfigError, match="batch 0 again with other rows"):
        tidelake.sink(path, options)(rows(spark, ("c", 1, 1)), 0)
    upsert(rows(spark, ("c", 1, 1)), 3)
    with pytest.raises(tidelake.ConfigError, match="batch 2 after its batch 3"):
        upsert(rows(spark, ("d", 1, 1)), 2)
    upsert(rows(spark, ("a", 1, 1), ("b", 1, 1)), 0)
    assert found(table) == {"b": (1, 1), "c": (1, 1)}


@pytest.mark.deep
@pytest.mark.slow
def test_a_name_belongs_to_one_checkpoint(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    query = "first"
    monkeypatch.setattr("tidelake.spark.sink._query_id", lambda *_, **__: query)
    write = tidelake.sink(path, {**OPTIONS, NAME: "clicks"})
    write(rows(spark, ("a", 1, 1)), 0)
    write(rows(spark, ("a", 1, 2)), 0)
    query = "second"
    with pytest.raises(tidelake.ConfigError, match="1 batches with another checkpoint"):
        write(rows(spark, ("b", 1, 1)), 0)
    tidelake.sink(path, OPTIONS)(rows(spark, ("c", 1, 1)), 0)
    assert found(Table.open(spark, path)) == {"a": (1, 1), "c": (1, 1)}


@pytest.mark.slow
def test_latest_starts_behind_what_is_there(
    spark: SparkSession, source: Table, tmp_path: Path
) -> None:
    path = str(tmp_path / "copy")
    options = {"hoodie.datasource.streaming.startOffset": "latest"}
    run(follow(spark, source, **options), path, tmp_path / "checkpoint", OPTIONS)
    source.upsert(rows(spark, ("z", 1, 9)))
    run(follow(spark, source, **options), path, tmp_path / "checkpoint", OPTIONS)
    assert found(Table.open(spark, path)) == {"z": (1, 9)}
