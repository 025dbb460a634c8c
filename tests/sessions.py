"""The Spark session of the tests and of the golden run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from tidelake.spark.session import local_session as local


def local_session(
    master: str = "local[2]", config: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a small local session on whatever Java the machine offers."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return local.local_session(
        "tidelake tests",
        master=master,
        config={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "2g",
            **(config or {}),
        },
    )
