"""Rows that are hard to find again: odd keys, keys that move, and odd ordering values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import VERSION, write_options
from tests.interop.shared_table import COW, MOR, Kind, SharedTable
from tests.interop.truth import Row, rows
from tidelake import Table

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.skipif(VERSION != "1.2.0", reason="the release that writes every table version"),
]

LISTED = {"hoodie.metadata.enable": "false"}
COMPACTED = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}
#: New groups for new keys, so that a key that is not found shows as a second row.
NO_PACKING = {"hoodie.parquet.small.file.limit": "0"}
INDEXES = {
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
    "ring": {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.bucket.index.min.num.buckets": "2",
        "hoodie.bucket.index.max.num.buckets": "2",
    },
    "bloom": {"hoodie.index.type": "BLOOM", **NO_PACKING},
    "global bloom": {"hoodie.index.type": "GLOBAL_BLOOM", **NO_PACKING},
    "global simple": {"hoodie.index.type": "GLOBAL_SIMPLE", **NO_PACKING},
}
KEYS = (
    "id:1",
    "a,b",
    "a:b,c:d",
    " spaces around ",
    "ü雪🙂",
    "e\u0301",
    "x%2Fy/z",
    "'quoted' \"twice\"",
    "line\nbreak\ttab\\",
    "null",
    "__null__",
    "L" * 5000,
)


def odd(kept: Sequence[str], *, ts: int, note: str) -> list[Row]:
    made = rows(range(len(KEYS)), ts=ts, note=note)
    named = [row._replace(id=key) for row, key in zip(made, KEYS, strict=True)]
    return [row for row in named if row.id in kept]


@pytest.mark.parametrize("index", ["bucket", "ring", "bloom", "global simple"])
@pytest.mark.parametrize("table_type", [COW, MOR])
@pytest.mark.parametrize("table_version", [6, 9])
def test_both_find_odd_keys_again(
    table_version: int, table_type: str, index: str, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    if (table_type, index) == (COW, "ring"):
        pytest.skip("consistent hashing is for merge-on-read tables")
    kind = Kind(
        table_type=table_type, table_version=table_version, options=INDEXES[index], apache=LISTED
    )
    table = SharedTable(hudi_spark, tmp_path / "odd", kind)
    table.we("bulk_insert", odd(KEYS, ts=1, note="ours"))
    table.check("our load")
    table.they("upsert", odd(KEYS, ts=2, note="theirs"))
    table.check_last_turn("their upsert")
    table.we("upsert", odd(KEYS, ts=3, note="ours again"))
    table.check_last_turn("our upsert")
    table.we("delete", odd(KEYS[::3], ts=4, note="gone"))
    table.check("our delete")
    table.they("delete", odd(KEYS[1::3], ts=5, note="gone"))
    table.check("their delete")
    table.we("upsert", odd(KEYS, ts=6, note="back"))
    table.check("our rows come back")
    table.they("upsert", odd(KEYS, ts=7, note="at last"))
    table.check_last_turn("their last upsert")
    assert not table.differences, "\n".join(table.differences)


@pytest.mark.parametrize("index", ["global bloom", "global simple"])
@pytest.mark.parametrize("table_type", [COW, MOR])
@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_keys_move_between_partitions(
    table_version: int, table_type: str, index: str, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    def moved(numbers: range, *, ts: int, by: int) -> list[Row]:
        made = zip(numbers, rows(numbers, ts=ts, note=f"moved {ts}"), strict=True)
        return [row._replace(region=f"r{(n + by) % 3}") for n, row in made]

    kind = Kind(
        table_type=table_type, table_version=table_version, options=INDEXES[index], apache=LISTED
    )
    table = SharedTable(hudi_spark, tmp_path / "moved", kind)
    table.we("bulk_insert", rows(range(30), ts=1))
    table.we("upsert", moved(range(0, 30, 2), ts=2, by=1))
    table.check_last_turn("our moves")
    table.they("upsert", moved(range(0, 30, 3), ts=3, by=2))
    table.check_last_turn("their moves")
    table.we("upsert", moved(range(0, 36, 4), ts=4, by=0))
    table.check_last_turn("our moves back")
    table.we("delete", moved(range(0, 30, 5), ts=5, by=1))
    table.check("our delete, wherever the rows are")
    table.they("upsert", moved(range(0, 30), ts=6, by=1))
    table.check_last_turn("their moves of everything")
    table.we("upsert", moved(range(0, 30), ts=7, by=2))
    table.check_last_turn("our moves of everything")
    assert not table.differences, "\n".join(table.differences)


#: In the order in which Java compares them.
ORDERED = (-math.inf, -1.5, -0.0, 0.0, 1e-300, 1.5, math.inf, math.nan)
#: Places of what is written first and of what is written again: neighbours, in both orders.
PAIRS = [pair for at in range(len(ORDERED) - 1) for pair in ((at, at + 1), (at + 1, at))]


@pytest.mark.parametrize("table_type", [COW, MOR])
@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_both_order_odd_numbers_alike(
    table_version: int, table_type: str, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "ordered")
    schema = "id string, ts double, note string"
    first = [(f"k{n}", ORDERED[old], "first") for n, (old, _) in enumerate(PAIRS)]
    again = [(f"k{n}", ORDERED[new], "again") for n, (_, new) in enumerate(PAIRS)]
    owed = {f"k{n}": "again" if new > old else "first" for n, (old, new) in enumerate(PAIRS)}
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    table = Table.create(
        hudi_spark,
        path,
        schema,
        name="ordered",
        key="id",
        ordering="ts",
        table_type=table_type,
        table_version=table_version,
        options=options,
    )
    table.bulk_insert(hudi_spark.createDataFrame(first, schema), options=options)
    table.upsert(hudi_spark.createDataFrame(again, schema), options=options)

    def notes(reader: str) -> dict[str, str]:
        frame = hudi_spark.read.format("hudi").load(path) if reader == "theirs" else table.read()
        return {row.id: row.note for row in frame.select("id", "note").collect()}

    assert notes("theirs") == owed
    assert notes("ours") == owed

    given = {
        **write_options("ordered", table_type, table_version),
        **(COMPACTED if table_type == MOR else {}),
        **options,
        **LISTED,
    }
    last = [(key, ts, "last") for key, ts, _ in first]
    frame = hudi_spark.createDataFrame(last, schema)
    frame.write.format("hudi").options(**given).mode("append").save(path)
    owed = {f"k{n}": "again" if new > old else "last" for n, (old, new) in enumerate(PAIRS)}
    assert notes("theirs") == owed
    assert notes("ours") == owed
