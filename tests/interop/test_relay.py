"""Twelve rounds in which tidelake and Apache Hudi take turns on one table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import VERSION
from tests.interop.shared_table import COW, MOR, Kind, SharedTable
from tests.interop.truth import rows

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.skipif(VERSION != "1.2.0", reason="the release that writes every table version"),
]

CLEANED = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
COMPACTED = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}


@pytest.mark.parametrize("with_metadata_table", [False, True], ids=["listing", "metadata"])
@pytest.mark.parametrize("table_type", [COW, MOR])
@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_twelve_rounds(
    table_version: int,
    table_type: str,
    with_metadata_table: bool,
    hudi_spark: SparkSession,
    tmp_path: Path,
) -> None:
    kind = Kind(
        table_type=table_type,
        table_version=table_version,
        apache={"hoodie.metadata.enable": str(with_metadata_table).lower()},
    )
    table = SharedTable(hudi_spark, tmp_path / "relay", kind)
    services = {**CLEANED, **(COMPACTED if table_type == MOR else {})}
    table.we("bulk_insert", rows(range(50), ts=1))
    table.check("1: our load")
    table.they("upsert", rows([*range(0, 50, 3), *range(50, 60)], ts=2, note="2"))
    table.check_last_turn("2: their upsert")
    table.we("upsert", rows([*range(0, 60, 4), *range(60, 70)], ts=3, note="3"))
    table.check_last_turn("3: our upsert")
    table.they("delete", rows(range(10, 20), ts=4))
    table.check("4: their delete")
    table.we("delete", rows([*range(15, 25), 61], ts=5))
    table.check_last_turn("5: our delete")
    table.they("upsert", rows(range(5, 30), ts=6, note="6"), services)
    table.check_last_turn("6: their upsert with services")
    table.we("insert_overwrite", rows(range(1, 40, 3), ts=7, note="7"))
    table.check_last_turn("7: our overwrite")
    table.they("upsert", rows(range(0, 45, 2), ts=8, note="8"), services)
    table.check_last_turn("8: their upsert over ours with services")
    table.we_delete_partitions(["region=r2"])
    table.check("9: our partition delete")
    table.they("insert_overwrite", rows(range(0, 30, 3), ts=10, note="10"), services)
    table.check("10: their overwrite")
    table.we("upsert", rows(range(0, 70, 2), ts=11, note="11"))
    table.check_last_turn("11: our upsert")
    table.they_delete_partitions(["region=r0"], rows([0], ts=12))
    table.check("12: their partition delete")
    table.they("upsert", rows(range(0, 70, 5), ts=13, note="13"), services)
    table.we("upsert", rows(range(0, 70, 7), ts=14, note="14"))
    table.check_last_turn("after the relay")
    assert not table.differences, "\n".join(table.differences)
