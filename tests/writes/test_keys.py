"""Keys of every spelling and ordering values at the edges, for hudi-rs and for us."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.files import read_slice
from tidelake.operations.open_table import open_state
from tidelake.read.snapshot import plan_snapshot
from tidelake.spark.datasource.writer import TidelakeWriter

STRUCT = T.StructType(
    [
        T.StructField("id", T.StringType()),
        T.StructField("n", T.StringType()),
        T.StructField("ts", T.DoubleType()),
        T.StructField("v", T.LongType()),
    ]
)
ARROW = pa.schema(
    [("id", pa.string()), ("n", pa.string()), ("ts", pa.float64()), ("v", pa.int64())]
)
KEYS = [
    "a",
    "A",
    "a,b",
    "x:y",
    "id:5,z",
    "id:a,n:b",
    ",",
    ":",
    " ",
    " a ",
    "é",
    "e\u0301",
    "😀",
    "日本/語",
    "%2F",
    "a\tb\nc",
    "\x00",
    "__null__",
    "__empty__",
    "null",
    '"q"',
    "\\",
    "k" * 10_000,
    "k" * 9_999 + "l",
]


def write(root: Path, rows: list[dict[str, Any]], operation: str, **options: str) -> None:
    given = {
        "path": str(root),
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": operation,
        **{name.replace("__", "."): value for name, value in options.items()},
    }
    writer = TidelakeWriter(given, STRUCT, overwrite=False)
    batches = pa.Table.from_pylist(rows, schema=ARROW).to_batches(max_chunksize=7)
    writer.commit([writer.write(iter(batches))])


def both(root: Path) -> list[tuple[Any, ...]]:
    """Return key columns and values of all rows, on which both readers have to agree."""
    plan = plan_snapshot(open_state(str(root)))
    ours = [b for task in plan.tasks for b in read_slice(task, plan.spec)]
    found = _rows(ours)
    assert _rows(HudiTableBuilder.from_base_uri(str(root)).build().read()) == found
    return found


def _rows(batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted((row["id"], row["n"], row["v"]) for row in rows)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
@pytest.mark.parametrize("key", ["id", "id,n"])
def test_keys_of_any_spelling_are_told_apart(
    key: str, index: str, table_type: str, tmp_path: Path
) -> None:
    options = {
        "hoodie__datasource__write__recordkey__field": key,
        "hoodie__datasource__write__table__type": table_type,
        "hoodie__index__type": index,
        "hoodie__bucket__index__num__buckets": "3",
    }
    rows: list[dict[str, Any]] = [
        {"id": k, "n": f"n{at % 3}", "ts": 1.0, "v": at} for at, k in enumerate(KEYS)
    ]
    write(tmp_path, rows, "upsert", **options)
    assert both(tmp_path) == sorted((r["id"], r["n"], r["v"]) for r in rows)
    newer = [{**row, "ts": 2.0, "v": row["v"] + 100} for row in rows[::2]]
    write(tmp_path, newer, "upsert", **options)
    write(tmp_path, rows[1::4], "delete", **options)
    gone = {row["id"] for row in rows[1::4]}
    values = {row["id"]: row for row in (*rows, *newer)}
    assert both(tmp_path) == sorted(
        (r["id"], r["n"], r["v"]) for r in values.values() if r["id"] not in gone
    )


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("log_format", ["avro", "parquet"])
def test_ordering_values_at_the_edges(table_type: str, log_format: str, tmp_path: Path) -> None:
    options = {
        "hoodie__datasource__write__recordkey__field": "id",
        "hoodie__datasource__write__table__type": table_type,
        "hoodie__index__type": "BUCKET",
        "hoodie__bucket__index__num__buckets": "1",
        "hoodie__logfile__data__block__format": log_format,
    }
    # Ordering values of a row and of the one that comes after it, and whether the later wins.
    edges = [
        (math.nan, 9.9, False),
        (1.0, math.nan, True),
        (math.nan, math.inf, False),
        (math.inf, math.nan, True),
        (math.nan, math.nan, True),
        (-math.inf, -1e308, True),
        (0.0, 0.0, True),
        (0.0, -0.0, False),
        (-0.0, 0.0, True),
        (-0.0, -0.0, True),
        (-1.0, -2.0, False),
        (-2.0, -1.0, True),
        (5e-324, 0.0, False),
        (0.0, 5e-324, True),
    ]
    first = [
        {"id": f"k{at:02}", "n": "", "ts": old, "v": 1} for at, (old, _, _) in enumerate(edges)
    ]
    then = [{"id": f"k{at:02}", "n": "", "ts": new, "v": 2} for at, (_, new, _) in enumerate(edges)]
    write(tmp_path, first, "upsert", **options)
    write(tmp_path, then, "upsert", **options)
    assert both(tmp_path) == [
        (f"k{at:02}", "", 2 if wins else 1) for at, (*_, wins) in enumerate(edges)
    ]
