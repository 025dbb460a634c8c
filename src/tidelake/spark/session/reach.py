"""Whether Spark's own readers reach a table's storage."""

from __future__ import annotations

import logging
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelake.storage import StorageSpec, open_storage, spark_options, spark_path

_log = logging.getLogger(__name__)

_known: WeakKeyDictionary[SparkSession, dict[tuple[object, ...], bool]] = WeakKeyDictionary()


def spark_reaches(spark: SparkSession, spec: StorageSpec, relative: str) -> bool:
    """Return whether Spark can read the file `relative`; asked once for each bucket and session.

    A session from pip has no Hadoop file system for object stores (`hadoop-aws` and its like are
    jars of their own). Then our workers read all files, which is slower but needs no jar.
    """
    if open_storage(spec).local_path(relative) is not None:
        return True
    bucket = spec.uri.split("/")[2]
    answers = _known.setdefault(spark, {})
    key = (spec.uri.partition(":")[0], bucket, spec.options)
    if key not in answers:
        answers[key] = _ask(spark, spec, relative)
    return answers[key]


def _ask(spark: SparkSession, spec: StorageSpec, relative: str) -> bool:
    path = spark_path(spec, relative)
    try:
        # Making the frame looks for the file, and reads nothing of it.
        spark.read.options(**spark_options(spec)).schema("probe int").parquet(path)
    except (Py4JError, PySparkException) as cause:
        lines = [line for line in str(cause).splitlines() if "Exception" in line]
        reason = lines[0].strip(": ") if lines else str(cause).partition("\n")[0]
        _log.warning(
            "Spark's readers do not reach %s (%s); tidelake's workers read the files instead. "
            "To let Spark read them, start the session with the Hadoop connector of the store, "
            "such as spark.jars.packages=org.apache.hadoop:hadoop-aws:HADOOP_VERSION",
            path,
            reason,
        )
        return False
    return True
