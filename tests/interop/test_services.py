"""Clean, archival, savepoints and restores, of tidelake and of Apache Hudi on one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import VERSION
from tests.interop.shared_table import COW, MOR, Kind, SharedTable
from tests.interop.truth import rows
from tidelake.model import WRITE_ACTIONS, Action

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.skipif(VERSION != "1.2.0", reason="the release that writes every table version"),
]

TIGHT = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


class Tended(SharedTable):
    """A table that both engines clean and archive after each of their writes."""

    def __init__(
        self,
        spark: SparkSession,
        path: Path,
        table_version: int,
        table_type: str,
        apache: Mapping[str, str] | None = None,
    ) -> None:
        kind = Kind(
            table_type=table_type,
            table_version=table_version,
            apache={"hoodie.metadata.enable": "false", **(apache or {})},
        )
        super().__init__(spark, path, kind)
        self.seen: set[tuple[str, Action]] = set()

    def we_tend(self, numbers: range, ts: int) -> None:
        """Let tidelake upsert, clean and archive."""
        given = rows(numbers, ts=ts, note=f"our {ts}")
        self.ours.upsert(self.frame(given), options=TIGHT)
        self.took_effect("upsert", given)

    def they_tend(self, numbers: range, ts: int) -> None:
        """Let Apache Hudi upsert, clean, archive and, with logs, compact."""
        compact = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
        options = {**TIGHT, **(compact if self.kind.table_type == MOR else {})}
        self.they("upsert", rows(numbers, ts=ts, note=f"their {ts}"), options)

    def check_timeline(self, what: str) -> None:
        """Ask for every instant there ever was: each once, and none forgotten."""
        found = [(i.requested_time, i.action) for i in self.ours.timeline(history=True)]
        twice = [instant for instant, count in Counter(found).items() if count > 1]
        if twice:
            self._differs(f"{what}: {twice} are there twice")
        lost = self.seen - set(found)
        if lost:
            self._differs(f"{what}: {sorted(lost)} are forgotten")
        self.seen |= set(found)

    def apaches_history(self) -> set[tuple[str, str]]:
        """Return the archived instants as Apache Hudi reads them."""
        gateway = self.spark.sparkContext
        jvm = gateway._jvm
        assert jvm is not None
        hudi = jvm.org.apache.hudi
        hadoop = gateway._jsc.hadoopConfiguration()
        builder = hudi.common.table.HoodieTableMetaClient.builder()
        if VERSION.startswith("0."):
            conf = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(hadoop)
        else:
            conf = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(hadoop)
        client = builder.setConf(conf).setBasePath(str(self.path)).build()
        found = client.getArchivedTimeline().getInstants()
        return {(i.requestedTime(), i.getAction()) for i in found}

    def rewind(self, turn: int) -> None:
        """Bring the truth back to a turn."""
        del self.truth.states[turn + 1 :]
        del self.truth.times[turn + 1 :]


@pytest.mark.parametrize(("table_version", "table_type"), [(6, COW), (9, MOR)])
def test_each_goes_on_after_the_others_services(
    table_version: int, table_type: str, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    table = Tended(hudi_spark, tmp_path / "tended", table_version, table_type)
    table.we("bulk_insert", rows(range(60), ts=1))
    for ts in range(2, 8):
        table.we_tend(range(ts, 60 + ts, 2), ts)
        table.check_timeline(f"our {ts}")
    table.check("our services")
    active = [i for i in table.ours.timeline() if i.action in WRITE_ACTIONS]
    assert len(active) <= (3 if table_type == COW else 6)
    ours = {
        (i.requested_time, i.action.value)
        for i in table.ours.timeline(history=True)
        if i.file_name is None
    }
    assert len(ours) >= 2
    assert table.apaches_history() == ours
    for ts in range(8, 15):
        turn = table.we_tend if ts % 3 == 0 else table.they_tend
        turn(range(ts, 60 + ts, 3), ts)
        table.check_timeline(f"turn {ts}")
        table.check(f"turn {ts}")
    assert not table.differences, "\n".join(table.differences)


def _turns(table: Tended, start: int) -> Iterator[int]:
    for ts in range(start, start + 3):
        yield ts
        table.check(f"turn {ts}")


@pytest.mark.parametrize(("table_version", "table_type"), [(9, MOR)])
def test_our_savepoint_outlives_apache_and_is_restored(
    table_version: int, table_type: str, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    table = Tended(hudi_spark, tmp_path / "ours", table_version, table_type)
    table.we("bulk_insert", rows(range(60), ts=1))
    table.they("upsert", rows(range(0, 70, 2), ts=2, note="2"))
    table.we("upsert", rows(range(0, 70, 3), ts=3, note="3"))
    saved = table.ours.savepoint(comment="to come back to").instant
    for ts in _turns(table, 4):
        table.they_tend(range(0, 80, ts), ts)
    table.we_tend(range(0, 80, 2), 8)
    done = table.ours.restore(saved)
    assert len(done.instants) >= 4
    table.rewind(2)
    table.check("our restore")
    for ts in _turns(table, 9):
        table.they_tend(range(0, 80, ts), ts)
    table.ours.delete_savepoint(saved)
    table.we_tend(range(0, 80, 2), 14)
    table.they_tend(range(0, 80, 3), 15)
    table.check("after the savepoint")
    assert not table.differences, "\n".join(table.differences)
