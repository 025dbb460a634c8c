"""Tasks of a write in Spark's Python workers: batches in, file stats out."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.errors import TidelakeError
from tidelake.files.write_task import WriteToken
from tidelake.spark.workers.worker_process import mapped
from tidelake.write.write_work import Batches, WriteWork, Written

#: What a task says of the rows of one file group.
RESULT = T.StructType(
    [
        T.StructField("rows", T.LongType()),
        T.StructField("check", T.LongType()),
        T.StructField("stats", T.BinaryType()),
        T.StructField("error", T.BinaryType()),
    ]
)
_RESULT_ARROW = pa.schema(
    [("rows", pa.int64()), ("check", pa.int64()), ("stats", pa.binary()), ("error", pa.binary())]
)


def results(parts: Iterator[Written]) -> Batches:
    """Return what a task does as rows of `RESULT`; an error of ours is the last of them."""
    try:
        for done in parts:
            yield _result(done)
    except TidelakeError as error:
        yield _failure(error)


def run_write_tasks(frame: DataFrame, work: WriteWork) -> Written:
    """Run the tasks and return what they wrote; raise the first error that one of them met."""

    def run(batches: Batches) -> Batches:
        return results(work.write(batches, token_of_task()))

    return run_tasks(mapped(frame, run, RESULT))


def run_tasks(frame: DataFrame) -> Written:
    """Run tasks that give rows of `RESULT`; raise the first error that one of them met."""
    found = frame.collect()
    for row in found:
        if row["error"] is not None:
            raise pickle.loads(row["error"])
    checksum = 0
    for row in found:
        checksum ^= row["check"]
    return Written(
        stats=tuple(stat for row in found for stat in pickle.loads(row["stats"])),
        rows=sum(row["rows"] for row in found),
        checksum=checksum,
    )


def token_of_task() -> WriteToken:
    """Return the token of the Spark task in whose worker this runs."""
    context = TaskContext.get()
    if context is None:
        return WriteToken(task=0, stage=0, attempt=0)
    return WriteToken(
        task=context.partitionId(), stage=context.stageId(), attempt=context.taskAttemptId()
    )


def _result(done: Written) -> pa.RecordBatch:
    return _row(rows=done.rows, check=done.checksum, stats=pickle.dumps(done.stats), error=None)


def _failure(error: TidelakeError) -> pa.RecordBatch:
    return _row(rows=0, check=0, stats=pickle.dumps(()), error=pickle.dumps(error))


def _row(**values: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([values], _RESULT_ARROW)
