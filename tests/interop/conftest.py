from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import session


@pytest.fixture(scope="session")
def hudi_spark() -> Iterator[SparkSession]:
    """One Spark 3.5 session with Apache Hudi in it; tidelake reads in the same one."""
    spark = session(cores=2, memory="3g")
    yield spark
    spark.stop()
