"""A Spark 3.5 session that holds the real Apache Hudi: the peer we read after, and the oracle."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from tests.interop.jars import JarUnavailableError, download
from tidelake.spark.session.java import ensure_java

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHA256 = {
    "1.2.0": "cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
    "1.0.2": "2c2ab65a11e91265e4b7346f954448c46df52d66fb72f52dad83767b621deae8",
    "0.15.0": "aab6ecdb5c65fcd20406b980b31ccec294fae95693de947d5778f0b3fb4e302a",
}
#: The release of this process: a JVM holds one bundle.
VERSION = os.environ.get("TIDELAKE_HUDI_VERSION", "1.2.0")
_SHUFFLES = ("upsert", "insert", "bulkinsert", "delete")
_BUNDLE = "hudi-spark3.5-bundle_2.12"
_PATH = f"org/apache/hudi/{_BUNDLE}/{VERSION}/{_BUNDLE}-{VERSION}.jar"


def bundle() -> Path:
    """Return the Apache Hudi bundle.

    `TIDELAKE_HUDI_JAR` names a jar to use instead, and `TIDELAKE_HUDI_VERSION` another release than
    the newest.
    """
    given = os.environ.get("TIDELAKE_HUDI_JAR")
    return Path(given) if given else download(_PATH, _SHA256[VERSION])


def begin(start: str) -> str:
    """Return what to ask for so that a window of this release leaves out its start."""
    # 1.0.2 takes the begin of a window into it.
    return str(int(start) + 1) if VERSION == "1.0.2" and start != "000" else start


def write_options(
    name: str,
    table_type: str,
    version: int,
    *,
    key: str = "id",
    partition_by: str = "",
    ordering: str = "ts",
) -> dict[str, str]:
    """Return what tells Apache Hudi which table it writes, and to do nothing but the write."""
    partitions = {
        "hoodie.datasource.write.partitionpath.field": partition_by,
        **(
            {"hoodie.datasource.write.hive_style_partitioning": "true"}
            if partition_by
            else {
                "hoodie.datasource.write.keygenerator.class": (
                    "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
                )
            }
        ),
    }
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": key,
        **partitions,
        **({"hoodie.datasource.write.precombine.field": ordering} if ordering else {}),
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.embed.timeline.server": "false",
        **{f"hoodie.{kind}.shuffle.parallelism": "1" for kind in _SHUFFLES},
    }


def session(
    *, cores: int = 2, memory: str = "4g", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a local session that both Apache Hudi and tidelake can use."""
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.jars": str(bundle()),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.default.parallelism": str(cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        **(conf or {}),
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(f"apache-hudi-{VERSION}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    return spark


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{bundle()}\n")
    except JarUnavailableError as error:
        sys.exit(f"{error} Or set TIDELAKE_HUDI_JAR to a copy.")
