"""What an insert does about keys that the table has, under every index and through both doors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake import SchemaError, Table
from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.files import read_slice
from tidelake.model import TableType
from tidelake.operations.open_table import open_state
from tidelake.read.snapshot import plan_snapshot
from tidelake.spark.datasource.writer import TidelakeWriter
from tidelake.spark.types.to_avro import avro_schema
from tidelake.storage import open_storage
from tidelake.txn import create_table
from tidelake.write.table_spec import table_spec

Row = tuple[str, str, int, str]
Insert = Callable[[Path, Sequence[Row], Mapping[str, str]], None]

STRUCT = T.StructType(
    [
        T.StructField("id", T.StringType()),
        T.StructField("p", T.StringType()),
        T.StructField("ts", T.LongType()),
        T.StructField("note", T.StringType()),
    ]
)
ARROW = pa.schema(
    [("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("note", pa.string())]
)
DROP = {"hoodie.datasource.insert.dup.policy": "drop"}
FAIL = {"hoodie.datasource.insert.dup.policy": "fail"}
LOCAL = {
    "simple": {"hoodie.index.type": "SIMPLE"},
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
}
MOVING = {
    "global": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "record index": {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.record.index.update.partition.path": "true",
    },
}
FIRST = [("a", "A", 5, "old"), ("b", "B", 5, "old")]
KINDS = [TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ]


def created(root: Path, kind: TableType, options: Mapping[str, str]) -> None:
    spec = table_spec(
        avro_schema(STRUCT, "t"),
        WriteOptions.from_options(options),
        name="t",
        key=("id",),
        partition_by=("p",),
        ordering=("ts",),
        table_type=kind,
    )
    create_table(Env(open_storage(str(root))), spec)


def through_source(
    root: Path, rows: Sequence[Row], options: Mapping[str, str], operation: str = "insert"
) -> None:
    given = {**options, "path": str(root), "hoodie.datasource.write.operation": operation}
    writer = TidelakeWriter(given, STRUCT, overwrite=False)
    made = [dict(zip(ARROW.names, row, strict=True)) for row in rows]
    writer.commit([writer.write(iter(pa.Table.from_pylist(made, schema=ARROW).to_batches()))])


def held(root: Path) -> list[Row]:
    plan = plan_snapshot(open_state(str(root)))
    found = (b for task in plan.tasks for b in read_slice(task, plan.spec))
    return sorted(as_row(row) for batch in found for row in batch.to_pylist())


def as_row(row: Mapping[str, Any]) -> Row:
    return row["id"], row["p"], row["ts"], row["note"]


@pytest.fixture(params=["Table", "data source"])
def insert(request: pytest.FixtureRequest) -> Insert:
    return through(request, "insert")


@pytest.fixture(params=["Table", "data source"])
def bulk_insert(request: pytest.FixtureRequest) -> Insert:
    return through(request, "bulk_insert")


def through(request: pytest.FixtureRequest, operation: str) -> Insert:
    if request.param == "data source":
        return partial(through_source, operation=operation)
    spark: SparkSession = request.getfixturevalue("spark")
    return through_table(spark, operation)


def through_table(spark: SparkSession, operation: str = "insert") -> Insert:
    def insert(root: Path, rows: Sequence[Row], options: Mapping[str, str]) -> None:
        given = {**options, "hoodie.datasource.write.operation": operation}
        Table.open(spark, str(root)).write(spark.createDataFrame(rows, STRUCT), options=given)

    return insert


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", LOCAL)
def test_an_insert_leaves_out_keys_that_the_table_has(
    insert: Insert, index: str, kind: TableType, tmp_path: Path
) -> None:
    created(tmp_path, kind, LOCAL[index])
    insert(tmp_path, FIRST, LOCAL[index])
    insert(tmp_path, [("a", "A", 9, "new"), ("a", "B", 9, "new"), ("c", "A", 1, "new")], {
        **LOCAL[index], **DROP,
    })  # fmt: skip
    assert held(tmp_path) == [
        ("a", "A", 5, "old"),
        ("a", "B", 9, "new"),
        ("b", "B", 5, "old"),
        ("c", "A", 1, "new"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("index", LOCAL)
def test_a_bulk_insert_leaves_out_or_refuses_them_as_well(
    bulk_insert: Insert, index: str, tmp_path: Path
) -> None:
    created(tmp_path, TableType.COPY_ON_WRITE, LOCAL[index])
    bulk_insert(tmp_path, FIRST, LOCAL[index])
    rows = [("a", "A", 9, "new"), ("c", "A", 1, "new")]
    with pytest.raises(SchemaError, match="in the table already"):
        bulk_insert(tmp_path, rows, {**LOCAL[index], **FAIL})
    bulk_insert(tmp_path, rows, {**LOCAL[index], **DROP})
    assert held(tmp_path) == [*FIRST, ("c", "A", 1, "new")]


@pytest.mark.slow
@pytest.mark.parametrize("index", LOCAL)
def test_an_insert_brings_a_key_back_that_was_deleted(
    insert: Insert, index: str, tmp_path: Path
) -> None:
    created(tmp_path, TableType.MERGE_ON_READ, LOCAL[index])
    insert(tmp_path, FIRST, LOCAL[index])
    through_source(tmp_path, FIRST[:1], LOCAL[index], "delete")
    insert(tmp_path, [("a", "A", 9, "new"), ("b", "B", 9, "new")], {**LOCAL[index], **DROP})
    assert held(tmp_path) == [("a", "A", 9, "new"), ("b", "B", 5, "old")]


@pytest.mark.slow
@pytest.mark.parametrize("index", LOCAL)
@pytest.mark.parametrize("rows", [[("a", "A", 9, "new")], [("z", "A", 1, "x"), ("z", "A", 2, "y")]])
def test_an_insert_fails_for_a_key_that_would_be_there_twice(
    insert: Insert, rows: Sequence[Row], index: str, tmp_path: Path
) -> None:
    created(tmp_path, TableType.COPY_ON_WRITE, LOCAL[index])
    insert(tmp_path, FIRST, LOCAL[index])
    with pytest.raises(SchemaError, match="in the table already, or comes twice"):
        insert(tmp_path, rows, {**LOCAL[index], **FAIL})
    assert held(tmp_path) == FIRST


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", MOVING)
def test_an_insert_leaves_out_keys_that_another_partition_has(
    spark: SparkSession, index: str, kind: TableType, tmp_path: Path
) -> None:
    insert = through_table(spark)
    created(tmp_path, kind, MOVING[index])
    insert(tmp_path, FIRST, MOVING[index])
    rows = [("a", "B", 9, "new"), ("b", "A", 1, "late"), ("c", "A", 1, "new")]
    insert(tmp_path, rows, {**MOVING[index], **DROP})
    assert held(tmp_path) == [*FIRST, ("c", "A", 1, "new")]
    with pytest.raises(SchemaError, match="in the table already"):
        insert(tmp_path, rows[:1], {**MOVING[index], **FAIL})
    assert held(tmp_path) == [*FIRST, ("c", "A", 1, "new")]


@pytest.mark.slow
def test_an_insert_that_combines_its_rows_keeps_keys_that_the_table_has(
    insert: Insert, tmp_path: Path
) -> None:
    created(tmp_path, TableType.COPY_ON_WRITE, LOCAL["simple"])
    insert(tmp_path, FIRST, LOCAL["simple"])
    rows = [("a", "A", 8, "older"), ("a", "A", 9, "new")]
    insert(tmp_path, rows, {**LOCAL["simple"], "hoodie.combine.before.insert": "true"})
    assert held(tmp_path) == [FIRST[0], ("a", "A", 9, "new"), FIRST[1]]
