"""The compaction of a large metadata table in Spark's workers, a task for each file group."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.formats.commit_metadata import WriteStat
from tidelake.metadata.upkeep import CompactGroups, GroupToCompact
from tidelake.spark.workers.workers import run_on_workers

_STAT = T.StructType([T.StructField("number", T.LongType()), T.StructField("stat", T.BinaryType())])


def compact_on(spark: SparkSession) -> CompactGroups:
    """Return what compacts file groups in the workers of a session."""

    def run(groups: Sequence[GroupToCompact]) -> Sequence[WriteStat]:
        def one(number: int) -> Iterator[pa.RecordBatch]:
            stat = pickle.dumps(groups[number].write())
            yield pa.RecordBatch.from_pydict(
                {"number": pa.array([number], pa.int64()), "stat": pa.array([stat], pa.binary())}
            )

        found = run_on_workers(spark, one, len(groups), _STAT).collect()
        stats = {row["number"]: pickle.loads(row["stat"]) for row in found}
        return [stats[number] for number in range(len(groups))]

    return run
