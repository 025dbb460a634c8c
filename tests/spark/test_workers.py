from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidelake.spark.types.from_arrow import spark_schema
from tidelake.spark.workers import workers
from tidelake.spark.workers.worker_process import Batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_rows_behind_empty_chunks_are_given_too(spark: SparkSession) -> None:
    schema = pa.schema([("id", pa.int64())])
    empty = pa.table({"id": pa.array([], pa.int64())})
    tables = [pa.concat_tables([empty, pa.table({"id": [n, n + 1]})]) for n in (0, 2, 4)]
    streams = [workers.to_ipc(table) for table in tables]
    assert all(workers.from_ipc(stream).column(0).num_chunks == 2 for stream in streams)
    found = workers.given_rows(spark, streams, spark_schema(schema)).collect()
    assert sorted(row.id for row in found) == [0, 1, 2, 3, 4, 5]


def test_empty_batches_between_others_end_nothing(spark: SparkSession) -> None:
    schema = pa.schema([("id", pa.int64())])

    def work(index: int) -> Batches:
        for ids in ([], [index], [], [], [index + 10], []):
            yield pa.RecordBatch.from_arrays([pa.array(ids, pa.int64())], schema=schema)

    found = workers.run_on_workers(spark, work, 2, spark_schema(schema)).collect()
    assert sorted(row.id for row in found) == [0, 1, 10, 11]
