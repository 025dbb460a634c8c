"""File groups that only Python can tell: Spark has no function for some of Hudi's hashes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.files.write_task import GROUP
from tidelake.formats.hashing_metadata import HashingMetadata
from tidelake.records.keys import bucket_of, split_record_key
from tidelake.records.schema import PARTITION_PATH, RECORD_KEY
from tidelake.spark.workers.worker_process import mapped
from tidelake.write.ring import file_ids


class GroupsOfKeys(Protocol):
    """A rule from keys to groups."""

    def __call__(self, partition: str, keys: Sequence[str]) -> list[str]:
        """Return the group of each key of the partition."""


@dataclass(frozen=True, slots=True)
class BucketsOfKeys:
    """The simple bucket index, which hashes what it finds in the text of a key."""

    hash_fields: tuple[str, ...]
    count: int

    def __call__(self, partition: str, keys: Sequence[str]) -> list[str]:  # noqa: ARG002 - the same in every partition
        """Return the number of each key's bucket as eight digits."""
        return [
            f"{bucket_of(split_record_key(key, self.hash_fields), self.count):08d}" for key in keys
        ]


@dataclass(frozen=True, slots=True)
class RingsOfPartitions:
    """The consistent hashing bucket index."""

    hash_fields: tuple[str, ...]
    rings: Mapping[str, HashingMetadata]

    def __call__(self, partition: str, keys: Sequence[str]) -> list[str]:
        """Return the file id of each key's bucket."""
        return file_ids(self.rings[partition], keys, self.hash_fields)


def python_groups(frame: DataFrame, rule: GroupsOfKeys) -> DataFrame:
    """Return the rows with the group that the rule gives to their keys."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            names = batch.schema.names
            paths = batch.column(names.index(PARTITION_PATH)).to_pylist()
            keys = batch.column(names.index(RECORD_KEY)).to_pylist()
            found: list[str | None] = [None] * len(keys)
            for partition in set(paths):
                rows = [at for at, path in enumerate(paths) if path == partition]
                groups = rule(partition, [keys[at] for at in rows])
                for at, group in zip(rows, groups, strict=True):
                    found[at] = group
            yield batch.set_column(
                names.index(GROUP), pa.field(GROUP, pa.string()), pa.array(found, pa.string())
            )

    schema = T.StructType([T.StructField(f.name, f.dataType) for f in frame.schema.fields])
    return mapped(frame, run, schema)
