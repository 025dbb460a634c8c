"""A table with a metadata table on which tidelake and Apache Hudi also run their services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from typing_extensions import override

from tests.interop.listings import listed_files, metadata_partitions, stored_files
from tests.interop.shared_table import TALLY, Kind, SharedTable
from tidelake.model import WRITE_ACTIONS

WITH_METADATA = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "5",
}
TIGHT = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


#: Where the metadata table has no statistics, Apache Hudi builds them before it undoes anything.
#: Its restore takes that back with the writes and leaves the names in the property, of its own
#: tables as well; as a rule its next write then fails. On version 6 it refuses to undo what its
#: metadata table has compacted meanwhile.
UNDOING = {
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.metadata.compact.max.delta.commits": "100",
}


class RelayTable(SharedTable):
    """A table that changes hands."""

    def __init__(
        self, spark: SparkSession, path: Path, table_type: str, table_version: int
    ) -> None:
        kind = Kind(
            table_type=table_type,
            table_version=table_version,
            options=WITH_METADATA,
            apache={"hoodie.metadata.enable": "true"},
        )
        super().__init__(spark, path, kind)

    @contextmanager
    def in_sql(self, more: Mapping[str, str] | None = None) -> Iterator[None]:
        """Let SQL and procedures of Apache Hudi know the table as `relay`, and its version."""
        settings = {
            **WITH_METADATA,
            "hoodie.write.table.version": str(self.kind.table_version),
            "hoodie.write.auto.upgrade": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.compact.inline": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.upsert.shuffle.parallelism": "1",
            # Apache logs the rows that a merge inserts in part as well, and reads nulls.
            "hoodie.spark.sql.merge.into.partial.updates": "false",
            **(more or {}),
        }
        for name, value in settings.items():
            self.spark.conf.set(name, value)
        self.spark.sql(f"CREATE TABLE relay USING hudi LOCATION '{self.path}'")
        try:
            yield
        finally:
            self.spark.sql("DROP TABLE relay")
            for name in settings:
                self.spark.conf.unset(name)

    def call(
        self, procedure: str, options: Mapping[str, str] | None = None, **arguments: str
    ) -> None:
        """Call a procedure of Apache Hudi on the table."""
        given = ", ".join(f"{name} => {value}" for name, value in arguments.items())
        with self.in_sql(options):
            self.spark.sql(f"call {procedure}(table => 'relay', {given})").collect()

    def they_roll_back(self, instant: str) -> None:
        """Let Apache Hudi take a completed write back.

        This is what `rollback_to_instant` does, but for its look at the timeline, in which release
        1.2.0 takes every table for one of layout 2.
        """
        jvm: Any = self.spark._jvm
        nothing = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
        with self.in_sql(UNDOING):
            client = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient(
                self.spark._jsparkSession, str(self.path), nothing, jvm.scala.Option.apply("relay")
            )
            try:
                client.getConfig().setValue("hoodie.rollback.using.markers", "false")
                assert client.rollback(instant)
            finally:
                client.close()

    def newest(self) -> str:
        """Return the requested time of the newest write."""
        done = [i for i in self.ours.timeline() if i.is_completed and i.action in WRITE_ACTIONS]
        return max(done, key=lambda i: str(i.completion_time)).requested_time

    def rewind(self, turn: int) -> None:
        """Bring the truth back to a turn."""
        del self.truth.states[turn + 1 :]
        del self.truth.times[turn + 1 :]

    @override
    def _now(self, what: str) -> Iterator[Any]:
        asked = list(super()._now(what))
        by_listing = {"hoodie.metadata.enable": "false"}
        yield from asked
        yield asked[0]._replace(
            what=f"{what}: apache by listing", ask=lambda: self._apache(by_listing)
        )

    def check_round(self, what: str) -> None:
        """Ask both readers for the rows, and Apache for the files in the metadata table."""
        self.check(what)
        TALLY.answers += 1
        listed, there = listed_files(self.spark, self.path), stored_files(self.path)
        if listed != there:
            missing, extra = sorted(there - listed)[:3], sorted(listed - there)[:3]
            self._differs(f"{what}: the metadata table lacks {missing}, and has {extra} too many")
        if "files" not in metadata_partitions(self.path):
            self._differs(f"{what}: the metadata table is off")
