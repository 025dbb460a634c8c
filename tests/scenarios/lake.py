"""A real table in a folder, and writes to it whose steps are called one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.config import WriteOperation, WriteOptions
from tidelake.env import Clock, Env, Ids, RandomIds, SystemClock
from tidelake.files import read_slice
from tidelake.model import Commit, TableType
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state, open_state
from tidelake.operations.staged_write import _Staged, stage
from tidelake.operations.staging import StagingArea
from tidelake.operations.table_services import TableServices
from tidelake.operations.task_runner import Here
from tidelake.operations.write_session import WriteSession
from tidelake.read.check import check_table
from tidelake.read.check_report import CheckReport
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import ScanPlan
from tidelake.read.snapshot import plan_snapshot
from tidelake.spark.types.to_avro import FrameColumns, avro_schema
from tidelake.spark.workers.write_tasks import token_of_task
from tidelake.state.table_state import TableState
from tidelake.storage import LocalStorage, Storage
from tidelake.txn import create_table
from tidelake.write.operation import REPLACING, planned_partitions, planned_stats
from tidelake.write.table_spec import table_spec

OCC = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.metadata.enable": "false",
}
NBCC = {**OCC, "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
UPSERT, INSERT = WriteOperation.UPSERT, WriteOperation.INSERT

Row = Mapping[str, Any]
Fields = Mapping[str, T.DataType]
#: The columns of every table: key, partition, ordering value, value.
BASE: Fields = {
    "id": T.StringType(),
    "p": T.StringType(),
    "ts": T.LongType(),
    "v": T.LongType(),
}
_ARROW = {
    T.StringType: pa.string(),
    T.BooleanType: pa.bool_(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
}


def row(key: str, ts: int, v: int | None = None, p: str = "x", **others: Any) -> Row:
    """Return a row; its value is its ordering value unless given."""
    return {"id": key, "p": p, "ts": ts, "v": ts if v is None else v, **others}


class Lake:
    """One table, and whoever writes to it."""

    def __init__(
        self,
        root: Path,
        kind: TableType = MOR,
        version: int = 9,
        options: Mapping[str, str] | None = None,
        *,
        has_schema: bool = True,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.root = root / "table"
        self.root.mkdir(parents=True)
        self.options = {**OCC, **(options or {})}
        self.clock = clock or SystemClock()
        self.ids = ids or RandomIds()
        self.storage: Storage = LocalStorage(str(self.root))
        spec = table_spec(
            avro_schema(_struct(BASE), "t"),
            WriteOptions.from_options(self.options),
            name="t",
            key=("id",),
            partition_by=("p",),
            ordering=("ts",),
            table_type=kind,
            table_version=version,
        )
        create_table(self.env(), spec)
        if not has_schema:
            # As Apache Hudi's DataFrame writer leaves it: the first commit says the schema.
            path = self.root / ".hoodie" / "hoodie.properties"
            lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join(x for x in lines if "create.schema" not in x))

    def env(self) -> Env:
        """Return an environment on the table's storage."""
        return Env(self.storage, self.clock, self.ids)

    def writing(
        self,
        rows: Sequence[Row],
        options: Mapping[str, str] | None = None,
        *,
        fields: Fields | None = None,
        operation: WriteOperation = UPSERT,
        only: bool = False,
        write_id: str | None = None,
    ) -> Writing:
        """Return a write that has looked at the table, and has done nothing yet.

        With `only`, the rows bring no more than key, ordering value and `fields`.
        """
        given = {**self.options, **(options or {})}
        own = {name: kind for name, kind in BASE.items() if not only or name != "v"}
        return Writing(self, rows, given, {**own, **(fields or {})}, operation, write_id)

    def write(
        self,
        rows: Sequence[Row],
        options: Mapping[str, str] | None = None,
        *,
        fields: Fields | None = None,
        operation: WriteOperation = UPSERT,
        only: bool = False,
    ) -> Commit:
        """Write, start to end."""
        made = self.writing(rows, options, fields=fields, operation=operation, only=only)
        return made.begun().commit()

    def compactor(self, options: Mapping[str, str] | None = None) -> Compactor:
        """Return what compacts the table in this process."""
        given = {**self.options, **(options or {})}
        return Compactor(
            self.env(),
            lambda: load_state(self.storage, given),
            WriteOptions.from_options(given),
            Here(),
        )

    def table_services(self, options: Mapping[str, str] | None = None) -> TableServices:
        """Return what runs the other services."""
        given = {**self.options, **(options or {})}
        return TableServices(
            self.env(), load_state(self.storage, given), WriteOptions.from_options(given)
        )

    def state(self, options: Mapping[str, str] | None = None) -> TableState:
        """Return the table as it is now."""
        return open_state(str(self.root), options)

    def rows(self, as_of: str | None = None) -> dict[str, dict[str, Any]]:
        """Return what a reader sees, by key; a key that is there twice is an error."""
        state = self.state()
        return by_key(state, plan_snapshot(state, as_of=as_of))

    def values(self, as_of: str | None = None) -> dict[str, int]:
        """Return the value of every key."""
        return {key: found["v"] for key, found in self.rows(as_of).items()}

    def incremental(self, start: str, end: str | None = None) -> dict[str, dict[str, Any]]:
        """Return the rows that changed in a window, by key."""
        state = self.state()
        return by_key(state, plan_incremental(state, start=start, end=end))

    def columns(self) -> list[str]:
        """Return the table's columns."""
        fields = json.loads(self.state().schema().avro)["fields"]
        return [f["name"] for f in fields if not f["name"].startswith("_hoodie")]

    def check(self) -> CheckReport:
        """Return what `tidelake check` finds."""
        return check_table(self.state(), None)


class Writing:
    """One write, step by step."""

    def __init__(
        self,
        lake: Lake,
        rows: Sequence[Row],
        options: Mapping[str, str],
        fields: Fields,
        operation: WriteOperation,
        write_id: str | None = None,
    ) -> None:
        env = lake.env()
        self.session = WriteSession(
            env, load_state(lake.storage, options), WriteOptions.from_options(options)
        )
        wanted = ("id", "p") if operation is WriteOperation.DELETE else tuple(fields)
        struct = _struct({name: fields[name] for name in wanted})
        self._choice = self.session.choose(operation, FrameColumns(struct), write_id)
        schema = pa.schema([(name, _arrow(fields[name])) for name in wanted])
        table = pa.Table.from_pylist([dict(found) for found in rows], schema=schema)
        area = StagingArea.of_new_write(env)
        staged = stage(env, area, iter(table.to_batches()), self._choice, token_of_task())
        self._work = _Staged(self.session, self._choice, staged)

    def begun(self) -> Writing:
        """Put the write on the timeline and write its data files."""
        self.txn = self.session.begin(
            self._choice.operation, self._choice.write_id, looked_up=False
        )
        try:
            self._write()
        except BaseException:
            self.txn.abort()
            raise
        return self

    def _write(self) -> None:
        self._replaced: Mapping[str, Sequence[str]] = {}
        if self._choice.operation in REPLACING:
            plan, self._replaced = self.session.plan_overwrite(
                self.txn, self._choice, self._work.workload
            )
            profile = planned_partitions(self._work.workload, self._replaced)
        else:
            plan = self.session.plan(self.txn, self._choice, self._work.looked_up(self.txn))
            profile = planned_stats(self._work.workload, plan)
        self.txn.start(profile)
        self._stats = self._work.write(self.txn, plan, token_of_task())

    def commit(self) -> Commit:
        """Commit; what is refused is rolled back."""
        with self.txn as txn:
            return self.session.commit(
                txn, self._stats, self._choice.schema.avro, replaced=self._replaced
            )


def by_key(state: TableState, plan: ScanPlan) -> dict[str, dict[str, Any]]:
    """Return the rows of a plan by key."""
    del state
    found: dict[str, dict[str, Any]] = {}
    for task in plan.tasks:
        for batch in read_slice(task, plan.spec):
            for record in batch.to_pylist():
                assert record["id"] not in found, f"{record['id']} is there twice"
                found[record["id"]] = record
    return found


def _arrow(kind: T.DataType) -> pa.DataType:
    if isinstance(kind, T.StructType):
        return pa.struct([(field.name, _arrow(field.dataType)) for field in kind.fields])
    if isinstance(kind, T.ArrayType):
        return pa.list_(_arrow(kind.elementType))
    return _ARROW[type(kind)]


def _struct(fields: Fields) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])
