"""The metadata table that we keep, asked of Apache Hudi: its listing, its filters, its writers.

After every write of ours Apache's default reader, which lists files through the metadata table and
leaves files out by its statistics, has to find what a reader finds that lists storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.interop.apache_hudi import VERSION, write_options
from tests.interop.listings import listed_files, metadata_partitions, stored_files
from tidelake import Table

pytestmark = pytest.mark.interop

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
SCHEMA = (
    "id string, region string, ts long, c_bool boolean, c_int int, c_float float, c_double double, "
    "c_dec decimal(9,2), c_big decimal(38,10), c_str string, c_bin binary, c_date date, "
    "c_ts timestamp"
)
#: On version 8 statistics are kept of these alone.
PLAIN = ("id", "region", "ts", "c_bool", "c_int", "c_float", "c_double", "c_str")
FILTERS = (
    "c_bool",
    "c_int between 4 and 6",
    "c_int < 0",
    "c_float > 2.5",
    "c_double = 7.5",
    "c_double > 1000",
    "c_dec >= 5.25",
    "c_big < 3",
    "c_str = 'строка 3 2'",
    "c_str > 'zz'",
    "c_date >= date'2026-01-06'",
    "c_ts < timestamp'2026-01-01 00:04:00'",
    "c_int is null",
    "c_str is not null and ts = 2",
    "region = 'r1' and c_int > 2",
    "id = 'k3'",
)


class Kept:
    """A table with a metadata table, which tidelake and Apache Hudi write in turn."""

    def __init__(self, spark: SparkSession, path: Path, table_type: str, version: int) -> None:
        self.spark = spark
        self.root = path
        self.path = str(path)
        self.type = table_type
        self.version = version
        self.truth: dict[str, tuple[Any, ...]] = {}
        self.problems: list[str] = []
        columns = {} if version >= 9 else {_COLUMN_LIST: ",".join(PLAIN)}
        self.options = {
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.index.column.stats.enable": str(version >= 8).lower(),
            "hoodie.metadata.record.index.enable": str(version >= 9).lower(),
            "hoodie.metadata.compact.max.delta.commits": "3",
            "hoodie.clean.automatic": "false",
            **columns,
        }
        Table.create(
            spark,
            self.path,
            SCHEMA,
            name="kept",
            key="id",
            partition_by="region",
            ordering="ts",
            table_type=table_type,
            table_version=version,
        )

    def rows(self, numbers: Sequence[int], ts: int) -> DataFrame:
        columns = (
            "concat('k', n) as id",
            "concat('r', n % 2) as region",
            f"{ts}L as ts",
            "n % 3 = 0 as c_bool",
            f"if(n % 5 = 4, null, cast(n * {ts} as int)) as c_int",
            "cast(n as float) / 2 as c_float",
            # Of a base file of its own with such a number Apache says that all are 0.0, and leaves
            # the file out.
            f"if(n = 8 and {ts} = 2, double('NaN'), n * 1.5D) as c_double",
            "cast(n + 0.25 as decimal(9,2)) as c_dec",
            "cast(n - 0.5 as decimal(38,10)) as c_big",
            f"if(n % 4 = 1, null, concat('строка ', n, ' ', {ts})) as c_str",
            "unhex(concat('0', n % 10, 'ff')) as c_bin",
            "date_add(date'2026-01-01', cast(n as int)) as c_date",
            "timestamp_seconds(1767225600 + n * 60) as c_ts",
        )
        source = self.spark.createDataFrame([(n,) for n in numbers], "n long").coalesce(1)
        return source.selectExpr(*columns)

    def we(self, operation: str, numbers: Sequence[int], ts: int, **options: str) -> None:
        frame = self.rows(numbers, ts)
        given = {key.replace("__", "."): value for key, value in options.items()}
        table = Table.open(self.spark, self.path)
        getattr(table, operation)(frame, options={**self.options, **given})
        self.took_effect(operation, frame)
        self.check(f"our {operation} at {ts}")

    def they(self, operation: str, numbers: Sequence[int], ts: int, **options: str) -> None:
        frame = self.rows(numbers, ts)
        settings = {
            **write_options("kept", self.type, self.version, partition_by="region"),
            "hoodie.datasource.write.operation": operation,
            "hoodie.clean.automatic": "true",
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.compact.max.delta.commits": "3",
            **{key.replace("__", "."): value for key, value in options.items()},
        }
        frame.write.format("hudi").options(**settings).mode("append").save(self.path)
        self.took_effect(operation, frame)
        self.check(f"their {operation} at {ts}")

    def we_delete_partition(self, path: str) -> None:
        Table.open(self.spark, self.path).delete_partitions([path], options=self.options)
        self.truth = {k: row for k, row in self.truth.items() if f"region={row[1]}" != path}
        self.check(f"without {path}")

    def took_effect(self, operation: str, frame: DataFrame) -> None:
        rows = {row["id"]: tuple(row) for row in frame.collect()}
        if operation == "delete":
            for key in rows:
                self.truth.pop(key, None)
            return
        if operation == "insert_overwrite":
            touched = {row[1] for row in rows.values()}
            self.truth = {k: row for k, row in self.truth.items() if row[1] not in touched}
        self.truth |= rows

    def read(self, where: str | None = None, *, metadata: bool = True) -> DataFrame:
        reader = self.spark.read.format("hudi").option(
            "hoodie.metadata.enable", str(metadata).lower()
        )
        frame = reader.load(self.path).selectExpr(*(c.split()[0] for c in SCHEMA.split(", ")))
        return frame if where is None else frame.where(where)

    def check(self, after: str) -> None:
        wanted = shown(self.truth.values())
        for name, frame in {
            "through the metadata table": self.read(),
            "by listing": self.read(metadata=False),
            "by tidelake": Table.open(self.spark, self.path).read(),
        }.items():
            found = shown(map(tuple, frame.collect()))
            if found != wanted:
                self.problems.append(f"{after}: {name} {len(found)} rows for {len(wanted)}")
        listed, there = listed_files(self.spark, self.root), stored_files(self.root)
        if listed != there:
            self.problems.append(f"{after}: listing differs by {sorted(listed ^ there)[:4]}")

    def check_filters(self, after: str) -> None:
        with_stats = self._filtered(metadata=True)
        without = self._filtered(metadata=False)
        for number, where in enumerate(FILTERS):
            if with_stats.get(number) != without.get(number):
                self.problems.append(
                    f"{after}: {where} finds {with_stats.get(number)}, not {without.get(number)}"
                )

    def _filtered(self, *, metadata: bool) -> dict[int, list[str]]:
        frames = [
            self.read(where, metadata=metadata).selectExpr(f"{number} as number", "id")
            for number, where in enumerate(FILTERS)
        ]
        together = frames[0]
        for frame in frames[1:]:
            together = together.unionAll(frame)
        found: dict[int, list[str]] = {}
        for number, key in sorted(map(tuple, together.collect())):
            found.setdefault(number, []).append(key)
        return found


_COLUMN_LIST = "hoodie.metadata.index.column.stats.column.list"
VERSIONS = {"1.2.0": (9,), "1.0.2": (8,), "0.15.0": (6,)}[VERSION]


def through_index(version: int) -> dict[str, str]:
    """Return the options by which Apache's writer finds keys in the record index that we keep."""
    if version < 9:
        return {}
    return {
        "hoodie__index__type": "RECORD_INDEX",
        "hoodie__metadata__record__index__enable": "true",
    }


def shown(rows: Any) -> list[str]:
    return sorted(str(tuple(map(str, row))) for row in rows)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("table_type", [COW, MOR])
def test_apache_reads_and_writes_through_the_metadata_table_that_we_keep(
    hudi_spark: SparkSession, tmp_path: Path, table_type: str, version: int
) -> None:
    kept = Kept(hudi_spark, tmp_path / "kept", table_type, version)
    names = {6: "files", 8: "column_stats,files,partition_stats"}.get(
        version, "column_stats,files,partition_stats,record_index"
    )
    kept.we("insert", range(6), 1)
    kept.we("upsert", range(3, 9), 2)
    assert metadata_partitions(kept.root) == names
    kept.check_filters("two writes of ours")
    # Not in the partition of row 8: Apache would write its base file anew.
    kept.they("upsert", [7, 9, 11], 3, **through_index(version))
    kept.we("delete", [1, 4], 4, **through_index(version))
    kept.we("upsert", [2, 7, 12, 13], 5, **through_index(version))
    kept.check_filters("five writes")
    kept.they("upsert", [0, 1, 12, 14], 6, **through_index(version))
    assert metadata_partitions(kept.root) == names
    kept.we("insert_overwrite", [20, 22], 7)
    assert metadata_partitions(kept.root) == names
    # Keys that the overwrite took away are new again, and those that it brought are found.
    kept.they("upsert", [0, 2, 20, 21], 8, **through_index(version))
    kept.we("upsert", [0, 4, 22], 9, **through_index(version))
    kept.we_delete_partition("region=r1")
    kept.they("upsert", [0, 1, 3, 21], 10, **through_index(version))
    kept.we("upsert", [1, 5, 23], 11, **through_index(version))
    assert metadata_partitions(kept.root) == names
    kept.check_filters("twelve writes")
    assert kept.problems == []


@pytest.mark.skipif(VERSION != "1.2.0", reason="needs a release that writes version 9")
@pytest.mark.parametrize("table_type", [COW, MOR])
def test_apache_finds_keys_in_an_index_that_we_made_of_rows(
    hudi_spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    kept = Kept(hudi_spark, tmp_path / "kept", table_type, 9)
    asked_for = kept.options
    kept.options = {**asked_for, "hoodie.metadata.record.index.enable": "false"}
    kept.we("insert", range(6), 1)
    kept.they("upsert", [3, 7], 2)
    kept.we("delete", [1], 3)
    assert "record_index" not in metadata_partitions(kept.root)
    kept.options = asked_for
    kept.we("upsert", [2, 8], 4, **through_index(9))
    assert "record_index" in metadata_partitions(kept.root)
    kept.they("upsert", [0, 1, 2, 7, 9], 5, **through_index(9))
    kept.we("upsert", [1, 4, 8, 10], 6, **through_index(9))
    kept.they("delete", [4, 5], 7, **through_index(9))
    kept.they("upsert", [3, 4, 6], 8, **through_index(9))
    assert "record_index" in metadata_partitions(kept.root)
    assert kept.problems == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("table_type", [COW, MOR])
@pytest.mark.parametrize("rounds", [1, 4])
def test_apache_goes_on_after_our_restore(
    hudi_spark: SparkSession, tmp_path: Path, table_type: str, version: int, rounds: int
) -> None:
    kept = Kept(hudi_spark, tmp_path / "kept", table_type, version)
    kept.we("insert", range(6), 1)
    kept.they("upsert", range(3, 8), 2, **through_index(version))
    table = Table.open(hudi_spark, kept.path, options=kept.options)
    saved, truth = table.savepoint().instant, dict(kept.truth)
    for ts in range(3, 3 + rounds):
        kept.we("upsert", [ts, ts + 10], ts)
    kept.they("upsert", [0, 7, 20], 8)
    table.restore(saved)
    kept.truth = truth
    kept.check(f"our restore of {rounds + 1} writes")
    kept.check_filters("our restore")
    kept.they("upsert", [0, 21, 22], 9)
    kept.we("upsert", [0, 5, 21, 23], 10)
    kept.they("upsert", [5, 23], 11)
    kept.check_filters("writes after our restore")
    assert kept.problems == []
