"""Writes to a table through the doors of `Table`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.writes.cases import Case
from tests.writes.model import SCHEMA, Do, Step
from tidelake import Table
from tidelake.model import Commit


class SparkWriter:
    """Does every operation, with a session of Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def create(self, root: Path, case: Case) -> None:
        """Create the table."""
        Table.create(
            self._spark,
            str(root),
            SCHEMA,
            name="trips",
            key=case.keys.key,
            partition_by=None if case.keys.is_typed else case.keys.partition,
            ordering="ts",
            table_type="MERGE_ON_READ" if case.mor else "COPY_ON_WRITE",
            table_version=case.version,
            options=case.options,
        )

    def write(self, root: Path, case: Case, step: Step) -> None:
        """Do one step."""
        table = Table.open(self._spark, str(root), options=case.options)
        if step.do is Do.DELETE_PARTITIONS:
            table.delete_partitions([case.keys.path(p) for p in step.partitions])
        elif step.where is not None and step.do is Do.DELETE_WHERE:
            table.delete_where(step.where.sql)
        elif step.where is not None:
            text = "NULL" if step.note is None else "'" + step.note.replace("'", "\\'") + "'"
            table.update_where(step.where.sql, {"note": text})
        else:
            write: Callable[[DataFrame], Commit] = getattr(table, step.do.value)
            write(self._frame(case, step))

    def _frame(self, case: Case, step: Step) -> DataFrame:
        frame = self._spark.createDataFrame([tuple(row.values()) for row in step.rows], SCHEMA)
        if step.do is Do.DELETE:
            return frame.select(*dict.fromkeys((*case.keys.key, *case.keys.partition)))
        return frame
