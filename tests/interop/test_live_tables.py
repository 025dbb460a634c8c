from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.golden import harness
from tests.golden.harness import Verdict
from tests.interop.live_table import LiveTable
from tidelake import Table

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
Story = Callable[[LiveTable], None]


def updates_and_deletes(table: LiveTable) -> None:
    table.insert(range(60))
    table.upsert(range(10, 30), ts=2)
    table.delete(range(25, 35), ts=3)
    table.upsert(range(20, 80, 3), ts=4)


def compaction(table: LiveTable) -> None:
    table.insert(range(60))
    table.upsert(range(0, 60, 2), ts=2)
    table.upsert(
        range(10, 20),
        ts=3,
        hoodie__compact__inline="true",
        hoodie__compact__inline__max__delta__commits="1",
    )
    table.delete(range(15, 18), ts=4)
    table.upsert(range(0, 60, 7), ts=5)


def clustering(table: LiveTable) -> None:
    table.insert(range(30))
    table.insert(range(30, 60))
    table.upsert(
        range(5, 10),
        ts=3,
        hoodie__clustering__inline="true",
        hoodie__clustering__inline__max__commits="1",
        hoodie__clustering__plan__strategy__small__file__limit="629145600",
    )
    table.upsert(range(8, 40, 4), ts=4)


def overwrite(table: LiveTable) -> None:
    table.insert(range(60))
    table.upsert(range(0, 60, 5), ts=2)
    table.overwrite(range(1, 30, 3), ts=3)
    table.upsert(range(0, 30, 2), ts=4)
    table.delete_partition("r0")


KEYGEN = "org.apache.hudi.keygen"
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
NOT_PARTITIONED = {
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": f"{KEYGEN}.NonpartitionedKeyGenerator",
}
TWO_PARTS = {
    "hoodie.datasource.write.recordkey.field": "id,region",
    "hoodie.datasource.write.partitionpath.field": "region,day",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.keygenerator.class": f"{KEYGEN}.ComplexKeyGenerator",
}
WITHOUT_METADATA_TABLE = {"hoodie.metadata.enable": "false"}

TABLES: list[tuple[str, int, Story, dict[str, str]]] = [
    *((kind, version, updates_and_deletes, {}) for kind in (COW, MOR) for version in (6, 8, 9)),
    *((MOR, version, compaction, {}) for version in (6, 8, 9)),
    *((kind, version, clustering, {}) for kind in (COW, MOR) for version in (6, 9)),
    (COW, 9, overwrite, {}),
    (MOR, 8, overwrite, {}),
    (MOR, 9, compaction, BUCKET),
    (MOR, 9, updates_and_deletes, NOT_PARTITIONED),
    (COW, 8, updates_and_deletes, TWO_PARTS),
    (MOR, 9, compaction, WITHOUT_METADATA_TABLE),
]


def label(case: tuple[str, int, Story, dict[str, str]]) -> str:
    kind, version, story, options = case
    extra = "".join(f"-{value.rpartition('.')[2]}" for value in options.values())
    return f"{'mor' if kind == MOR else 'cow'}-v{version}-{story.__name__}{extra}"


@pytest.mark.parametrize("case", TABLES, ids=label)
def test_tidelake_reads_what_apache_reads(
    case: tuple[str, int, Story, dict[str, str]], hudi_spark: SparkSession, tmp_path: Path
) -> None:
    kind, version, story, options = case
    table = LiveTable(
        spark=hudi_spark,
        path=tmp_path / "live",
        table_type=kind,
        table_version=version,
        options=options,
    )
    story(table)
    settings = [{"hoodie.metadata.enable": "true"}, {"hoodie.metadata.enable": "false"}]
    if kind == MOR:
        settings = [
            {**listing, "hoodie.read.merge.path": path}
            for listing, path in zip(settings, ("mask", "rows"), strict=True)
        ]
    differences = []
    for question in table.questions():
        for each in settings:
            open_table = partial(Table.open, hudi_spark, str(table.path), options=each)
            outcome = harness.judge(question, open_table)
            if outcome.verdict is Verdict.DIFFERS:
                differences.append(f"{question.label} {each}: {outcome.story}")
    assert not differences, "\n".join(differences)
