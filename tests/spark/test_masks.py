"""Base rows that logs overrule, left out by a condition or by a join."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tidelake import Table
from tidelake.spark.read import native

_PARTITIONS = ("a", "b", "c")


@pytest.mark.parametrize(
    ("compared_files", "spelled_bytes"), [(0, 0), (len(_PARTITIONS), 0), (len(_PARTITIONS), 4096)]
)
def test_rows_of_logs_take_the_place_of_base_rows(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compared_files: int,
    spelled_bytes: int,
) -> None:
    monkeypatch.setattr(native, "_COMPARED_FILES", compared_files)
    monkeypatch.setattr(native, "_SPELLED_BYTES", spelled_bytes)
    old = {(part, key): 0 for part in _PARTITIONS for key in range(130)}
    # The logs overrule rows at both ends of words, all rows of one file and none of another.
    new = {("a", key): 1 for key in (0, 63, 64, 127, 129)} | {("b", key): 1 for key in range(130)}
    table = Table.create(
        spark,
        str(tmp_path / "t"),
        _frame(spark, old),
        name="t",
        key="key",
        partition_by="part",
        table_type="MERGE_ON_READ",
        options={"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"},
    )
    table.bulk_insert(_frame(spark, old))
    table.upsert(_frame(spark, new))
    table.delete(_frame(spark, {("a", 5): 0}))
    found = {(row.part, row.key): row.value for row in table.read().collect()}
    assert found == {at: value for at, value in {**old, **new}.items() if at != ("a", 5)}


@pytest.mark.parametrize("compared_files", [0, 32])
def test_a_plan_stays_readable_however_long_the_masks_are(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    compared_files: int,
) -> None:
    monkeypatch.setattr(native, "_COMPARED_FILES", compared_files)
    table = Table.create(
        spark,
        tmp_path / "t",
        "part string, key long, value long",
        key="key",
        table_type="MERGE_ON_READ",
        options={"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"},
    )
    rows = spark.range(20_000).selectExpr("'a' part", "id key", "0l value")
    table.bulk_insert(rows)
    table.upsert(rows.where("key % 3 = 0").withColumn("value", F.lit(1)))
    found = Table.open(spark, table.path, {"hoodie.read.merge.path": "mask"}).read()
    assert found.agg(F.sum("value"), F.count("*")).collect() == [(6_667, 20_000)]
    capsys.readouterr()
    found.explain()
    plan = capsys.readouterr().out
    assert "parquet" in plan
    assert len(plan) < 5_000


def _frame(spark: SparkSession, rows: dict[tuple[str, int], int]) -> DataFrame:
    values = [(part, key, value) for (part, key), value in rows.items()]
    return spark.createDataFrame(values, "part string, key long, value long")
