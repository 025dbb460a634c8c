from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import VERSION, session
from tests.interop.shared_table import TALLY

#: Thousands of tiny jobs: what the JVM spends on fast code it would never get back. Each has code
#: of its own, made by Spark, which fills what such a JVM sets aside: then it compiles no more.
_JVM = "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=512m"


@pytest.fixture(scope="session")
def hudi_spark() -> Iterator[SparkSession]:
    """One Spark 3.5 session with Apache Hudi in it; tidelake reads in the same one."""
    spark = session(cores=2, memory="3g", conf={"spark.driver.extraJavaOptions": _JVM})
    yield spark
    spark.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was asked of the tables that tidelake wrote."""
    if TALLY.tables:
        terminalreporter.write_line(
            f"Apache Hudi {VERSION}: {TALLY.tables} tables, {TALLY.answers} answers, "
            f"{len(TALLY.differences)} differences"
        )
