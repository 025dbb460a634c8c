"""Making the format name known to a session."""

from __future__ import annotations

from importlib import import_module

from pyspark.sql import SparkSession

from tidelake.errors import ConfigError
from tidelake.spark.workers.worker_process import use_own_interpreter


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("tidelake")` work in this session; needs Spark 4."""
    if not hasattr(spark, "dataSource"):
        raise ConfigError(
            f"Spark {spark.version} has no Python data sources",
            next_step="use Table.open(spark, path).read(), which works here too, or Spark 4",
        )
    use_own_interpreter(spark)
    # Spark 3.5 has no module to import the base class from.
    spark.dataSource.register(import_module("tidelake.spark.datasource.source").TidelakeSource)
