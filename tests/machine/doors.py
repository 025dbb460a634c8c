"""The doors of the product: each operation, asked for as people ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from tests.machine.kinds import Kind
from tests.machine.rows import Columns, Row, struct
from tests.machine.steps import Clause, Deed, Do, Door, Step
from tidelake import Table, sink
from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.model import TableType
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state
from tidelake.operations.table_services import open_table_services
from tidelake.operations.task_runner import Here
from tidelake.spark.datasource.writer import TidelakeWriter
from tidelake.spark.merge.merge_clauses import MergeBuilder
from tidelake.spark.types.to_avro import avro_schema
from tidelake.storage import open_storage
from tidelake.txn import create_table
from tidelake.write.table_spec import table_spec

#: What the data source calls an operation.
_OPERATIONS = {
    Do.INSERT: "insert",
    Do.INSERT_NEW: "insert",
    Do.BULK_INSERT: "bulk_insert",
    Do.UPSERT: "upsert",
    Do.PARTIAL: "upsert",
    Do.DELETE: "delete",
    Do.OVERWRITE: "insert_overwrite",
    Do.OVERWRITE_TABLE: "insert_overwrite_table",
    Do.SINK: "upsert",
}


class Doors:
    """One table, and all that can be asked of it; `spark` is None where no step needs it."""

    def __init__(self, root: Path, kind: Kind, spark: SparkSession | None) -> None:
        self.root = root
        self.kind = kind
        self._spark = spark
        self.savepoint = ""
        """The savepoint that was made last, or is to be restored."""

    @property
    def spark(self) -> SparkSession:
        """Return the session."""
        assert self._spark is not None, "this step needs Spark"
        return self._spark

    @property
    def table(self) -> Table:
        """Return the table as people hold it."""
        return Table.open(self.spark, str(self.root), self.kind.options)

    def create(self, columns: Columns) -> None:
        """Create the table."""
        kind = self.kind
        spec = table_spec(
            avro_schema(struct(columns), "trips"),
            WriteOptions.from_options(kind.options),
            name="trips",
            key=kind.key,
            partition_by=kind.partition,
            ordering=kind.ordering,
            table_type=TableType.MERGE_ON_READ if kind.mor else TableType.COPY_ON_WRITE,
            table_version=kind.version,
        )
        create_table(Env(open_storage(str(self.root))), spec)

    def do(self, step: Step, columns: Columns) -> None:
        """Do one step to a table with some columns."""
        if step.do in _OPERATIONS:
            self._bring(step, step.columns or columns)
        elif step.do is Do.MERGE:
            self._merge(step, columns)
        elif step.do is Do.UPDATE_WHERE and step.where is not None:
            values = {name: one.sql for name, one in (step.values or {}).items()}
            self.table.update_where(step.where.sql, values)
        elif step.do is Do.DELETE_WHERE and step.where is not None:
            self.table.delete_where(step.where.sql)
        elif step.do is Do.DELETE_PARTITIONS:
            self.table.delete_partitions([f"p={one}" for one in step.partitions])
        else:
            self._serve(step)

    def _bring(self, step: Step, columns: Columns) -> None:
        given = dict(self.kind.options)
        if step.do is Do.INSERT_NEW:
            given["hoodie.datasource.insert.dup.policy"] = "drop"
        if step.do is Do.PARTIAL:
            given["hoodie.write.partial.update.schema"] = "*"
        rows = arrow_rows(step.rows, columns)
        if step.door is Door.QUICK:
            given |= {
                "path": str(self.root),
                "hoodie.datasource.write.operation": _OPERATIONS[step.do],
            }
            writer = TidelakeWriter(given, struct(columns), overwrite=False)
            half = max(1, (len(rows) + 1) // 2)
            writer.commit([writer.write(iter(rows.to_batches(max_chunksize=half)))])
            return
        frame = self.frame(rows, columns)
        if step.door is Door.FORMAT:
            given["hoodie.datasource.write.operation"] = _OPERATIONS[step.do]
            frame.write.format("tidelake").options(**given).mode("append").save(str(self.root))
        elif step.do is Do.SINK:
            sink(str(self.root), given)(frame, step.number)
        else:
            table = Table.open(self.spark, str(self.root), given)
            getattr(table, _OPERATIONS[step.do])(frame)

    def frame(self, rows: pa.Table, columns: Columns) -> DataFrame:
        """Return rows as a DataFrame."""
        return self.spark.createDataFrame(rows, struct(columns))

    def _merge(self, step: Step, columns: Columns) -> None:
        shown = step.columns or columns
        source = self.frame(arrow_rows(step.rows, shown), shown)
        if step.alias is not None:
            source = source.alias(step.alias)
        on: str | Sequence[str] | None = step.on.text or list(step.on.names) or None
        merge = self.table.merge(source, on)
        for clause in (*step.matched, *step.unmatched):
            merge = _with(merge, clause)
        for clause in step.left:
            merge = _with_left(merge, clause)
        merge.execute()

    def _serve(self, step: Step) -> None:
        do = step.do
        if do is Do.SCHEDULE:
            self.compactor().schedule()
            return
        if do is Do.COMPACT:
            self.compactor().both()
            return
        given = dict(self.kind.options)
        if do is Do.CLEAN:
            given["hoodie.clean.commits.retained"] = str(step.number)
        if do is Do.ARCHIVE:
            given |= {
                "hoodie.clean.commits.retained": "1",
                "hoodie.keep.min.commits": str(step.number),
                "hoodie.keep.max.commits": str(step.number + 1),
            }
        table_services = open_table_services(str(self.root), given)
        if do is Do.CLEAN:
            table_services.clean()
        elif do is Do.ARCHIVE:
            table_services.archive()
        elif do is Do.SAVEPOINT:
            self.savepoint = table_services.savepoint(None, "").instant
        elif do is Do.RESTORE:
            table_services.restore(self.savepoint)
        elif do is Do.ROLLBACK:
            newest = load_state(open_storage(str(self.root)), {}).timeline.writes()[-1]
            table_services.roll_back(newest.requested_time)

    def compactor(self) -> Compactor:
        """Return what compacts the table in this process."""
        env = Env(open_storage(str(self.root)))
        options = dict(self.kind.options)
        return Compactor(
            env,
            lambda: load_state(env.storage, options),
            WriteOptions.from_options(options),
            Here(),
        )


def arrow_rows(rows: Sequence[Row], columns: Columns) -> pa.Table:
    """Return rows as Arrow has them."""
    schema = to_arrow_schema(struct(columns), timezone="UTC")
    plain = [{name: _fit(row.get(name), kind) for name, kind in columns.items()} for row in rows]
    return pa.Table.from_pylist(plain, schema=schema)


def _fit(given: object, kind: str) -> object:
    return float(given) if kind == "double" and isinstance(given, int) else given


def _values(clause: Clause) -> Mapping[str, str]:
    return {name: one.sql for name, one in (clause.values or {}).items()}


def _with(merge: MergeBuilder, clause: Clause) -> MergeBuilder:
    condition = None if clause.condition is None else clause.condition.sql
    if clause.deed is Deed.DELETE:
        return merge.when_matched_delete(condition)
    if clause.deed is Deed.UPDATE_ALL:
        return merge.when_matched_update_all(condition)
    if clause.deed is Deed.UPDATE:
        return merge.when_matched_update(_values(clause), condition)
    if clause.deed is Deed.INSERT_ALL:
        return merge.when_not_matched_insert_all(condition)
    return merge.when_not_matched_insert(_values(clause), condition)


def _with_left(merge: MergeBuilder, clause: Clause) -> MergeBuilder:
    condition = None if clause.condition is None else clause.condition.sql
    if clause.deed is Deed.DELETE:
        return merge.when_not_matched_by_source_delete(condition)
    return merge.when_not_matched_by_source_update(_values(clause), condition)
