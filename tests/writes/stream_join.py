"""Streams that each bring some columns of one wide table, in one process and without Spark.

A write can be held where it has written its files and not committed yet, so that any interleaving
of writers can be played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the customary name
from typing_extensions import override

from tidelake.config import WriteOperation, WriteOptions
from tidelake.env import Env
from tidelake.files import read_slice
from tidelake.model import Commit, TableType
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state
from tidelake.operations.staged_write import bring_in, stage
from tidelake.operations.staging import StagingArea
from tidelake.operations.task_runner import Here
from tidelake.operations.write_session import WriteSession
from tidelake.read.scan import ScanPlan
from tidelake.spark.types.to_avro import FrameColumns, avro_schema
from tidelake.spark.workers.write_tasks import token_of_task
from tidelake.storage import open_storage
from tidelake.txn import create_table
from tidelake.write.table_spec import table_spec

Row = dict[str, Any]
#: Nine columns besides the key, three of each stream, the first of which may order its events.
STREAMS = tuple((f"{s}_ts", f"{s}_number", f"{s}_text") for s in ("ride", "fare", "note"))
COLUMNS = ("id", "ts", *(name for stream in STREAMS for name in stream))
GROUPS = ";".join(f"{ts}:{number},{text}" for ts, number, text in STREAMS)
NON_BLOCKING = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "false",
}
PARTIAL = {"hoodie.write.partial.update.schema": "*"}
_WAIT_S = 60


class _HeldSession(WriteSession):
    """Waits before it commits, until it is told to."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.is_written = Event()
        self.may_commit = Event()

    @override
    def commit(self, *given: Any, **named: Any) -> Commit:
        self.is_written.set()
        if not self.may_commit.wait(_WAIT_S):
            raise AssertionError("nobody let the write go on")
        return super().commit(*given, **named)


class Held:
    """A write that has written its files."""

    def __init__(self, session: _HeldSession, done: Future[Commit]) -> None:
        self._session = session
        self._done = done
        while not session.is_written.wait(0.05):
            if done.done():
                done.result()
                raise AssertionError("the write ended before it was held")

    def finish(self) -> Commit:
        """Let the write commit."""
        self._session.may_commit.set()
        return self._done.result(_WAIT_S)


class WideTable:
    """A table that several streams fill."""

    def __init__(
        self,
        root: Path,
        *,
        version: int = 9,
        kind: TableType = TableType.MERGE_ON_READ,
        ordering: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Create the table; `settings` are for this and for every write."""
        self.root = root
        self.options = {**NON_BLOCKING, **(settings or {})}
        self.storage = open_storage(str(root))
        self._pool = ThreadPoolExecutor(8)
        spec = table_spec(
            avro_schema(struct(COLUMNS), "wide"),
            WriteOptions.from_options(self.options),
            name="wide",
            key=["id"],
            ordering=ordering,
            table_type=kind,
            table_version=version,
        )
        create_table(Env(self.storage), spec)

    def close(self) -> None:
        """End the threads of writers."""
        self._pool.shutdown()

    def begin(
        self,
        rows: Sequence[Row],
        columns: Sequence[str],
        *,
        operation: WriteOperation = WriteOperation.UPSERT,
        options: Mapping[str, str] = PARTIAL,
    ) -> Held:
        """Write rows of some columns, up to the commit."""
        env = Env(self.storage)
        given = WriteOptions.from_options({**self.options, **options})
        session = _HeldSession(env, load_state(self.storage, {}), given)
        choice = session.choose(operation, FrameColumns(struct(columns)), None)

        def write() -> Commit:
            area = StagingArea.of_new_write(env)
            try:
                schema = pa.schema([(name, _ARROW[_kind(name)]) for name in columns])
                batches = pa.Table.from_pylist(list(rows), schema=schema).to_batches()
                staged = stage(env, area, iter(batches), choice, token_of_task())
                return bring_in(session, choice, staged, token_of_task())
            finally:
                area.delete(self.storage)

        return Held(session, self._pool.submit(write))

    def upsert(
        self, rows: Sequence[Row], columns: Sequence[str], options: Mapping[str, str] = PARTIAL
    ) -> Commit:
        """Write rows of some columns."""
        return self.begin(rows, columns, options=options).finish()

    @property
    def compactor(self) -> Compactor:
        """Return what compacts the table in this process."""
        options = WriteOptions.from_options(
            {**self.options, "hoodie.compact.inline.max.delta.commits": "1"}
        )
        env = Env(self.storage)
        return Compactor(env, lambda: load_state(self.storage, {}), options, Here())

    def rows(self, plan: ScanPlan) -> dict[str, Row]:
        """Return what a query finds, by key."""
        found: dict[str, Row] = {}
        for task in plan.tasks:
            for batch in read_slice(task, plan.spec):
                for row in batch.to_pylist():
                    assert row["id"] not in found, "a key is there once"
                    found[row["id"]] = {name: row[name] for name in COLUMNS}
        return found


def struct(columns: Sequence[str]) -> T.StructType:
    """Return the columns as Spark types them."""
    return T.StructType([T.StructField(name, _SPARK[_kind(name)]) for name in columns])


def _kind(name: str) -> str:
    return "text" if name == "id" or name.endswith("_text") else "number"


_SPARK: Mapping[str, T.DataType] = {"text": T.StringType(), "number": T.LongType()}
_ARROW = {"text": pa.string(), "number": pa.int64()}
