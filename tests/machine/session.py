"""A session of Spark for thousands of tiny queries."""

from __future__ import annotations

from contextlib import suppress

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.sessions import local_session
from tidelake import register

#: Code is made for each query, which takes longer than a query over ten rows; and one task does.
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def quick_session() -> SparkSession:
    """Return a session with nothing in it that tiny queries do without."""
    spark = local_session(
        "local[1]", {**QUICK, "spark.default.parallelism": "1", "spark.driver.memory": "1g"}
    )
    register(spark)
    return spark


def quickened(spark: SparkSession) -> SparkSession:
    """Return a session beside one, in the same JVM, that is as quick as can be."""
    made = spark.newSession()
    for name, value in QUICK.items():
        made.conf.set(name, value)
    with suppress(AnalysisException):
        register(made)  # unless a session of this JVM knows it
    return made
