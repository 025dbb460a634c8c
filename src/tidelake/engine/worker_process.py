"""Spark's Python workers, and what they need not do again for every task.

Before each task Spark has a worker forget what it knows of the places that modules come from, and
afterwards it has it collect garbage. Both cost more than the task of a small write.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from zipimport import zipimporter

import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - the customary name

Batches = Iterator[pa.RecordBatch]

_settled_modules = 0


def mapped(frame: DataFrame, run: Callable[[Batches], Batches], schema: T.StructType) -> DataFrame:
    """Return what `run` makes of the rows of each Spark partition, in a worker."""

    def settled(batches: Batches) -> Batches:
        # What only saves time never fails a task, whatever Spark has changed.
        with suppress(Exception):
            settle()
        yield from run(batches)

    return frame.mapInArrow(settled, schema)


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
