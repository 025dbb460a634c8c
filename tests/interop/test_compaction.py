"""Compactions that one engine plans and the other carries out."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import VERSION
from tests.interop.shared_table import MOR, Kind, SharedTable
from tests.interop.truth import rows
from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.model import State
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state
from tidelake.operations.task_runner import Here
from tidelake.storage import open_storage
from tidelake.testing import Crash, Fault, FaultyStorage

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

VERSIONS = {"1.2.0": [6, 8, 9], "1.0.2": [8], "0.15.0": [6]}[VERSION]
each_version = pytest.mark.parametrize("table_version", VERSIONS)


def logged(spark: SparkSession, path: Path, table_version: int, metadata: str) -> SharedTable:
    kind = Kind(
        table_type=MOR, table_version=table_version, apache={"hoodie.metadata.enable": metadata}
    )
    table = SharedTable(spark, path, kind)
    table.we("bulk_insert", rows(range(40), ts=1))
    table.they("upsert", rows(range(0, 40, 3), ts=2, note="theirs"))
    table.we("upsert", rows(range(0, 40, 4), ts=3, note="ours"))
    table.we("delete", rows([5, 6, 7], ts=4))
    table.they("delete", rows([8, 9], ts=4))
    return table


def no_logs(table: SharedTable) -> bool:
    return all(not piece.log_files for piece in table.ours.slices())


@pytest.mark.parametrize("metadata", ["false", "true"], ids=["listing", "metadata"])
@each_version
def test_each_carries_out_the_others_plan(
    table_version: int, metadata: str, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    table = logged(hudi_spark, tmp_path / "t", table_version, metadata)
    table.check("before")
    planned = table.ours.compact.schedule()
    assert planned is not None
    table.check("our plan waits")
    table.they("upsert", rows(range(0, 40, 5), ts=5, note="behind our plan"))
    table.check("they write behind our plan")
    table.we("upsert", rows(range(1, 40, 5), ts=6, note="behind our plan too"))
    table.check("we write behind our plan")
    table.they_run_compactions()
    assert table.pending_compactions() == []
    if table_version < 8:
        # Where the metadata table is out of use while a plan waits, Apache builds it anew while it
        # carries the plan out, and leaves out the logs that are named after the plan. Its readers
        # miss their rows until the next write of ours, which makes that good.
        table.we("upsert", rows(range(4, 40, 5), ts=6, note="behind our plan as well"))
    table.check("they carried out our plan")

    theirs = table.they_schedule_compaction()
    table.we("upsert", rows(range(2, 40, 5), ts=7, note="behind their plan"))
    table.they("upsert", rows(range(3, 40, 5), ts=8, note="behind their plan too"))
    table.check("both write behind their plan")
    commit = table.ours.compact.run(theirs)
    assert commit.requested_time == theirs
    table.check("we carried out their plan")

    assert table.ours.compact() is not None
    assert no_logs(table)
    table.check("we compacted")
    table.they("upsert", rows(range(0, 60, 7), ts=9, note="after"))
    table.we("upsert", rows(range(0, 60, 9), ts=10, note="after"))
    table.check_last_turn("both go on")
    table.they_schedule_compaction()
    table.they_run_compactions()
    assert no_logs(table)
    table.check_last_turn("they compacted")
    assert not table.differences, "\n".join(table.differences)


@each_version
def test_they_carry_out_a_plan_on_which_we_died(
    table_version: int, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    table = logged(hudi_spark, tmp_path / "t", table_version, "false")
    planned = table.ours.compact.schedule()
    assert planned is not None
    table.we("upsert", rows(range(1, 40, 5), ts=6, note="behind the plan"))

    def die(_number: int, name: str, path: str) -> Fault | None:
        is_end = name == "put_if_absent" and path.endswith(".commit")
        return Fault.CRASH_BEFORE if is_end else None

    storage = FaultyStorage(open_storage(str(table.path)), die)
    compactor = Compactor(
        Env(storage), lambda: load_state(storage, {}), WriteOptions.from_options({}), Here()
    )
    with pytest.raises(Crash):
        compactor.run(planned)
    (instant,) = [i for i in table.ours.timeline() if i.requested_time == planned]
    assert instant.state is State.INFLIGHT
    table.check("we died")
    table.they_run_compactions()
    assert table.pending_compactions() == []
    table.check("they carried it out")
    table.we("upsert", rows(range(0, 60, 9), ts=10, note="after"))
    assert table.ours.compact() is not None
    assert no_logs(table)
    table.check_last_turn("we go on")
    assert not table.differences, "\n".join(table.differences)
