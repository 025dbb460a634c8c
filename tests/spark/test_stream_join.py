"""Two streams and a backfill fill one wide table at the same time, through the public doors."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidelake
from tidelake import Commit, Table

SCHEMA = (
    "id string, ride_ts bigint, city string, fare_ts bigint, fare double, tip double, "
    "rated_ts bigint, stars int"
)
SHARED = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}
STREAM = {**SHARED, "hoodie.write.partial.update.schema": "*"}
RIDES = ("ride_ts", "city")
FARES = ("fare_ts", "fare", "tip")
STARS = ("rated_ts", "stars")
Row = dict[str, Any]
NAMES = ("id", *RIDES, *FARES, *STARS)

#: The batches of each writer; every one has something late, and fares take a tip back.
RIDE_BATCHES: list[list[Row]] = [
    [{"id": "a", "ride_ts": 5, "city": "oslo"}, {"id": "b", "ride_ts": 1, "city": "rom"}],
    [{"id": "a", "ride_ts": 3, "city": "late"}, {"id": "b", "ride_ts": 2, "city": None}],
    [{"id": "only a ride", "ride_ts": 9, "city": "bern"}],
]
FARE_BATCHES: list[list[Row]] = [
    [{"id": "a", "fare_ts": 1, "fare": 7.5, "tip": 1.0}],
    [
        {"id": "a", "fare_ts": 2, "fare": 8.0, "tip": None},
        {"id": "b", "fare_ts": 8, "fare": 3.0, "tip": None},
    ],
    [{"id": "b", "fare_ts": 4, "fare": 99.0, "tip": 99.0}],
]
STAR_BATCHES: list[list[Row]] = [
    [{"id": "a", "rated_ts": 7, "stars": 4}, {"id": "b", "rated_ts": 1, "stars": 2}],
    [{"id": "a", "rated_ts": 6, "stars": 1}, {"id": "b", "rated_ts": 1, "stars": 3}],
]
EXPECTED = {
    "a": (5, "oslo", 2, 8.0, None, 7, 4),
    "b": (2, None, 8, 3.0, None, 1, 3),
    "only a ride": (9, "bern", None, None, None, None, None),
}


def columns(names: tuple[str, ...]) -> str:
    kinds = dict(part.split() for part in SCHEMA.split(", "))
    return ", ".join(f"{name} {kinds[name]}" for name in ("id", *names))


def stream(
    spark: SparkSession, folder: Path, batches: list[list[Row]], names: tuple[str, ...], path: str
) -> None:
    """Run a query over files, one a batch, to its end."""
    (folder / "in").mkdir(parents=True)
    for number, batch in enumerate(batches):
        file = folder / "in" / f"{number}.json"
        file.write_text("".join(json.dumps(row) + "\n" for row in batch))
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    source = spark.readStream.schema(columns(names)).option("maxFilesPerTrigger", 1)
    query = (
        source.json(str(folder / "in"))
        .writeStream.foreachBatch(tidelake.sink(path, STREAM))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    assert query.exception() is None


def backfill(spark: SparkSession, path: str) -> list[Commit]:
    table = Table.open(spark, path, STREAM)
    frames = [spark.createDataFrame(batch, columns(STARS)) for batch in STAR_BATCHES]
    return [table.upsert(frames[0]), table.upsert(frames[1])]


def found(table: Table) -> dict[str, tuple[Any, ...]]:
    return {row["id"]: tuple(row[n] for n in NAMES[1:]) for row in table.read().collect()}


@pytest.mark.deep
@pytest.mark.slow
def test_two_streams_and_a_backfill_join_in_one_table(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    groups = ";".join(f"{names[0]}:{','.join(names[1:])}" for names in (RIDES, FARES, STARS))
    table = Table.create(
        spark,
        path,
        SCHEMA,
        key="id",
        table_type="MERGE_ON_READ",
        options={**SHARED, "hoodie.table.partial.update.ordering": groups},
    )
    with ThreadPoolExecutor(3) as pool:
        rides = pool.submit(stream, spark, tmp_path / "rides", RIDE_BATCHES, RIDES, path)
        fares = pool.submit(stream, spark, tmp_path / "fares", FARE_BATCHES, FARES, path)
        written = backfill(spark, path)
        Table.open(spark, path, SHARED).compact()
        rides.result()
        fares.result()
    assert [commit.attempts for commit in written] == [1, 1]
    timeline = table.timeline()
    assert all(i.is_completed for i in timeline)
    assert sum(i.action.value == "deltacommit" for i in timeline) == 8, "nobody gave way"
    assert found(table) == EXPECTED
    Table.open(spark, path, SHARED).compact()
    assert found(table) == EXPECTED
    merged = spark.createDataFrame([("a", 0.5)], "id string, tip double")
    changes = table.merge(merged, None).when_matched_update({"tip": "source.tip"})
    changes.execute()
    assert found(table) == {**EXPECTED, "a": (5, "oslo", 2, 8.0, 0.5, 7, 4)}
