"""How many tasks a session runs at a time."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

#: Where a session does not tell: that of Spark Connect has no context to ask.
_UNKNOWN = 16


def cpu_cores(spark: SparkSession) -> int:
    """Return how many tasks the session runs at a time, as far as it tells."""
    try:
        return spark.sparkContext.defaultParallelism
    except (AttributeError, PySparkException):
        return _UNKNOWN
