"""What a session's settings make of a text of SQL."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_ANSI = "spark.sql.ansi.enabled"
_QUOTED_NAMES = "spark.sql.ansi.doubleQuotedIdentifiers"
#: Without ANSI mode, times are compared with text as text, in which T is above every hour.
_AS_TEXT = "spark.sql.legacy.typeCoercion.datetimeToString.enabled"


def is_read_alike(spark: SparkSession, text: str) -> bool:
    """Return whether a session reads a text as the parser does by which files are left out.

    What stands in double quotes is text for the parser, and the name of a column in some sessions.
    """
    if not _is_on(spark, _ANSI):
        return not _is_on(spark, _AS_TEXT)
    return '"' not in text or not _is_on(spark, _QUOTED_NAMES)


def _is_on(spark: SparkSession, name: str) -> bool:
    """Return a setting, or the default of this release of Spark; off where it has no such one."""
    made = spark.conf.get(name, None)
    if made is None and name == _ANSI:
        made = spark.conf.get(name)
    return made is not None and made.strip().lower() == "true"


def spark_reason(cause: PySparkException) -> str:
    """Return the line in which Spark says what is wrong; syntax errors begin with an empty one."""
    return str(cause).strip().partition("\n")[0]
