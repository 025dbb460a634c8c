"""A local Spark session for the command line and the demo."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from importlib.resources import files

from pyspark.sql import SparkSession

from tidelake.spark.session.java import ensure_java


def local_session(
    app_name: str, *, master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark on this machine, or take the session that is there already.

    It says nothing below errors, and the times it shows are in UTC. Without `master` the variable
    MASTER chooses, else all cores of the machine are used.
    """
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quiet = files("tidelake.spark") / "log4j2.properties"
    # PySpark logs each failed query at length before it raises the error that we then report.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = (
        SparkSession.builder.master(master or os.environ.get("MASTER", "local[*]"))
        .appName(app_name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{quiet}")
    )
    for name, value in (config or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
