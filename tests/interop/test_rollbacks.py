"""Apache Hudi goes on with a table whose failed write we have rolled back, wholly or in part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from tests.golden import harness
from tests.golden.local_table import LocalTable
from tidelake.config import TableConfig
from tidelake.env import Env
from tidelake.model import Action, TableType
from tidelake.storage import LocalStorage, Storage
from tidelake.testing import Crash, Fault, FaultyStorage
from tidelake.timeline import TimelineContents, load_table_config, load_timeline
from tidelake.txn import InstantTimes, TableSpec, create_table, failed_writes, roll_back_failed

pytestmark = pytest.mark.interop

TABLES = ["v6_cow_failed_direct", "v6_mor_failed_direct", "v9_mor_failed_write_left"]
Stop = Callable[[int, str, str], Fault | None]


def at_end_of(suffix: str, fault: Fault) -> Stop:
    return lambda _number, _name, path: fault if path.endswith(suffix) else None


def at_first_undone(_number: int, name: str, path: str) -> Fault | None:
    touches_data = not path.startswith(".hoodie") and name in ("delete", "put_if_absent")
    return Fault.CRASH_AFTER if touches_data else None


STOPS: dict[str, Stop | None] = {
    "planned": at_end_of(".rollback.requested", Fault.CRASH_AFTER),
    "one file undone": at_first_undone,
    "not completed": at_end_of(".rollback", Fault.CRASH_BEFORE),
    "done": None,
}


def roll_back(storage: Storage) -> None:
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    env = Env(storage)
    contents = TimelineContents(storage, config)
    roll_back_failed(env, config, timeline, contents, InstantTimes(env.clock, config, timeline))


def options(config: TableConfig) -> dict[str, str]:
    version = str(config.table_version)
    found = {
        "hoodie.table.name": config.name,
        "hoodie.datasource.write.table.type": config.table_type.value,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": ",".join(config.record_key_fields),
        "hoodie.datasource.write.partitionpath.field": ",".join(config.partition_fields),
        "hoodie.write.table.version": version,
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }
    if config.ordering_fields:
        found["hoodie.datasource.write.precombine.field"] = ",".join(config.ordering_fields)
    if config.payload_class:
        found["hoodie.datasource.write.payload.class"] = config.payload_class
    return found


def apache(spark: SparkSession, root: Path) -> DataFrame:
    frame = spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(str(root))
    return frame.select([c for c in frame.columns if not c.startswith("_hoodie_")])


def keyed(rows: Iterable[object], key: str) -> dict[str, object]:
    parsed = [json.loads(str(row)) for row in rows]
    found = {str(row[key]): row for row in parsed}
    assert len(found) == len(parsed), "a key came twice"
    return found


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("table", TABLES)
def test_apache_goes_on_where_a_rollback_of_ours_stopped(
    table: str, stop: str, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    root = harness.unpack(harness.load(table), tmp_path)
    storage = LocalStorage(str(root))
    config = load_table_config(storage)
    (failed,) = failed_writes(load_timeline(storage, config), TimelineContents(storage, config))
    fault = STOPS[stop]
    if fault is None:
        roll_back(storage)
    else:
        with pytest.raises(Crash):
            roll_back(FaultyStorage(storage, fault))

    (key,) = config.record_key_fields
    truth = keyed(apache(hudi_spark, root).toJSON().collect(), key)
    # Far enough that the failed instant would count as archived, and thus as committed.
    for turn in range(6):
        row = apache(hudi_spark, root).where(F.col(key) == min(truth)).limit(1)
        added = row.withColumn(key, F.lit(f"zz{turn}")).localCheckpoint()
        truth |= keyed(added.toJSON().collect(), key)
        writer = added.write.format("hudi").options(**options(config))
        writer.mode("append").save(str(root))

    assert keyed(apache(hudi_spark, root).toJSON().collect(), key) == truth
    ours = LocalTable(str(root), {"hoodie.metadata.enable": "false"}).read().collect()
    assert keyed(ours, key).keys() == truth.keys()
    timeline = load_timeline(storage, load_table_config(storage))
    assert not timeline.pending
    assert timeline.is_archived(failed.requested_time)
    left = [path for path in storage.files_below("") if failed.requested_time in path]
    assert [path for path in left if "/history/" not in path and "/archived/" not in path] == []


@pytest.mark.parametrize("table_type", TableType)
@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_apache_reads_and_fills_an_empty_table_of_ours(
    table_version: int, table_type: TableType, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "t"
    storage = LocalStorage(str(root))
    fields = [("id", "string"), ("ts", "long"), ("p", "string")]
    schema = {
        "type": "record",
        "name": "t_record",
        "fields": [{"name": n, "type": ["null", t], "default": None} for n, t in fields],
    }
    spec = TableSpec(
        name="t",
        schema=json.dumps(schema),
        table_type=table_type,
        table_version=table_version,
        record_key_fields=("id",),
        partition_fields=("p",),
        ordering_fields=("ts",),
        hive_style_partitioning=True,
    )
    config = create_table(Env(storage), spec)
    assert apache(hudi_spark, root).count() == 0

    given = options(config)
    given["hoodie.datasource.write.hive_style_partitioning"] = "true"
    for ts in (1, 3, 2):
        rows = hudi_spark.createDataFrame(
            [("a", ts, "x"), (f"b{ts}", ts, "y")], "id string, ts bigint, p string"
        )
        rows.write.format("hudi").options(**given).mode("append").save(str(root))
    found = {(r.id, r.ts) for r in apache(hudi_spark, root).collect()}
    assert found == {("a", 3), ("b1", 1), ("b2", 2), ("b3", 3)}
    assert load_table_config(storage).table_version == table_version
    actions = {i.action for i in load_timeline(storage, config).completed}
    assert Action.ROLLBACK not in actions
