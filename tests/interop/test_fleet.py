"""Five minutes of writers and a compactor that are killed at random, read by both foreign readers.

The daily run has half a minute of it, without Apache Hudi (tests/many).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.many.fleet import Fleet, Row
from tests.many.test_fleet import MODES, SHARED, hold, ours, theirs

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


def apaches(spark: SparkSession, root: Path) -> dict[str, Row]:
    found = spark.read.format("hudi").load(str(root)).select("id", "ts", "v").collect()
    rows = {row.id: (row.ts, row.v) for row in found}
    assert len(rows) == len(found)
    return rows


@pytest.mark.parametrize("mode", MODES)
def test_five_minutes_of_kills(hudi_spark: SparkSession, tmp_path: Path, mode: str) -> None:
    options = {**SHARED, "hoodie.write.concurrency.mode": MODES[mode]}
    fleet = Fleet(tmp_path / "t", options, writers=4, seed=2)
    hold(fleet, seconds=300, kill_every=3)
    owed = fleet.owed()
    assert apaches(hudi_spark, fleet.root) == owed
    hudi_spark.sql(f"call run_compaction(op => 'scheduleAndExecute', path => '{fleet.root}')")
    assert apaches(hudi_spark, fleet.root) == owed
    assert ours(fleet.root) == owed
    assert theirs(fleet.root) == owed
