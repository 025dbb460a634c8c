"""The tables that the benchmark reads: written by Apache Hudi, once, and kept in a cache folder."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CACHE = Path(__file__).parent / ".cache"
REGIONS = (
    "amer-east",
    "amer-south",
    "amer-west",
    "apac",
    "euro-east",
    "euro-west",
    "gulf",
    "nordic",
)
_GENERATION = 1  # a change of the rows below needs a new number, or old caches would be measured


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """What Apache Hudi is asked to write."""

    name: str
    table_type: str
    rows: int
    rounds: int
    options: dict[str, str] = field(default_factory=dict)

    def build(self, spark: SparkSession) -> Path:
        """Return the table's folder, writing the table unless the cache holds this very one."""
        root = CACHE / f"{self.name}-{self.rows}"
        stamp = root / "spec.json"
        wanted = json.dumps({"generation": _GENERATION, **asdict(self)}, sort_keys=True)
        table = root / "table"
        if stamp.exists() and stamp.read_text() == wanted:
            return table
        shutil.rmtree(root, ignore_errors=True)
        self._write(base_rows(spark, self.rows), "bulk_insert", table)
        for number in range(1, self.rounds + 1):
            sys.stderr.write(f"  {self.name}: round {number} of {self.rounds}\n")
            self._write(round_rows(spark, self.rows, number), "upsert", table)
        stamp.write_text(wanted)
        return table

    def _write(self, df: DataFrame, operation: str, table: Path) -> None:
        options = {
            "hoodie.table.name": self.name.replace("-", "_"),
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.datasource.write.operation": operation,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "region",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.bulkinsert.shuffle.parallelism": "8",
            "hoodie.upsert.shuffle.parallelism": "8",
            **self.options,
        }
        df.write.format("hudi").options(**options).mode("append").save(str(table))


def specs(rows: int) -> tuple[TableSpec, ...]:
    """Return the benchmark's tables at `rows` rows each."""
    bucket = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    # Without it inserts rewrite small base files, and those file groups would have no logs.
    no_small_files = {"hoodie.parquet.small.file.limit": "0"}
    return (
        TableSpec(name="cow", table_type="COPY_ON_WRITE", rows=rows, rounds=8),
        TableSpec(
            name="mor-bucket", table_type="MERGE_ON_READ", rows=rows, rounds=8, options=bucket
        ),
        TableSpec(
            name="mor-simple",
            table_type="MERGE_ON_READ",
            rows=rows,
            rounds=8,
            options=no_small_files,
        ),
    )


def _columns(source: DataFrame, rows_round: int, deleted: str) -> DataFrame:
    """Give `source` (a column `n`) the 11 columns; every value follows from `n` and the round.

    Amounts are quarters, so that their sums are exact and equal in whatever order they are added.
    """
    hashed = f"xxhash64(n, {rows_round})"
    regions = ", ".join(f"'{r}'" for r in REGIONS)
    return source.selectExpr(
        "concat(sha1(cast(n as string)), '-', n) as id",
        f"element_at(array({regions}), cast(n % {len(REGIONS)} as int) + 1) as region",
        f"n % 1000 + {rows_round} * 1000 as ts",
        f"cast(pmod({hashed}, 400000) as double) / 4 as amount",
        f"cast(pmod(shiftright({hashed}, 8), 4000) as double) / 4 as price",
        f"cast(pmod(shiftright({hashed}, 16), 100) as int) as quantity",
        f"date_add(date'2026-01-01', cast(pmod(shiftright({hashed}, 24), 365) as int)) as day",
        f"timestamp_seconds(1767225600 + pmod(shiftright({hashed}, 5), 31536000)) as created",
        f"concat('city-', pmod(shiftright({hashed}, 12), 200)) as city",
        f"concat('note about order ', pmod(shiftright({hashed}, 3), 50021)) as note",
        f"{deleted} as _hoodie_is_deleted",
    )


def base_rows(spark: SparkSession, rows: int) -> DataFrame:
    """Return the rows that a table begins with."""
    return _columns(spark.range(rows).withColumnRenamed("id", "n"), 0, "false")


def round_rows(spark: SparkSession, rows: int, number: int) -> DataFrame:
    """Return one round: a twentieth of the table, of it 80 % updates, 15 % inserts, 5 % deletes.

    Updates and deletes prefer low numbers (cubed), so some rows change in nearly every round.
    """
    size = rows // 20
    inserts = size * 15 // 100
    touched = size - inserts
    unit = f"(pmod(xxhash64(id, {number}, 7), 1000000) / 1000000D)"
    changes = (
        spark.range(touched)
        .selectExpr(f"cast(pow({unit}, 3) * {rows} as bigint) as n", f"id < {size // 20} as gone")
        .groupBy("n")
        .agg({"gone": "max"})
        .withColumnRenamed("max(gone)", "gone")
    )
    start = rows + (number - 1) * inserts
    fresh = spark.range(start, start + inserts).selectExpr("id as n", "false as gone")
    return _columns(changes.unionByName(fresh), number, "gone")


def updated_rows(numbers: DataFrame, number: int) -> DataFrame:
    """Return new values, of round `number`, for the rows that the column `n` numbers."""
    return _columns(numbers, number, "false")
