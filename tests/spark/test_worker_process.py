"""Tasks leave a worker that starts the next one fast, and can still import."""

from __future__ import annotations

import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from zipimport import zipimporter

import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.spark.workers.worker_process import mapped, settle

#: A module of Spark's that no test and nothing of tidelake imports.
_UNUSED = "pyspark.sql.avro.functions"
_FOUND = T.StructType(
    [T.StructField(name, T.ArrayType(T.StringType())) for name in ("before", "after")]
)


def _archives(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the archives that are looked into before and after, and then import something."""
    added = Path(SparkFiles.getRootDirectory(), "added.zip")
    with zipfile.ZipFile(added, "w") as archive:
        archive.writestr("of_an_added_archive.py", "")
    sys.path_importer_cache[str(added)] = zipimporter(str(added))
    sys.path_importer_cache.update((str(p), zipimporter(p)) for p in sys.path if _is_archive(p))
    before = _known()
    settle()
    after = _known()
    importlib.import_module(_UNUSED)
    yield pa.RecordBatch.from_pydict({"before": [before], "after": [after]})


def _is_archive(path: str) -> bool:
    return path.endswith(".zip") and Path(path).is_file()


def _known() -> list[str]:
    found = sys.path_importer_cache.values()
    return sorted({Path(f.archive).name for f in found if isinstance(f, zipimporter)})


def test_a_worker_reads_no_archive_of_spark_before_each_task(spark: SparkSession) -> None:
    made = mapped(spark.range(0, 1, 1, 1), _archives, _FOUND)
    found = made.collect()[0]
    assert "pyspark.zip" in found["before"]
    assert found["after"] == ["added.zip"]
