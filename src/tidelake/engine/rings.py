"""The consistent hashing bucket index over the rows of a write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.engine.incoming_rows import GROUP
from tidelake.formats.hashing_metadata import HashingMetadata
from tidelake.records.schema import PARTITION_PATH, RECORD_KEY
from tidelake.write.ring import file_ids


def ring_groups(
    frame: DataFrame, rings: Mapping[str, HashingMetadata], hash_fields: Sequence[str]
) -> DataFrame:
    """Return the rows with the file group that the ring of their partition gives to their key.

    Spark has no function for Hudi's hash, so the rows pass through Python.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            names = batch.schema.names
            paths = batch.column(names.index(PARTITION_PATH)).to_pylist()
            keys = batch.column(names.index(RECORD_KEY)).to_pylist()
            found: list[str | None] = [None] * len(keys)
            for partition in set(paths):
                rows = [at for at, path in enumerate(paths) if path == partition]
                ids = file_ids(rings[partition], [keys[at] for at in rows], hash_fields)
                for at, file_id in zip(rows, ids, strict=True):
                    found[at] = file_id
            yield batch.set_column(
                names.index(GROUP), pa.field(GROUP, pa.string()), pa.array(found, pa.string())
            )

    schema = T.StructType([T.StructField(f.name, f.dataType) for f in frame.schema.fields])
    return frame.mapInArrow(run, schema)
