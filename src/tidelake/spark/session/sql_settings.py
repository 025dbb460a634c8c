"""What a session's settings make of a text of SQL."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_QUOTED_NAMES = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")


def is_read_alike(spark: SparkSession, text: str) -> bool:
    """Return whether a session reads a text as the parser does by which files are left out.

    What stands in double quotes is text for the parser, and the name of a column in some sessions.
    """
    if '"' not in text:
        return True
    return not all(spark.conf.get(name, "false") == "true" for name in _QUOTED_NAMES)


def spark_reason(cause: PySparkException) -> str:
    """Return the line in which Spark says what is wrong; syntax errors begin with an empty one."""
    return str(cause).strip().partition("\n")[0]
