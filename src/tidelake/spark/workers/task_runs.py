"""Work on file slices that needs no rows from Spark, in its workers or in this process.

Work goes to Spark in jobs of a few tasks each, two jobs at a time, so that a finished one can be
counted while others run, and so that cores which one job no longer uses are busy with the next.
Nothing but DataFrames is used for that, which a session of Spark Connect has as well.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.errors import TidelakeError
from tidelake.files import SliceTask, WriteToken
from tidelake.operations.bins import pack
from tidelake.spark.workers.workers import run_on_workers
from tidelake.spark.workers.write_tasks import token_of_task

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

#: Jobs that Spark has at a time.
_JOBS = 2
#: Where a session does not tell how many cores it has.
_UNKNOWN_CORES = 16
_WRITERS = 4

_RESULT = T.StructType(
    [
        T.StructField("task", T.LongType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("error", T.BinaryType()),
    ]
)
_RESULT_ARROW = pa.schema([("task", pa.int64()), ("value", pa.binary()), ("error", pa.binary())])


class SliceWork(Protocol[R_co]):
    """What is to be done with a file slice; a value that travels to workers."""

    def run(self, task: SliceTask, token: WriteToken) -> R_co:
        """Do it, and return a value that travels back."""


class TaskRunner(Protocol):
    """A place in which work is done."""

    def run(
        self, tasks: Sequence[SliceTask], work: SliceWork[R]
    ) -> Generator[tuple[SliceTask, R], None, None]:
        """Return each task with its result, as it finishes; raise the first error of ours.

        When this returns or raises, none of the tasks is running any more, as far as can be known.
        """


@dataclass(frozen=True, slots=True)
class Here:
    """Threads of this process, where there is no session; `attempt` goes into file names."""

    attempt: int = 0

    def run(
        self, tasks: Sequence[SliceTask], work: SliceWork[R]
    ) -> Generator[tuple[SliceTask, R], None, None]:
        """Return each task with its result, as it finishes; raise the first error."""

        def one(at: int) -> list[tuple[SliceTask, R]]:
            token = WriteToken(task=at, stage=0, attempt=self.attempt)
            return [(tasks[at], work.run(tasks[at], token))]

        yield from _as_they_finish(one, range(len(tasks)), _WRITERS)


@dataclass(frozen=True, slots=True)
class OnSpark:
    """The workers of a session."""

    spark: SparkSession

    def run(
        self, tasks: Sequence[SliceTask], work: SliceWork[R]
    ) -> Generator[tuple[SliceTask, R], None, None]:
        """Return each task with its result, as its job finishes; raise the first error of ours."""
        cores = cores_of(self.spark)
        bins = pack(tasks, cores)
        size = max(1, cores if len(bins) > _JOBS * cores else len(bins))
        jobs = [bins[at : at + size] for at in range(0, len(bins), size)]

        def one(job: Sequence[tuple[SliceTask, ...]]) -> list[tuple[SliceTask, R]]:
            return _run_job(self.spark, job, work)

        yield from _as_they_finish(one, jobs, _JOBS)


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


Job = TypeVar("Job")


def _as_they_finish(
    run: Callable[[Job], list[R]], jobs: Sequence[Job], at_once: int
) -> Iterator[R]:
    """Run jobs in threads and return what they return; after an error no further job begins."""
    waiting = iter(jobs)
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        running: set[Future[list[R]]] = set()
        while True:
            for job in waiting:
                running.add(pool.submit(run, job))
                if len(running) == at_once:
                    break
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield from future.result()


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks the session runs at a time, as far as it tells."""
    try:
        return spark.sparkContext.defaultParallelism
    except (AttributeError, PySparkException):
        return _UNKNOWN_CORES  # Spark Connect has no context to ask.
