"""Apache Hudi reads the changes that tidelake logs, and tidelake those that Apache logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import VERSION, write_options
from tests.interop.shared_table import TALLY
from tests.writes.cases import CDC, CDC_MODE, Case, RandomWrites
from tests.writes.model import COLUMNS, SCHEMA, Do, Model, Step, Values
from tests.writes.readers import OurReader
from tests.writes.spark_writer import SparkWriter
from tests.writes.staged_writer import StagedWriter
from tidelake.config import CdcMode
from tidelake.model import Action
from tidelake.operations.open_table import open_state

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

VERSIONS = {"1.2.0": (9, 8, 6), "1.0.2": (8,), "0.15.0": (6,)}[VERSION]
#: Operation, requested time of the write, and the row before and after.
Change = tuple[str, str, "Values | None", "Values | None"]
SCRIPT = (
    Do.BULK_INSERT,
    Do.UPSERT,
    Do.INSERT,
    Do.UPSERT,
    Do.DELETE,
    Do.UPDATE_WHERE,
    Do.UPSERT,
    Do.INSERT_OVERWRITE,
    Do.UPSERT,
    Do.DELETE_PARTITIONS,
    Do.UPSERT,
    Do.DELETE_WHERE,
    Do.INSERT_OVERWRITE_TABLE,
    Do.UPSERT,
)
#: Apache Hudi 1.x takes every delta commit for Avro when it looks for the rows before a log
#: (`getDependentFileSliceForFileGroupFromDeltaCommit`). On version 6 they are JSON, and it fails on
#: its own golden table `v6_mor_cdc_full` alike.
UNREADABLE = "Fail to parse the base file and log files from DeltaCommit"
#: What the quick way to write does not do.
_NEEDS_SPARK = frozenset({Do.UPDATE_WHERE, Do.DELETE_WHERE, Do.DELETE_PARTITIONS})
_REPLACING = frozenset({Action.REPLACECOMMIT})
CASES = [
    replace(case, extra=((CDC, "true"), (CDC_MODE, mode.value)))
    for case in (
        *(Case(version=version, mor=mor) for version in VERSIONS for mor in (False, True)),
        Case(version=VERSIONS[0], index="BUCKET"),
        Case(version=VERSIONS[0], mor=True, index="BUCKET", log_format="parquet"),
    )
    for mode in CdcMode
]


class LoggedTable:
    """A table that logs its changes, and the model that knows them."""

    def __init__(self, spark: SparkSession, root: Path, case: Case) -> None:
        self._spark = spark
        self._root = root
        self._case = case
        self._is_unreadable = case.mor and case.version == 6 and VERSION != "0.15.0"
        self.model = Model(case.identity)
        self._quick, self._full = StagedWriter(), SparkWriter(spark)
        self._quick.create(root, case)
        TALLY.tables += 1

    def we(self, step: Step) -> None:
        """Let tidelake write."""
        writer = self._full if step.do in _NEEDS_SPARK else self._quick
        writer.write(self._root, self._case, step)
        self.model.apply(step)

    def they(self, step: Step) -> None:
        """Let Apache Hudi write."""
        case = self._case
        table_type = "MERGE_ON_READ" if case.mor else "COPY_ON_WRITE"
        settings = {
            **write_options("trips", table_type, case.version, partition_by="city"),
            "hoodie.datasource.write.operation": step.do.value,
            "hoodie.metadata.enable": "false",
            **case.options,
        }
        rows = self._spark.createDataFrame([tuple(row.values()) for row in step.rows], SCHEMA)
        made = rows.coalesce(1).write.format("hudi").options(**settings)
        made.mode("append").save(str(self._root))
        self.model.apply(step)

    def differences(self) -> Iterator[str]:
        """Ask both readers for every change so far, and say what is not as the model has it."""
        state = open_state(str(self._root))
        times = [i.requested_time for i in state.timeline.writes()]
        owed = Counter[Change](
            (op, time, before, after)
            for time, made in zip(times, self.model.changes, strict=True)
            for op, before, after in made
        )
        TALLY.answers += 2
        ours = OurReader(self._root).changes("000", "9" * 17)
        yield from _unlike("tidelake", Counter(_timeless(owed)), Counter(ours))
        frame = (
            self._spark.read.format("hudi")
            .option("hoodie.datasource.query.type", "incremental")
            .option("hoodie.datasource.query.incremental.format", "cdc")
            .option("hoodie.datasource.read.begin.instanttime", "000")
            .load(str(self._root))
        )
        try:
            found = frame.select("op", "ts_ms", "before", "after").collect()
        except Exception as error:  # noqa: BLE001 - any failure is an answer to report
            if not (self._is_unreadable and UNREADABLE in str(error)):
                yield f"apache: {' '.join(str(error).split())[:600]}"
            return
        if self._is_unreadable:
            yield "apache reads what it could not read: the fault is gone"
        theirs = Counter[Change]((r[0], r[1], _image(r[2]), _image(r[3])) for r in found)
        strange = theirs.keys() - owed.keys()
        if strange:
            yield f"apache adds {sorted(strange, key=repr)[:5]}"
        # Up to 1.0.2 Apache repeats one row of a replaced file group in place of the others, as in
        # the golden tables `v6_mor_cdc_full` and `v8_cow_cdc_data_before_after` of its own.
        writes = () if VERSION == "1.2.0" else state.timeline.writes()
        loose = {i.requested_time for i in writes if i.action in _REPLACING}
        yield from _unlike("apache", _loosely(owed, loose), _loosely(theirs, loose))


def _loosely(changes: Counter[Change], times: Set[str]) -> Counter[Change]:
    """Return the changes without the rows that the writes at `times` deleted."""
    return Counter(
        (op, time, None if time in times and op == "d" else before, after)
        for op, time, before, after in changes.elements()
    )


def _timeless(changes: Counter[Change]) -> Sequence[Values]:
    return [(op, before, after) for op, _, before, after in changes.elements()]


def _unlike(who: str, owed: Counter[Any], found: Counter[Any]) -> Iterator[str]:
    for what, changes in (("misses", owed - found), ("adds", found - owed)):
        for change, count in sorted(changes.items(), key=repr)[:5]:
            yield f"{who} {what} {count} x {change}"


def _image(text: str | None) -> Values | None:
    # Where Apache shows what a change log holds, an image that is not there is the text "null".
    found: dict[str, Any] | None = None if text is None else json.loads(text)
    return None if found is None else tuple(found.get(name) for name in COLUMNS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_apache_reads_the_changes_that_we_log(
    case: Case, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    table = LoggedTable(hudi_spark, tmp_path / "t", case)
    writes = RandomWrites(case, Random(7))
    for do in SCRIPT:
        table.we(writes.step(table.model, do))
    assert list(table.differences()) == []


@pytest.mark.parametrize("mor", [False, True], ids=["cow", "mor"])
@pytest.mark.parametrize("version", VERSIONS)
def test_both_log_changes_of_one_table(
    version: int, mor: bool, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    case = Case(version=version, mor=mor, extra=((CDC, "true"),))
    table = LoggedTable(hudi_spark, tmp_path / "t", case)
    writes = RandomWrites(case, Random(8))
    table.we(writes.step(table.model, Do.BULK_INSERT))
    for _ in range(2):
        table.they(writes.step(table.model, Do.UPSERT))
        table.we(writes.step(table.model, Do.UPSERT))
    assert list(table.differences()) == []
