"""The ways to read a table: planned and read here, through the data source, and by Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hudi import HudiTableBuilder
from pyspark.sql import SparkSession

from tests.machine.kinds import Kind
from tests.machine.rows import Columns, Row
from tidelake import Table
from tidelake.files import SliceTask, read_changes, read_slice
from tidelake.operations.open_table import open_state
from tidelake.read.changes import plan_changes
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import ScanPlan, Selection
from tidelake.read.snapshot import plan_snapshot
from tidelake.spark.datasource.source import TidelakeSource
from tidelake.state.table_state import TableState


class HereReader:
    """Reads in this process, as the table is when the reader is made."""

    def __init__(self, root: Path) -> None:
        self.state: TableState = open_state(str(root))
        self._read: dict[SliceTask, list[Row]] = {}

    def snapshot(self, as_of: str | None = None, where: str | None = None) -> list[Row]:
        """Return the rows, now or as of a time; files may be left out by a condition."""
        selection = Selection(where=where, is_filtered=where is not None)
        plan = plan_snapshot(self.state, selection, as_of=as_of)
        if as_of is not None:
            return _rows(plan)
        for task in plan.tasks:
            if task not in self._read:
                # What files are left out is asked for often, and the same files are read anew once.
                self._read[task] = _rows(replace(plan, tasks=(task,)))
        return [row for task in plan.tasks for row in self._read[task]]

    def window(self, start: str | None, end: str) -> list[Row]:
        """Return the rows that changed inside (start, end]."""
        return _rows(plan_incremental(self.state, start=start, end=end))

    def changes(self, start: str | None, end: str) -> list[tuple[str, Row | None, Row | None]]:
        """Return the changes inside (start, end], in their order."""
        plan = plan_changes(self.state, start=start, end=end)
        return [
            (row["op"], row["before"], row["after"])
            for task in plan.tasks
            for batch in read_changes(task, plan.spec)
            for row in batch.to_pylist()
        ]


def _rows(plan: ScanPlan) -> list[Row]:
    return [
        row
        for task in plan.tasks
        for batch in read_slice(task, plan.spec)
        for row in batch.to_pylist()
    ]


def through_data_source(root: Path, options: Mapping[str, str]) -> list[Row]:
    """Return the rows as the data source of Spark reads them, in this process."""
    source = TidelakeSource({"path": str(root), **options})
    reader = source.reader(source.schema())
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def hudi_rs(root: Path) -> list[Row]:
    """Return the rows as hudi-rs reads them."""
    batches = HudiTableBuilder.from_base_uri(str(root)).build().read()
    return [row for batch in batches for row in pa.record_batch(batch).to_pylist()]


class SparkReader:
    """Reads through a session."""

    def __init__(self, spark: SparkSession, root: Path, kind: Kind) -> None:
        self._spark = spark
        self._root = str(root)
        self._table = Table.open(spark, self._root, kind.options)

    def where(self, sql: str) -> list[Row]:
        """Return the rows that a condition keeps."""
        return _collected(self._table.read(where=sql).collect())

    def by_sql(self, sql: str) -> list[Row]:
        """Return the same by SQL over a view of the table."""
        self._table.read().createOrReplaceTempView("machine")
        return _collected(self._spark.sql(f"SELECT * FROM machine WHERE {sql}").collect())

    def by_format(self, sql: str) -> list[Row]:
        """Return the same by SQL over a view of the data source."""
        self._spark.read.format("tidelake").load(self._root).createOrReplaceTempView("machine")
        return _collected(self._spark.sql(f"SELECT * FROM machine WHERE {sql}").collect())

    def changes(self, start: str | None, end: str, columns: Columns) -> list[Any]:
        """Return the changes inside (start, end], in their order."""
        found = self._table.changes(start, end).collect()
        return [(r["op"], *(_image(r[n], columns) for n in ("before", "after"))) for r in found]


def _image(text: str | None, columns: Columns) -> Row | None:
    if text is None:
        return None
    given = json.loads(text)
    return {name: _typed(given.get(name), kind) for name, kind in columns.items()}


def _typed(given: Any, kind: str) -> Any:
    if given is None:
        return None
    if kind == "date":
        return date.fromisoformat(given)
    if kind == "timestamp":
        return datetime.fromisoformat(given.replace("Z", "+00:00"))
    if kind == "double":
        return float(given)
    return Decimal(str(given)) if kind.startswith("decimal") else given


def _collected(found: Iterable[Any]) -> list[Row]:
    return [_as_utc(row.asDict(recursive=True)) for row in found]


def _as_utc(row: dict[str, Any]) -> Row:
    # A session in UTC gives times without a zone, as this machine's clock shows them.
    return {
        name: one.astimezone() if isinstance(one, datetime) and one.tzinfo is None else one
        for name, one in row.items()
    }
