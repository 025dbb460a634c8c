"""Writes to a table in this process, through the data source's writer and without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.writes.cases import Case
from tests.writes.model import COLUMNS, Do, Step
from tidelake.config import WriteOptions
from tidelake.engine import avro_schema
from tidelake.env import Env
from tidelake.model import TableType
from tidelake.spark.datasource_writer import TidelakeWriter
from tidelake.storage import open_storage
from tidelake.txn import create_table
from tidelake.write.create import table_spec

_STRUCT = T.StructType(
    [
        T.StructField("id", T.StringType()),
        T.StructField("region", T.StringType()),
        T.StructField("city", T.StringType()),
        T.StructField("day", T.LongType()),
        T.StructField("ts", T.LongType()),
        T.StructField("fare", T.DoubleType()),
        T.StructField("note", T.StringType()),
    ]
)
_ARROW = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("city", pa.string()),
        ("day", pa.int64()),
        ("ts", pa.int64()),
        ("fare", pa.float64()),
        ("note", pa.string()),
    ]
)

#: What the data source can do by itself.
OPERATIONS = (
    Do.INSERT,
    Do.BULK_INSERT,
    Do.UPSERT,
    Do.DELETE,
    Do.INSERT_OVERWRITE,
    Do.INSERT_OVERWRITE_TABLE,
)


class QuickWriter:
    """Does to a table what the data source of Spark does."""

    def create(self, root: Path, case: Case) -> None:
        """Create the table."""
        spec = table_spec(
            avro_schema(_STRUCT, "trips"),
            WriteOptions.from_options(case.options),
            name="trips",
            key=case.keys.key,
            partition_by=() if case.keys.is_typed else case.keys.partition,
            ordering=("ts",),
            table_type=TableType.MERGE_ON_READ if case.mor else TableType.COPY_ON_WRITE,
            table_version=case.version,
        )
        create_table(Env(open_storage(str(root))), spec)

    def write(self, root: Path, case: Case, step: Step) -> None:
        """Do one step, in two batches of rows."""
        options = {
            **case.options,
            "path": str(root),
            "hoodie.datasource.write.operation": step.do.value,
        }
        columns = list(COLUMNS)
        if step.do is Do.DELETE:
            columns = [n for n in COLUMNS if n in (*case.keys.key, *case.keys.partition)]
        rows = pa.Table.from_pylist([dict(row) for row in step.rows], schema=_ARROW)
        struct = T.StructType([field for field in _STRUCT.fields if field.name in columns])
        writer = TidelakeWriter(options, struct, overwrite=False)
        batches = rows.select(columns).to_batches(max_chunksize=max(1, (len(rows) + 1) // 2))
        writer.commit([writer.write(iter(batches))])
