"""A local Spark session for the command line and the demo."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files
from threading import Thread

from pyspark.sql import SparkSession

from tidelake.spark.session.java import ensure_java

#: What a Java says of itself and Spark when it starts; nothing that is done here depends on it.
_OF_JAVA = re.compile(
    rb"WARNING: (Using incubator modules|A terminally deprecated method|A restricted method|"
    rb"sun\.misc\.Unsafe|java\.lang\.(System|foreign)|Please consider reporting|"
    rb"Use --enable-native|Restricted methods will be blocked|.* has been called by )"
)


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
    with _without_warnings_of_java():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def _without_warnings_of_java() -> Iterator[None]:
    """Let the Java that is started inside write to standard error through this process.

    Its warnings about itself, which come before all output, are left out.
    """
    try:
        shown = os.dup(2)
    except OSError:  # standard error is closed
        yield
        return
    read_end, write_end = os.pipe()
    Thread(target=_forward, args=(read_end, shown), daemon=True).start()
    os.dup2(write_end, 2)
    os.close(write_end)
    try:
        yield
    finally:
        os.dup2(shown, 2)


def _forward(read_end: int, shown: int) -> None:
    with os.fdopen(read_end, "rb") as lines:
        for line in lines:
            if not _OF_JAVA.match(line):
                with suppress(OSError):  # whoever read it is gone
                    os.write(shown, line)
