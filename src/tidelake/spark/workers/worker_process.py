"""Spark's Python workers: which Python they run, and what they need not do again for every task.

Work travels as bytes inside a function that needs nothing of ours, so that a worker which lacks
tidelake can say so.

Before each task Spark has a worker forget what it knows of the places that modules come from, and
afterwards it has it collect garbage. Both cost more than the task of a small write.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from zipimport import zipimporter

import pyarrow as pa
from pyspark import SparkFiles, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 - the customary name

Batches = Iterator[pa.RecordBatch]

_settled_modules = 0


#: The words by which `worker_errors` knows what a worker without tidelake says.
LACKING = "tidelake is not installed for the Python of Spark's workers"
INSTALL = (
    "install tidelake there, in the version that the driver has, or set PYSPARK_PYTHON to a Python "
    "that has it before the session is started"
)
_INTERPRETER = "PYSPARK_PYTHON"
_INTERPRETER_SETTING = "spark.pyspark.python"


def mapped(frame: DataFrame, run: Callable[[Batches], Batches], schema: T.StructType) -> DataFrame:
    """Return what `run` makes of the rows of each Spark partition, in a worker."""

    def settled(batches: Batches) -> Batches:
        # What only saves time never fails a task, whatever Spark has changed.
        with suppress(Exception):
            settle()
        yield from run(batches)

    return frame.mapInArrow(shipped(settled), schema)


def shipped(run: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Return work that a worker can begin without tidelake, to say that it lacks it."""
    work: bytes = cloudpickle.dumps(run)  # type: ignore[no-untyped-call] # it has no types
    lacking, install = LACKING, INSTALL

    def unpacked(batches: Batches) -> Batches:
        import pickle
        import sys

        try:
            found = pickle.loads(work)
        except ModuleNotFoundError as cause:
            if cause.name != "tidelake":
                raise
            raise ModuleNotFoundError(
                f"{lacking} ({sys.executable})\n  next: {install}",
                name="tidelake",
            ) from None
        yield from found(batches)

    return unpacked


def use_own_interpreter(spark: SparkSession) -> None:
    """Have the workers of a local session run this process's Python, unless another is chosen.

    Spark takes whichever python3 is on the path, which need not be that of a virtual environment.
    """
    try:
        context = spark.sparkContext
        chosen = context.getConf().get(_INTERPRETER_SETTING)
    except (AttributeError, PySparkException):
        return  # Spark Connect has no context; its workers are the server's
    master = context.master or ""
    is_local = master.startswith("local[") or master == "local"
    if is_local and chosen is None and _INTERPRETER not in os.environ:
        context.pythonExec = sys.executable


def settle() -> None:
    """Make the tasks after this one start and end faster."""
    global _settled_modules
    if len(sys.modules) != _settled_modules:
        _settled_modules = len(sys.modules)
        # Most of what a worker would look through each time are the libraries.
        gc.freeze()
    _forget_archives()


def _forget_archives() -> None:
    """Drop the importers of archives that came with Spark or Python.

    Spark's own modules have one for every package, and each reads the directory of its archive anew
    when it is told to forget it. Whoever imports more from there gets a new one. Archives that the
    job has added may change, so theirs are kept.
    """
    added = SparkFiles.getRootDirectory()
    for path, found in list(sys.path_importer_cache.items()):
        if isinstance(found, zipimporter) and not found.archive.startswith(added):
            del sys.path_importer_cache[path]
