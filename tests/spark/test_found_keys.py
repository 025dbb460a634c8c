"""Keys are found where they are now, not where they once were."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelake import Table

SCHEMA = "id string, city string, ts bigint"
Row = tuple[str, str, int]


class Trips:
    """A small merge-on-read table."""

    def __init__(self, spark: SparkSession, root: Path, index: str, version: int = 9) -> None:
        self._spark = spark
        self.table = Table.create(
            spark,
            str(root),
            SCHEMA,
            key="id",
            partition_by="city",
            ordering="ts",
            table_type="MERGE_ON_READ",
            table_version=version,
            options={"hoodie.index.type": index},
        )

    def upsert(self, *rows: Row) -> None:
        self.table.upsert(self._spark.createDataFrame(list(rows), SCHEMA))

    def insert(self, *rows: Row) -> None:
        self.table.insert(self._spark.createDataFrame(list(rows), SCHEMA))

    def rows(self) -> list[Row]:
        return sorted((r["id"], r["city"], r["ts"]) for r in self.table.read().collect())


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("version", [6, 9])
def test_a_key_that_was_deleted_comes_back_elsewhere_with_a_lower_ordering_value(
    spark: SparkSession, tmp_path: Path, version: int
) -> None:
    trips = Trips(spark, tmp_path / "t", "GLOBAL_SIMPLE", version)
    trips.upsert(("a", "oslo", 9), ("b", "oslo", 9))
    trips.table.delete_where("id = 'a'")
    trips.upsert(("a", "rom", 1))
    assert trips.rows() == [("a", "rom", 1), ("b", "oslo", 9)]


@pytest.mark.slow
def test_a_key_that_moved_is_changed_where_it_is(spark: SparkSession, tmp_path: Path) -> None:
    trips = Trips(spark, tmp_path / "t", "GLOBAL_SIMPLE")
    trips.upsert(("a", "oslo", 1), ("b", "oslo", 1))
    trips.upsert(("a", "rom", 2))
    trips.upsert(("a", "rom", 3))
    assert trips.rows() == [("a", "rom", 3), ("b", "oslo", 1)]
    trips.upsert(("a", "oslo", 4))
    assert trips.rows() == [("a", "oslo", 4), ("b", "oslo", 1)]


@pytest.mark.deep
@pytest.mark.slow
def test_a_key_that_was_deleted_and_inserted_is_in_one_file_only(
    spark: SparkSession, tmp_path: Path
) -> None:
    trips = Trips(spark, tmp_path / "t", "SIMPLE")
    trips.upsert(("a", "oslo", 1), ("b", "oslo", 1))
    trips.table.delete_where("id = 'a'")
    trips.table.bulk_insert(spark.createDataFrame([("a", "oslo", 2)], SCHEMA))
    trips.upsert(("a", "oslo", 3))
    assert trips.rows() == [("a", "oslo", 3), ("b", "oslo", 1)]


@pytest.mark.deep
@pytest.mark.slow
def test_a_key_that_came_back_behind_a_plan_is_found_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    trips = Trips(spark, tmp_path / "t", "SIMPLE")
    trips.upsert(("a", "oslo", 1), ("b", "oslo", 1))
    trips.table.delete_where("id = 'a'")
    planned = trips.table.compact.schedule()
    assert planned is not None
    # Its file group is the one with the old base file, and the new one will not have the key.
    trips.upsert(("a", "oslo", 2))
    trips.table.compact.run(planned)
    trips.upsert(("a", "oslo", 3))
    assert trips.rows() == [("a", "oslo", 3), ("b", "oslo", 1)]
    trips.table.delete_where("id = 'a'")
    assert trips.rows() == [("b", "oslo", 1)]


@pytest.mark.deep
@pytest.mark.slow
def test_of_a_key_that_comes_in_two_partitions_the_newer_row_is_taken(
    spark: SparkSession, tmp_path: Path
) -> None:
    trips = Trips(spark, tmp_path / "t", "GLOBAL_SIMPLE")
    trips.upsert(("a", "oslo", 2), ("a", "rom", 5), ("a", "bern", 3))
    assert trips.rows() == [("a", "rom", 5)]
    trips.upsert(("a", "oslo", 7), ("a", "bern", 6))
    assert trips.rows() == [("a", "oslo", 7)]
