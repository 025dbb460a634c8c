from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.machine.session import quickened


@pytest.fixture(scope="session")
def quick_spark(spark: SparkSession) -> SparkSession:
    """Return a session for tiny queries; a data source is made known to a JVM once."""
    return quickened(spark)
