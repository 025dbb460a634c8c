"""The Spark session of the tests, the golden run and the demo's checks."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from tidelake.spark.java import ensure_java


def local_session(master: str = "local[2]") -> SparkSession:
    """Return a small local session on whatever Java the machine offers."""
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(master)
        .appName("tidelake tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark
