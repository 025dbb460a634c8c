"""Work on file slices in Spark's workers.

Work goes to Spark in jobs of a few tasks each, two jobs at a time, so that a finished one can be
counted while others run, and so that cores which one job no longer uses are busy with the next.
Nothing but DataFrames is used for that, which a session of Spark Connect has as well.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.errors import TidelakeError
from tidelake.files import SliceTask
from tidelake.operations.bins import pack
from tidelake.operations.task_runner import R, SliceWork, as_they_finish
from tidelake.spark.session.cores import cpu_cores
from tidelake.spark.workers.workers import run_on_workers
from tidelake.spark.workers.write_tasks import token_of_task

#: Jobs that Spark has at a time.
_JOBS = 2

_RESULT = T.StructType(
    [
        T.StructField("task", T.LongType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("error", T.BinaryType()),
    ]
)
_RESULT_ARROW = pa.schema([("task", pa.int64()), ("value", pa.binary()), ("error", pa.binary())])


@dataclass(frozen=True, slots=True)
class OnSpark:
    """The workers of a session."""

    spark: SparkSession

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """Return what Spark raises when it cannot run the tasks."""
        return (PySparkException,)

    @property
    def waits(self) -> bool:
        """Return False: Spark may run a task twice, and lose sight of one."""
        return False

    def run(
        self, tasks: Sequence[SliceTask], work: SliceWork[R]
    ) -> Generator[tuple[SliceTask, R], None, None]:
        """Return each task with its result, as its job finishes; raise the first error of ours."""
        cores = cpu_cores(self.spark)
        bins = pack(tasks, cores)
        size = max(1, cores if len(bins) > _JOBS * cores else len(bins))
        jobs = [bins[at : at + size] for at in range(0, len(bins), size)]

        def one(job: Sequence[tuple[SliceTask, ...]]) -> list[tuple[SliceTask, R]]:
            return _run_job(self.spark, job, work)

        yield from as_they_finish(one, jobs, _JOBS)


def _run_job(
    spark: SparkSession, job: Sequence[tuple[SliceTask, ...]], work: SliceWork[R]
) -> list[tuple[SliceTask, R]]:
    numbered: list[list[tuple[int, SliceTask]]] = []
    flat: list[SliceTask] = []
    for of in job:
        numbered.append(list(enumerate(of, start=len(flat))))
        flat += of

    def run(index: int) -> Iterator[pa.RecordBatch]:
        for number, task in numbered[index]:
            value = error = None
            # Buckets of several partitions may share a file id: the number tells files apart.
            token = replace(token_of_task(), task=number)
            try:
                value = pickle.dumps(work.run(task, token))
            except TidelakeError as cause:
                error = pickle.dumps(cause)
            row = {"task": number, "value": value, "error": error}
            yield pa.RecordBatch.from_pylist([row], _RESULT_ARROW)
            if error is not None:
                return

    found = run_on_workers(spark, run, len(numbered), _RESULT).collect()
    for row in found:
        if row["error"] is not None:
            raise pickle.loads(row["error"])
    return [(flat[row["task"]], pickle.loads(row["value"])) for row in found]
