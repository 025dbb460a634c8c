"""One rule for ordering values, nulls included, wherever two rows of a key are compared."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tidelake import Table
from tidelake.model import MergeMode
from tidelake.records import MergeSpec
from tidelake.records._polars import polars as pl
from tidelake.records.merge import _outranks
from tidelake.spark.write.ordering import is_older_than

VALUES: dict[str, Sequence[Any]] = {
    "bigint": [None, -1, 0, 1, 2**60],
    "double": [None, -1.5, -0.0, 0.0, 1.5, float("nan"), float("inf")],
    "decimal(9,2)": [None, Decimal("-0.01"), Decimal(0), Decimal("7.5")],
    "string": [None, "", "0", "a", "ä"],
    "date": [None, dt.date(1969, 1, 1), dt.date(1970, 1, 1), dt.date(2026, 1, 1)],
    "boolean": [None, False, True],
}
SCHEMA = "id string, city string, ts bigint, fare int, note string"
PARTIAL = {"hoodie.spark.sql.merge.into.partial.updates": "true"}


def both(spark: SparkSession, kinds: Sequence[str], merge: MergeSpec) -> None:
    """Compare all pairs of values in Spark, and as the files of a table are merged."""
    fields = [f"o{at}" for at in range(len(kinds))]
    tuples = list(product(*(VALUES.get(kind, ()) or BINLOG for kind in kinds)))
    pairs = [(*one, *other) for one, other in product(tuples, tuples)]
    names = [*fields, *(f"old_{name}" for name in fields)]
    schema = ", ".join(f"{n} {kind}" for n, kind in zip(names, (*kinds, *kinds), strict=True))
    frame = spark.createDataFrame(pairs, schema)
    found = frame.select("*", is_older_than(frame, fields, "old_", merge).alias("older")).toArrow()
    series = [pl.Series(found.column(name).to_pylist(), strict=False) for name in names]
    half = len(fields)
    wins = _outranks(tuple(series[:half]), tuple(series[half:]), merge)
    wrong = [
        pair for pair, o, w in zip(pairs, found["older"].to_pylist(), wins, strict=True) if o == w
    ]
    assert not wrong


BINLOG = [None, "nothing", "bin.000009.1", "bin.000010.2", "bin.000010.11"]


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [*([kind] for kind in VALUES), ["bigint", "date"]])
def test_spark_compares_as_the_files_do(spark: SparkSession, kinds: list[str]) -> None:
    fields = tuple(f"o{at}" for at in range(len(kinds)))
    both(spark, kinds, MergeSpec(mode=MergeMode.EVENT_TIME, ordering_fields=fields))


@pytest.mark.slow
def test_positions_in_a_binlog_are_numbers(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VALUES, "string", BINLOG)
    merge = MergeSpec(mode=MergeMode.EVENT_TIME, ordering_fields=("o0",), binlog_ordering=True)
    both(spark, ["string"], merge)


def created(spark: SparkSession, path: Path, kind: str, **options: str) -> Table:
    given: dict[str, Any] = {"table_type": kind, "ordering": "ts", "key": "id"}
    given["partition_by"] = "city"
    return Table.create(spark, str(path), SCHEMA, options=options, **given)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_null_wins_by_one_rule_in_place_and_by_a_move(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    options = {"hoodie.index.type": "GLOBAL_SIMPLE"}
    table = created(spark, tmp_path / "t", kind, **options)
    pairs = {"a": (5, None), "b": (-1, None), "c": (None, -1), "d": (None, None), "e": (None, 1)}
    for city in ("oslo", "rom"):
        old = [(f"{key}-{city}", "oslo", ts, 0, None) for key, (ts, _) in pairs.items()]
        table.upsert(spark.createDataFrame(old, SCHEMA))
        new = [(f"{key}-{city}", city, ts, 1, None) for key, (_, ts) in pairs.items()]
        table.upsert(spark.createDataFrame(new, SCHEMA))
    won = {r["id"]: r["fare"] for r in table.read().collect()}
    wanted = {"a": 0, "b": 1, "c": 0, "d": 1, "e": 1}
    assert won == {f"{key}-{city}": w for key, w in wanted.items() for city in ("oslo", "rom")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_an_update_that_is_older_than_its_row_changes_nothing(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = created(spark, tmp_path / "t", kind, **PARTIAL)
    table.upsert(spark.createDataFrame([("a", "oslo", 5, 10, "x")], SCHEMA))
    news = spark.createDataFrame([("a", 1)], "id string, v int")

    def merged(ts: str, **values: str) -> None:
        update = {"ts": ts, **values}
        table.merge(news, on="id").when_matched_update(update).execute(options=PARTIAL)

    merged("6L", note="'six'")
    table.update_where("id = 'a'", {"ts": "1L", "fare": "99"}, options=PARTIAL)
    table.update_where("id = 'a'", {"ts": F.lit(None), "fare": "98"}, options=PARTIAL)
    merged("null", fare="97")
    merged("2L", fare="96")
    assert [tuple(r) for r in table.read().collect()] == [("a", "oslo", 6, 10, "six")]
    table.update_where("id = 'a'", {"ts": "7L", "fare": "11"}, options=PARTIAL)
    table.update_where("id = 'a'", {"note": "'seven'"}, options=PARTIAL)
    assert [tuple(r) for r in table.read().collect()] == [("a", "oslo", 7, 11, "seven")]
