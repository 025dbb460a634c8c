"""Work on file slices that needs no rows from Spark: where it is done, and in this process.

`spark.workers.task_runs` does it in the workers of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tidelake.files import SliceTask, WriteToken

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Job = TypeVar("Job")

_WRITERS = 4


class SliceWork(Protocol[R_co]):
    """What is to be done with a file slice; a value that travels to workers."""

    def run(self, task: SliceTask, token: WriteToken) -> R_co:
        """Do it, and return a value that travels back."""


class TaskRunner(Protocol):
    """A place in which work is done."""

    @property
    def waits(self) -> bool:
        """Return whether no task can be running any more, for sure, when `run` has ended."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """Return what `run` raises besides errors of ours, when the place itself fails."""

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

    @property
    def waits(self) -> bool:
        """Return True: threads are waited for."""
        return True

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """Return nothing: threads raise what the work raises."""
        return ()

    def run(
        self, tasks: Sequence[SliceTask], work: SliceWork[R]
    ) -> Generator[tuple[SliceTask, R], None, None]:
        """Return each task with its result, as it finishes; raise the first error."""

        def one(at: int) -> list[tuple[SliceTask, R]]:
            token = WriteToken(task=at, stage=0, attempt=self.attempt)
            return [(tasks[at], work.run(tasks[at], token))]

        yield from as_they_finish(one, range(len(tasks)), _WRITERS)


def as_they_finish(run: Callable[[Job], list[R]], jobs: Sequence[Job], at_once: int) -> Iterator[R]:
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
