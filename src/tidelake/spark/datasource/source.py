"""The table as a Python data source of Spark 4: `spark.read.format("tidelake")`, and for writing.

Spark runs all of this in Python workers, away from the session, so rows are read by our own reader.
`Table.read` leaves whatever needs no merging to Spark's Parquet reader and is quicker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the customary name
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from typing_extensions import override

from tidelake.errors import ConfigError
from tidelake.files import read_slice
from tidelake.operations.bins import pack
from tidelake.operations.open_table import open_state
from tidelake.read.query import is_changes_query, plan_change_rows, plan_rows
from tidelake.read.scan import Selection, output_columns
from tidelake.records import arrow_schema, conform
from tidelake.spark.datasource.shares import PARALLELISM, Share, json_changes, path_of
from tidelake.spark.datasource.writer import TidelakeWriter
from tidelake.spark.read.dataframe import CHANGES_SCHEMA
from tidelake.spark.types.from_arrow import spark_schema


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
        state = open_state(path_of(self.options), dict(self.options))
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
    def streamReader(self, schema: T.StructType) -> DataSourceStreamReader:
        """Return a reader that follows the table; needs Spark 4.2."""
        try:
            # Earlier releases have no module to import the limits of a micro-batch from.
            module = import_module("tidelake.spark.datasource.stream_reader")
        except ImportError as cause:
            raise ConfigError(
                "this Spark cannot limit what a stream reads at a time",
                next_step="use Spark 4.2 or later, or call Table.incremental in a loop",
            ) from cause
        made: DataSourceStreamReader = module.TidelakeStreamReader(dict(self.options), schema)
        return made

    @override
    def reader(self, schema: T.StructType) -> TidelakeReader:
        """Return a reader of the columns in `schema`."""
        return TidelakeReader(dict(self.options), schema)


class TidelakeReader(DataSourceReader):
    """Reads the slices of one query, planned when the reader is made."""

    def __init__(self, options: dict[str, str], schema: T.StructType) -> None:
        self._target = to_arrow_schema(schema, timezone="UTC")
        state = open_state(path_of(options), options)
        self._work: list[Share]
        if is_changes_query(state):
            plan = plan_change_rows(state)
            self._work = [[partial(json_changes, task, plan.spec)] for task in plan.tasks]
        else:
            rows = plan_rows(state, Selection(columns=schema.names))
            bins = pack(rows.tasks, PARALLELISM)
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
