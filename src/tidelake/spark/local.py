"""A local Spark session for the command line and the demo."""

from __future__ import annotations

import os
import sys
from importlib.resources import files

from pyspark.sql import SparkSession

from tidelake.spark.java import ensure_java


def local_session(app_name: str) -> SparkSession:
    """Start Spark on this machine, or take the session that is there already.

    It says nothing below errors. `MASTER` chooses another master than all cores of the machine, and
    the times it shows are in UTC.
    """
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quiet = files("tidelake.spark") / "log4j2.properties"
    spark = (
        SparkSession.builder.master(os.environ.get("MASTER", "local[*]"))
        .appName(app_name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{quiet}")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark
