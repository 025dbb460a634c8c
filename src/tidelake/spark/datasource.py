"""The table as a Python data source of Spark 4: `spark.read.format("tidelake")`, and for writing.

Spark runs all of this in Python workers, away from the session, so rows are read by our own reader.
`Table.read` leaves whatever needs no merging to Spark's Parquet reader and is quicker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the customary name
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from typing_extensions import override

from tidelake.engine import CHANGES_SCHEMA, pack, row_json, spark_schema
from tidelake.errors import ConfigError
from tidelake.files import ChangeTask, ReadSpec, read_changes, read_slice
from tidelake.read.query import is_changes_query, plan_change_rows, plan_rows
from tidelake.read.scan import Selection, output_columns
from tidelake.records import arrow_schema, conform
from tidelake.spark.datasource_writer import TidelakeWriter
from tidelake.table import open_state

Batches = Iterator[pa.RecordBatch]

#: Partitions to aim for; how many cores there are is not known here.
_PARALLELISM = 16


class TidelakeSource(DataSource):
    """A Hudi table at option `path`, read as Hudi's read options say."""

    @classmethod
    @override
    def name(cls) -> str:
        """Return the format's name."""
        return "tidelake"

    @override
    def schema(self) -> T.StructType:
        """Return the columns of the answer, Hudi's five first, as Hudi's own format does."""
        state = open_state(_path(self.options), dict(self.options))
        if is_changes_query(state):
            return CHANGES_SCHEMA
        as_of = None if state.options.as_of is None else state.as_of(state.options.as_of)
        schema = state.schema(as_of)
        columns = output_columns(schema, Selection(meta=True))
        return spark_schema(arrow_schema(schema.avro, columns))

    @override
    def writer(self, schema: T.StructType, overwrite: bool) -> TidelakeWriter:
        """Return a writer of rows with `schema`; `overwrite` is Spark's save mode."""
        return TidelakeWriter(dict(self.options), schema, overwrite)

    @override
    def reader(self, schema: T.StructType) -> TidelakeReader:
        """Return a reader of the columns in `schema`."""
        return TidelakeReader(dict(self.options), schema)


class TidelakeReader(DataSourceReader):
    """Reads the slices of one query, planned when the reader is made."""

    def __init__(self, options: dict[str, str], schema: T.StructType) -> None:
        self._target = to_arrow_schema(schema, timezone="UTC")
        state = open_state(_path(options), options)
        self._work: list[list[Callable[[], Batches]]]
        if is_changes_query(state):
            plan = plan_change_rows(state)
            self._work = [[partial(_json_changes, task, plan.spec)] for task in plan.tasks]
        else:
            rows = plan_rows(state, Selection(columns=schema.names))
            bins = pack(rows.tasks, _PARALLELISM)
            self._work = [[partial(read_slice, task, rows.spec) for task in of] for of in bins]

    @override
    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each share of the slices, and at least one."""
        return [InputPartition(number) for number in range(max(1, len(self._work)))]

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one share."""
        for share in self._work[partition.value : partition.value + 1]:
            for batches in share:
                for batch in batches():
                    yield from conform(pa.Table.from_batches([batch]), self._target).to_batches()


def _json_changes(task: ChangeTask, spec: ReadSpec) -> Batches:
    for batch in read_changes(task, spec):
        images = [
            pa.array([None if v is None else row_json(v) for v in batch.column(side).to_pylist()])
            for side in ("before", "after")
        ]
        columns = [
            batch.column("op"),
            batch.column("ts_ms"),
            *(i.cast(pa.string()) for i in images),
        ]
        yield pa.RecordBatch.from_arrays(columns, CHANGES_SCHEMA.names)


def _path(options: Mapping[str, str]) -> str:
    path = options.get("path")
    if not path:
        raise ConfigError(
            "no path was given", next_step='call load("/path/to/table") or set the option `path`'
        )
    return path
