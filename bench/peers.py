"""The engines that write the same rows: tidelake, Apache Hudi, Delta, Iceberg, plain Parquet."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tests.interop import apache_hudi
from tests.interop.jars import JarUnavailableError, download
from tidelake import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COW = "COPY_ON_WRITE"
MOR = "MERGE_ON_READ"
DELETED = "_hoodie_is_deleted"

DELTA_VERSION = "3.3.2"
ICEBERG_VERSION = "1.9.2"
_DELTA_JARS = {
    f"io/delta/delta-spark_2.12/{DELTA_VERSION}/delta-spark_2.12-{DELTA_VERSION}.jar": (
        "4e92085d5d794cf949c50bb665b91384857cad58680c2d0bfc9c7ad353e98e85"
    ),
    f"io/delta/delta-storage/{DELTA_VERSION}/delta-storage-{DELTA_VERSION}.jar": (
        "c096975a2ca97ccc9b4005aa5cce16c9ac3903139d340da6665b66ace67d7c36"
    ),
}
_ICEBERG = "iceberg-spark-runtime-3.5_2.12"
_ICEBERG_JARS = {
    f"org/apache/iceberg/{_ICEBERG}/{ICEBERG_VERSION}/{_ICEBERG}-{ICEBERG_VERSION}.jar": (
        "c40ae0a8e2673bb5c01951b7d15aae2224a534f8331f4274ce2082776116a044"
    ),
}
_CATALOG = "bench_iceberg"

_BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
_APACHE_BEST = {
    **_BUCKET,
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.compression.codec": "snappy",
    "hoodie.compact.inline": "false",
}
_NON_BLOCKING = "NON_BLOCKING_CONCURRENCY_CONTROL"
_MODES = {
    "occ": {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"},
    "nbcc": {"hoodie.write.concurrency.mode": _NON_BLOCKING},
}
_LOCKS = "org.apache.hudi.client.transaction.lock"
_APACHE_SHARED = {
    "hoodie.write.lock.provider": f"{_LOCKS}.FileSystemBasedLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
#: No engine cleans while it is measured.
_UNCLEANED = {"hoodie.clean.automatic": "false"}


class Engine(Protocol):
    """One way to keep a table in a folder."""

    @property
    def name(self) -> str:
        """Return what the engine is called in the results."""

    def load(self, rows: DataFrame, folder: Path, table_type: str) -> None:
        """Make a table of rows that are all new."""

    def change(self, rows: DataFrame, folder: Path, table_type: str) -> None:
        """Bring in rows by key, deleting those that say so."""

    def read(self, folder: Path) -> DataFrame:
        """Return the rows of the table as the engine itself reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidelake:
    """Tidelake through its handle."""

    spark: SparkSession
    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    def load(self, rows: DataFrame, folder: Path, table_type: str) -> None:
        """Create the table and bulk insert."""
        table = Table.create(
            self.spark,
            str(folder),
            rows,
            name="bench",  # as long as the peer's: logs repeat it with their schema
            key="id",
            partition_by="region",
            ordering="ts",
            table_type=table_type,
            options={**self.options, "hoodie.datasource.write.hive_style_partitioning": "true"},
        )
        table.bulk_insert(rows)
        if self.options.get("hoodie.write.concurrency.mode") == _NON_BLOCKING:
            # There every row goes to a log; the first base files are those of a compaction.
            table.compact()

    def change(self, rows: DataFrame, folder: Path, table_type: str) -> None:  # noqa: ARG002
        """Open and upsert: opening is part of what a job pays."""
        Table.open(self.spark, str(folder), options=self.options).upsert(rows)

    def read(self, folder: Path) -> DataFrame:
        """Read the snapshot."""
        return Table.open(self.spark, str(folder)).read()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApacheHudi:
    """Apache Hudi through its data source."""

    spark: SparkSession
    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    def load(self, rows: DataFrame, folder: Path, table_type: str) -> None:
        """Bulk insert into a folder that is not there yet."""
        # Its non-blocking mode is for tables that exist.
        alone = {"hoodie.write.concurrency.mode": "SINGLE_WRITER"}
        self._write(rows, folder, table_type, "bulk_insert", alone)

    def change(self, rows: DataFrame, folder: Path, table_type: str) -> None:
        """Upsert."""
        self._write(rows, folder, table_type, "upsert", {})

    def read(self, folder: Path) -> DataFrame:
        """Read the snapshot."""
        return self.spark.read.format("hudi").load(str(folder))

    def _write(
        self,
        rows: DataFrame,
        folder: Path,
        table_type: str,
        operation: str,
        others: Mapping[str, str],
    ) -> None:
        options = {
            "hoodie.table.name": "bench",
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.datasource.write.operation": operation,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "region",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.table.ordering.fields": "ts",
            **self.options,
            **others,
        }
        rows.write.format("hudi").options(**options).mode("append").save(str(folder))


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Delta Lake; merge-on-read means deletion vectors."""

    spark: SparkSession
    name: str = "delta"

    def load(self, rows: DataFrame, folder: Path, table_type: str) -> None:
        """Write into a folder that is not there yet."""
        vectors = str(table_type == MOR).lower()
        rows.write.format("delta").partitionBy("region").option(
            "delta.enableDeletionVectors", vectors
        ).save(str(folder))

    def change(self, rows: DataFrame, folder: Path, table_type: str) -> None:  # noqa: ARG002
        """Merge."""
        _merge(self.spark, f"delta.`{folder}`", rows)

    def read(self, folder: Path) -> DataFrame:
        """Read the table."""
        return self.spark.read.format("delta").load(str(folder))


@dataclass(frozen=True, slots=True, kw_only=True)
class Iceberg:
    """Iceberg with a catalog of folders."""

    spark: SparkSession
    warehouse: Path
    name: str = "iceberg"

    def load(self, rows: DataFrame, folder: Path, table_type: str) -> None:
        """Create the table as the rows are."""
        mode = "merge-on-read" if table_type == MOR else "copy-on-write"
        writer = rows.writeTo(self._table(folder)).using("iceberg").partitionedBy(rows["region"])
        for operation in ("merge", "update", "delete"):
            writer = writer.tableProperty(f"write.{operation}.mode", mode)
        writer.tableProperty("format-version", "2").create()

    def change(self, rows: DataFrame, folder: Path, table_type: str) -> None:  # noqa: ARG002
        """Merge."""
        _merge(self.spark, self._table(folder), rows)

    def read(self, folder: Path) -> DataFrame:
        """Read the table."""
        return self.spark.table(self._table(folder))

    def _table(self, folder: Path) -> str:
        parts = folder.relative_to(self.warehouse).parts
        return ".".join((_CATALOG, *(f"`{part}`" for part in parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainParquet:
    """Files without a table: a change writes everything anew beside the old."""

    spark: SparkSession
    name: str = "plain parquet"

    def load(self, rows: DataFrame, folder: Path, table_type: str) -> None:  # noqa: ARG002
        """Write the files."""
        rows.write.partitionBy("region").parquet(str(folder / "0"))

    def change(self, rows: DataFrame, folder: Path, table_type: str) -> None:  # noqa: ARG002
        """Rewrite all rows."""
        kept = self.read(folder).join(rows, ["id", "region"], "left_anti")
        made = kept.unionByName(rows.where(f"not {DELETED}"))
        made.write.partitionBy("region").parquet(str(folder / str(self._newest(folder) + 1)))

    def read(self, folder: Path) -> DataFrame:
        """Read the files of the last change."""
        return self.spark.read.parquet(str(folder / str(self._newest(folder))))

    def _newest(self, folder: Path) -> int:
        return max(int(child.name) for child in folder.iterdir())


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One session, and the engines in it that are neither tidelake nor Apache Hudi."""

    spark: SparkSession
    others: Sequence[Engine]
    left_out: Sequence[str]


def start(warehouse: Path, *, cores: int, memory: str) -> Bench:
    """Start one session for all engines; those whose jars do not come are left out, and named."""
    jars = [apache_hudi.bundle()]
    extensions = []
    conf = {}
    left_out = []
    if delta := _downloaded(_DELTA_JARS):
        jars += delta
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        conf["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    else:
        left_out.append("delta")
    if iceberg := _downloaded(_ICEBERG_JARS):
        jars += iceberg
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        conf[f"spark.sql.catalog.{_CATALOG}"] = "org.apache.iceberg.spark.SparkCatalog"
        conf[f"spark.sql.catalog.{_CATALOG}.type"] = "hadoop"
        conf[f"spark.sql.catalog.{_CATALOG}.warehouse"] = str(warehouse)
    else:
        left_out.append("iceberg")
    # Hudi's data source needs none of its SQL extension, whose rules would see the others' MERGE.
    conf["spark.sql.extensions"] = ",".join(extensions)
    conf["spark.jars"] = ",".join(map(str, jars))
    spark = apache_hudi.session(cores=cores, memory=memory, conf=conf)
    others: list[Engine] = []
    if delta:
        others.append(Delta(spark=spark))
    if iceberg:
        others.append(Iceberg(spark=spark, warehouse=warehouse))
    return Bench(spark=spark, others=others, left_out=left_out)


def lone_writers(bench: Bench) -> Sequence[Engine]:
    """Return the engines as one writer uses them."""
    spark = bench.spark
    return [
        PlainParquet(spark=spark),
        Tidelake(spark=spark, name="tidelake", options=_BUCKET),
        Tidelake(spark=spark, name="tidelake (no bucket)"),
        ApacheHudi(spark=spark, name="hudi best", options=_APACHE_BEST),
        ApacheHudi(spark=spark, name="hudi default"),
        *bench.others,
    ]


def many_writers(bench: Bench) -> Sequence[Engine]:
    """Return the engines as writers that share a table use them, none retrying by itself."""
    spark = bench.spark
    return [
        *(
            Tidelake(
                spark=spark, name=f"tidelake {short}", options={**_BUCKET, **_UNCLEANED, **mode}
            )
            for short, mode in _MODES.items()
        ),
        *(
            ApacheHudi(
                spark=spark,
                name=f"hudi {short}",
                options={**_APACHE_BEST, **_APACHE_SHARED, **_UNCLEANED, **mode},
            )
            for short, mode in _MODES.items()
        ),
        *bench.others,
    ]


def _merge(spark: SparkSession, table: str, rows: DataFrame) -> None:
    rows.createOrReplaceTempView("bench_changes")
    spark.sql(
        f"MERGE INTO {table} t USING bench_changes s ON t.id = s.id AND t.region = s.region "
        f"WHEN MATCHED AND s.{DELETED} THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET * "
        f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT *"
    )


def _downloaded(jars: Mapping[str, str]) -> list[Path]:
    """Return the jars; none unless all can be had."""
    try:
        return [download(path, sha256) for path, sha256 in jars.items()]
    except JarUnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return []
