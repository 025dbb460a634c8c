"""hudi-rs and we read, after every commit, what a dictionary says the table holds."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from random import Random  # noqa: TID251 - seeded by the case's name

import pytest
from pyspark.sql import SparkSession

from tests.writes.cases import INDEXES, KEYS, SCRIPT, Case, RandomWrites
from tests.writes.hudi_rs import hudi_rs_for
from tests.writes.spark_writer import SparkWriter
from tests.writes.table import WrittenTable, counted
from tidelake import Table

#: Every version with every type and log format, and every index and key generator with some.
SAMPLE = [
    Case(version=9, mor=True, index="BUCKET"),
    Case(version=9, index="BLOOM", keys=KEYS["timestamp"]),
    Case(version=9, mor=True, index="SIMPLE", keys=KEYS["made up"]),
    Case(version=9, mor=True, index="SIMPLE", log_format="parquet", by_event_time=False),
    Case(version=8, mor=True, index="GLOBAL_SIMPLE", log_format="parquet", keys=KEYS["encoded"]),
    Case(version=8, index="BUCKET", keys=KEYS["unpartitioned"]),
    Case(version=8, mor=True, index="GLOBAL_BLOOM", keys=KEYS["unpartitioned"]),
    Case(version=6, mor=True, index="SIMPLE", keys=KEYS["complex"]),
    Case(version=6, index="GLOBAL_BLOOM", keys=KEYS["custom"]),
    Case(version=6, mor=True, index="BUCKET", log_format="parquet"),
]


def matrix() -> list[Case]:
    """Return every table of the matrix."""
    kinds = ((False, "avro"), (True, "avro"), (True, "parquet"))
    return [
        Case(version=version, mor=mor, log_format=log_format, index=index, keys=keys)
        for version in (6, 8, 9)
        for mor, log_format in kinds
        for index in INDEXES
        for keys in KEYS.values()
        if keys.key or index == "SIMPLE"
    ]


def write_all(spark: SparkSession, cases: Sequence[Case], scratch: Path, seed: str) -> None:
    tables = []
    for at, case in enumerate(cases):
        table = WrittenTable(SparkWriter(spark), scratch / f"table{at}", case, hudi_rs_for(case))
        tables.append(table)
        writes = RandomWrites(case, Random(zlib.crc32(f"{seed}{case.name}".encode())))
        for do in SCRIPT:
            if do in case.operations:
                table.write(writes.step(table.model, do))
                table.check_now()
        table.check_past()
        shown = Table.open(spark, str(table.root)).read().collect()
        table.check("Spark snapshot", [row.asDict() for row in shown])
    found = counted(tables)
    print(*(f"{number} {name}" for name, number in found.items()), sep=", ")  # noqa: T201
    wrong = "\n".join(table.told() for table in tables if table.differences)
    assert not wrong, f"TIDELAKE_SEED={seed!r}\n{wrong}"
    assert found["answers"] > len(SCRIPT) * len(cases)


@pytest.mark.slow
@pytest.mark.parametrize(
    "cases", [SAMPLE[:2], pytest.param(SAMPLE[2:], marks=pytest.mark.deep)], ids=["two", "others"]
)
def test_two_readers_agree_with_the_model_on_a_table_of_each_kind(
    spark: SparkSession, tmp_path: Path, cases: Sequence[Case]
) -> None:
    write_all(spark, cases, tmp_path, os.environ.get("TIDELAKE_SEED", ""))


@pytest.mark.long
@pytest.mark.timeout(0)
def test_two_readers_agree_with_the_model_on_the_whole_matrix(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_all(spark, matrix(), tmp_path, os.environ.get("TIDELAKE_SEED", ""))
