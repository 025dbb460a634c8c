"""Building the record index of a table that has rows, in Spark's workers.

All keys are read once and brought together by the file group of the index that they belong to; a
task writes each of these as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tidelake.errors import UnsupportedTableError
from tidelake.files.record_index import group_numbers
from tidelake.formats.metadata_encoding import encode_location
from tidelake.formats.metadata_record import RecordLocation
from tidelake.metadata.build import FillIndex, IndexFiles
from tidelake.metadata.record_index import epoch_ms
from tidelake.read.scan import read_spec, slice_tasks
from tidelake.records.schema import FILE_NAME, PARTITION_PATH, RECORD_KEY
from tidelake.spark.read.dataframe import to_dataframe
from tidelake.spark.workers.worker_process import Batches, mapped
from tidelake.state.table_state import TableState

_NUMBER = "_tidelake_number"
_GROUP = "_tidelake_group"
_NUMBERED = T.StructType(
    [
        T.StructField(RECORD_KEY, T.StringType()),
        T.StructField(_GROUP, T.LongType()),
        T.StructField(_NUMBER, T.LongType()),
    ]
)
_COUNTS = T.StructType([T.StructField("number", T.LongType()), T.StructField("keys", T.LongType())])


def fill_on(spark: SparkSession, state: TableState) -> FillIndex:
    """Return what fills the record index of a table with the keys that it has by then."""

    def fill(files: IndexFiles) -> Mapping[int, int]:
        now = TableState.load(state.storage, state.options)
        slices = now.view.latest_slices()
        is_utc = now.config.timeline_timezone_utc
        names, places = [], []
        for piece in slices:
            names.append(f"{piece.group.partition}/{piece.group.file_id}")
            location = RecordLocation(partition=piece.group.partition, file_id=piece.group.file_id)
            since = epoch_ms(piece.base_instant_time, is_utc=is_utc)
            places.append(encode_location(location, since, files.table_version))
        spec = read_spec(now, now.schema(), (RECORD_KEY, PARTITION_PATH, FILE_NAME))
        rows = to_dataframe(spark, spec, slice_tasks(now, slices)).select(
            RECORD_KEY, F.concat_ws("/", PARTITION_PATH, F.substring_index(FILE_NAME, "_", 1))
        )
        arranged = mapped(rows, partial(_numbered, names, files.groups), _NUMBERED)
        found = mapped(arranged.repartition(_NUMBER), partial(_written, files, places), _COUNTS)
        return {row["number"]: row["keys"] for row in found.collect()}

    return fill


def _numbered(names: Sequence[str], groups: int, batches: Batches) -> Batches:
    """Return keys with the number of their file group among `names`, and of that in the index."""
    known = pa.array(names, pa.string())
    for batch in batches:
        keys, places = batch.columns
        group = pc.index_in(places, value_set=known).cast(pa.int64())
        if group.null_count:
            stray = places.filter(pc.is_null(group))[0].as_py()
            raise UnsupportedTableError(
                f"a row says that it is in file group {stray}, which the table does not have",
                next_step="write without hoodie.metadata.record.index.enable; the table is as it "
                "was",
            )
        number = pa.array(group_numbers(keys, groups), pa.int64())
        yield pa.RecordBatch.from_arrays([keys, group, number], _NUMBERED.names)


def _written(files: IndexFiles, places: Sequence[bytes], batches: Batches) -> Batches:
    pieces = [batch for batch in batches if len(batch)]
    if not pieces:
        return
    rows = pa.Table.from_batches(pieces).combine_chunks()
    # Keys are ordered by their bytes, and each comes once.
    order = pc.sort_indices(
        rows.set_column(0, RECORD_KEY, rows.column(0).cast(pa.binary())),
        [(_NUMBER, "ascending"), (RECORD_KEY, "ascending"), (_GROUP, "ascending")],
    )
    rows = rows.take(order)
    numbers = rows.column(_NUMBER).to_numpy()
    counts: dict[int, int] = {}
    for number in np.unique(numbers).tolist():
        start, end = np.searchsorted(numbers, [number, number + 1])
        own = rows.slice(start, end - start)
        found = dict(zip(own.column(0).to_pylist(), own.column(1).to_pylist(), strict=True))
        files.write(number, ((key.encode(), places[group]) for key, group in found.items()))
        counts[number] = len(found)
    yield pa.RecordBatch.from_pydict(
        {"number": pa.array(counts, pa.int64()), "keys": pa.array(counts.values(), pa.int64())}
    )
