"""Writes to a table in this process, as the data source does and without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.writes.cases import Case
from tests.writes.model import COLUMNS, Do, Step
from tidelake.config import WriteOperation, WriteOptions
from tidelake.env import Env
from tidelake.model import TableType
from tidelake.operations.open_table import load_state
from tidelake.operations.staged_write import bring_in, stage
from tidelake.operations.staging import StagingArea
from tidelake.operations.write_session import WriteSession
from tidelake.spark.types.to_avro import FrameColumns, avro_schema
from tidelake.spark.workers.write_tasks import token_of_task
from tidelake.storage import Storage, open_storage
from tidelake.txn import create_table
from tidelake.write.table_spec import table_spec

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


class StagedWriter:
    """Lays rows aside and brings them in; any Spark is new enough for it."""

    def create(self, root: Path, case: Case) -> None:
        """Create the table."""
        create(root, case)

    def write(self, root: Path, case: Case, step: Step) -> None:
        """Do one step."""
        write_through(open_storage(str(root)), case, step)


def create(root: Path | str, case: Case, storage: Mapping[str, str] | None = None) -> None:
    """Create the table."""
    create_in(open_storage(str(root), storage), case)


def create_in(storage: Storage, case: Case) -> None:
    """Create the table in a storage."""
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
    create_table(Env(storage), spec)


def write_through(storage: Storage, case: Case, step: Step) -> None:
    """Do one step, with a control plane that sees `storage`."""
    env = Env(storage)
    options = WriteOptions.from_options(case.options)
    session = WriteSession(env, load_state(storage, {}), options)
    columns = FrameColumns(struct(case, step))
    choice = session.choose(WriteOperation(step.do.value.upper()), columns, None)
    area = StagingArea.of_new_write(env)
    try:
        token = token_of_task()
        staged = stage(env, area, batches(case, step), choice, token)
        bring_in(session, choice, staged, token)
    finally:
        area.delete(storage)


def struct(case: Case, step: Step) -> T.StructType:
    """Return the columns that the rows of a step have."""
    columns = _columns(case, step)
    return T.StructType([field for field in _STRUCT.fields if field.name in columns])


def batches(case: Case, step: Step) -> Iterator[pa.RecordBatch]:
    """Return the rows of a step in two batches."""
    rows = pa.Table.from_pylist([dict(row) for row in step.rows], schema=_ARROW)
    half = max(1, (len(rows) + 1) // 2)
    return iter(rows.select(_columns(case, step)).to_batches(max_chunksize=half))


def _columns(case: Case, step: Step) -> list[str]:
    wanted = (*case.keys.key, *case.keys.partition) if step.do is Do.DELETE else COLUMNS
    return [name for name in COLUMNS if name in wanted]
