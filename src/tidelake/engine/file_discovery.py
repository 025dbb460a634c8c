"""How many tasks Spark takes to look up the files of a scan."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

#: Spark looks up as many paths in the driver, and more than these in a job.
PATHS_WITHOUT_JOB = 32
_PARALLELISM = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
#: No session has this; Spark checks that a default is a number.
_UNSET = "-1"
_TASKS_A_CORE = 2
#: Where a session does not tell how many cores it has.
_UNKNOWN_CORES = 16

_lock = threading.Lock()
#: The sessions in which files are being looked up, how often at once, and what was set before.
_changed: WeakKeyDictionary[SparkSession, tuple[int, str]] = WeakKeyDictionary()


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks run at once in a session."""
    try:
        return spark.sparkContext.defaultParallelism
    except (AttributeError, PySparkException):
        return _UNKNOWN_CORES  # Spark Connect has no context to ask.


@contextmanager
def few_tasks(spark: SparkSession, paths: int) -> Iterator[None]:
    """Have Spark look up many paths in a few tasks for each core instead of in one for each path.

    The setting of the session is as it was afterwards, also when several threads read at once.
    A session of Spark Connect looks paths up when an action runs: it is not changed for that.
    """
    if paths <= PATHS_WITHOUT_JOB:
        yield
        return
    _enter(spark, _TASKS_A_CORE * cores_of(spark))
    try:
        yield
    finally:
        _leave(spark)


def _enter(spark: SparkSession, tasks: int) -> None:
    with _lock:
        depth, before = _changed.get(spark, (0, ""))
        if depth == 0:
            before = spark.conf.get(_PARALLELISM, _UNSET) or _UNSET
            if before == _UNSET or int(before) > tasks:
                spark.conf.set(_PARALLELISM, str(tasks))
        _changed[spark] = depth + 1, before


def _leave(spark: SparkSession) -> None:
    with _lock:
        depth, before = _changed[spark]
        if depth > 1:
            _changed[spark] = depth - 1, before
            return
        del _changed[spark]
        if before == _UNSET:
            spark.conf.unset(_PARALLELISM)
        else:
            spark.conf.set(_PARALLELISM, before)
