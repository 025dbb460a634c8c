"""The files of a table as Apache's own reader of the metadata table lists them, and as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def listed_files(spark: SparkSession, root: Path) -> set[tuple[str, int]]:
    """Return the files and sizes that Apache Hudi finds in the metadata table."""
    jvm: Any = spark._jvm
    hadoop = spark._jsc.hadoopConfiguration()
    conf = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(hadoop)
    engine = jvm.org.apache.hudi.common.engine.HoodieLocalEngineContext(conf)
    config = jvm.org.apache.hudi.common.config.HoodieMetadataConfig.newBuilder()
    config = config.enable(True).build()
    storage = jvm.org.apache.hudi.storage.HoodieStorageUtils.getStorage(str(root), conf)
    kind = jvm.org.apache.hudi.metadata.HoodieBackedTableMetadata
    table = kind(engine, storage, config, str(root))
    try:
        return {
            (f"{partition}/{file.getPath().getName()}", file.getLength())
            for partition in table.getAllPartitionPaths()
            for file in table.getAllFilesInPartition(
                jvm.org.apache.hudi.storage.StoragePath(f"{root}/{partition}")
            )
        }
    finally:
        table.close()


def stored_files(root: Path) -> set[tuple[str, int]]:
    """Return the data files that are there, with their sizes."""
    return {
        (str(file.relative_to(root)), file.stat().st_size)
        for folder in root.iterdir()
        if folder.is_dir() and folder.name != ".hoodie"
        for file in folder.iterdir()
        if not file.name.startswith(".hoodie_partition") and not file.name.endswith(".crc")
    }


def metadata_partitions(root: Path) -> str:
    """Return the partitions of the metadata table that are in use, as the table names them."""
    text = (root / ".hoodie" / "hoodie.properties").read_text()
    lines = dict(line.partition("=")[::2] for line in text.splitlines())
    return lines.get("hoodie.table.metadata.partitions", "")
