"""How Spark looks up the files of a scan: in the driver, or in a job of so many tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from tidelake.spark.session.cores import cpu_cores

#: Spark looks up as many paths in the driver, and more than these in a job.
PATHS_WITHOUT_JOB = 32
_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_ALL_PATHS = 2**31 - 1
_PARALLELISM = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
#: Nobody sets this; Spark checks that a default is a value that the setting may have.
_UNSET = str(2**31 - 2)
_TASKS_A_CORE = 2

_lock = threading.Lock()
#: By session and setting: how many reads have changed it at once, and what was set before.
_changed: WeakKeyDictionary[SparkSession, dict[str, tuple[int, str]]] = WeakKeyDictionary()


@contextmanager
def quick_discovery(spark: SparkSession, paths: int, *, is_local: bool) -> Iterator[None]:
    """Have Spark look up many paths without one task for each of them.

    Those of local files are looked up in the driver, others in a few tasks for each core. The
    setting of the session is as it was afterwards, also when several threads read at once.
    A session of Spark Connect looks paths up when an action runs: it is not changed for that.
    """
    if paths <= PATHS_WITHOUT_JOB:
        yield
        return
    key = _THRESHOLD if is_local else _PARALLELISM
    _enter(spark, key, _ALL_PATHS if is_local else _TASKS_A_CORE * cpu_cores(spark))
    try:
        yield
    finally:
        _leave(spark, key)


def _enter(spark: SparkSession, key: str, value: int) -> None:
    with _lock:
        changed = _changed.setdefault(spark, {})
        depth, before = changed.get(key, (0, ""))
        if depth == 0:
            before = spark.conf.get(key, _UNSET) or _UNSET
            # Fewer tasks than we would take are what somebody wants.
            if key == _THRESHOLD or before == _UNSET or int(before) > value:
                spark.conf.set(key, str(value))
        changed[key] = depth + 1, before


def _leave(spark: SparkSession, key: str) -> None:
    with _lock:
        depth, before = _changed[spark][key]
        if depth > 1:
            _changed[spark][key] = depth - 1, before
            return
        del _changed[spark][key]
        if before == _UNSET:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)
