"""`df.write.format("tidelake")`: rows of a DataFrame written through a data source of Spark 4.

Spark runs all of this in Python workers, each step perhaps in another process. Rows that go to new
file groups are written by the tasks themselves. All others are laid aside by the tasks and brought
in by the one process that commits; `Table.upsert` and its like spread that work over the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the customary name
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from typing_extensions import override

from tidelake.config import DuplicatePolicy, WriteOperation, WriteOptions
from tidelake.env import Env
from tidelake.errors import ConfigError, NotATableError, TableNotFoundError
from tidelake.files.write_task import WriteSpec
from tidelake.formats.commit_metadata import WriteStat
from tidelake.model import Commit
from tidelake.operations.compaction_run import inline_compaction
from tidelake.operations.open_table import create_table_of, load_state
from tidelake.operations.staged_write import StagedFile, bring_in_at_once, keyed, stage
from tidelake.operations.staging import StagingArea
from tidelake.operations.task_runner import Here
from tidelake.operations.write_session import Choice, WriteSession
from tidelake.spark.types.to_avro import FrameColumns
from tidelake.spark.workers.write_tasks import token_of_task
from tidelake.storage import open_storage
from tidelake.txn import InstantTimes, Transaction
from tidelake.txn.locks import TableLock, open_lock
from tidelake.txn.protocol.retry import retry_on_conflict
from tidelake.write.operation import ADDING, REPLACING, action_of
from tidelake.write.write_work import WriteWork

#: Operations whose rows need no look at the table, unless it has buckets.
_LOOKING_NOWHERE = ADDING | {
    WriteOperation.INSERT_OVERWRITE,
    WriteOperation.INSERT_OVERWRITE_TABLE,
}


@dataclass
class Laid(WriterCommitMessage):
    """What one task did: files written for good, or rows laid aside."""

    stats: Sequence[WriteStat] = ()
    staged: Sequence[StagedFile] = ()


class TidelakeWriter(DataSourceArrowWriter):
    """Writes the rows of one DataFrame; made once, in the process that plans the write."""

    def __init__(self, options: Mapping[str, str], schema: T.StructType, overwrite: bool) -> None:
        self._options = dict(options)
        self._schema = schema
        path = self._options.get("path")
        if not path:
            raise ConfigError(
                "no path was given",
                next_step='call save("/path/to/table") or set the option `path`',
            )
        self._path = path
        given = WriteOptions.from_options(self._options)
        self._operation = _operation(given, overwrite=overwrite)
        try:
            session = self._session()
        except (TableNotFoundError, NotATableError):
            create_table_of(
                Env(open_storage(path, self._options)), FrameColumns.of_any_rows(schema), given
            )
            session = self._session()
        self._table_name = session.config.name
        self._choice = session.choose(self._operation, FrameColumns(schema), None)
        self._area = StagingArea.of_new_write(session.env)
        self._instant: str | None = None
        self._spec: WriteSpec | None = None
        if self._goes_at_once(self._choice, given):
            with session.begin(self._operation, None, looked_up=False) as txn:
                txn.start()
                self._instant = txn.instant_time
                self._spec = session.spec(txn, self._choice)

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write or lay aside the rows of one task."""
        if self._spec is None:
            env = Env(open_storage(self._path, self._options))
            return Laid(staged=stage(env, self._area, iterator, self._choice, token_of_task()))
        work = WriteWork(spec=self._spec, plan=None, is_sorted=not self._choice.keys.partition)
        rows = (keyed(batch, self._choice) for batch in iterator if len(batch))
        done = work.write(rows, token_of_task())
        return Laid(stats=[stat for part in done for stat in part.stats])

    @override
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make what all tasks did part of the table."""
        laid = [m for m in messages if isinstance(m, Laid)]
        if self._instant is None:
            staged = [file for m in laid for file in m.staged]
            env = Env(open_storage(self._path, self._options))
            given = WriteOptions.from_options(self._options)
            try:
                retry_on_conflict(
                    env, given.concurrency.retries, lambda: self._bring_in(env, given, staged)
                )
            finally:
                if any(file.path is not None for file in staged):
                    self._area.delete(env.storage)
            return
        session = self._session()
        stats = [stat for m in laid for stat in m.stats]
        with self._transaction(session, self._instant) as txn:
            replaced: Mapping[str, Sequence[str]] = {}
            if self._operation is WriteOperation.INSERT_OVERWRITE_TABLE:
                replaced = session.retire(txn, session.view(txn).partitions())
            elif self._operation in REPLACING:
                touched = sorted({s.partition_path or "" for s in stats if not s.is_index})
                replaced = session.retire(txn, touched)
            session.commit_replacing(
                txn,
                stats,
                self._choice.schema.avro,
                replaced,
                lambda gone: gone.forget_here(token_of_task()),
            )

    @override
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave the table as it was; files of tasks that still run are known by their markers."""
        session = self._session()
        self._area.delete(session.state.storage)
        if self._instant is not None:
            self._transaction(session, self._instant).abort()

    def _bring_in(self, env: Env, given: WriteOptions, staged: Sequence[StagedFile]) -> Commit:
        if any(file.path is not None for file in staged):
            self._area.keep_alive(env)
        sharing = given.concurrency
        lock = open_lock(env, sharing, self._table_name) if sharing.mode.is_shared else None

        def look() -> tuple[WriteSession, Choice]:
            session = self._session(env, lock)
            # The table may have got other columns since the tasks began.
            now = session.choose(self._operation, FrameColumns(self._schema), None)
            return session, replace(self._choice, schema=now.schema)

        return bring_in_at_once(lock, look, staged, token_of_task())

    def _session(self, env: Env | None = None, lock: TableLock | None = None) -> WriteSession:
        env = env or Env(open_storage(self._path, self._options))
        given = WriteOptions.from_options(self._options)
        state = load_state(env.storage, self._options)
        inline = inline_compaction(env, state, given, Here(attempt=token_of_task().attempt))
        return WriteSession(env, state, given, compact=inline, lock=lock)

    def _transaction(self, session: WriteSession, instant_time: str) -> Transaction:
        timeline = session.state.timeline
        others = tuple(i for i in timeline.instants if i.requested_time != instant_time)
        return Transaction(
            session.env,
            session.config,
            replace(timeline, instants=others),
            times=InstantTimes(session.env.clock, session.config, timeline),
            requested_time=instant_time,
            action=action_of(self._operation, session.config.table_type),
            operation=self._operation.value,
            write_id=None,
            keeper=session.keeper,
        )

    def _goes_at_once(self, choice: Choice, given: WriteOptions) -> bool:
        """Return whether tasks can write their rows to new file groups by themselves."""
        return (
            self._operation in _LOOKING_NOWHERE
            # Between tasks and commit nobody is there to give signs of life to other writers.
            and not given.concurrency.mode.is_shared
            and not choice.index.is_bucket
            and not given.combine_before_insert
            and given.insert_duplicates is DuplicatePolicy.NONE
        )


def _operation(given: WriteOptions, *, overwrite: bool) -> WriteOperation:
    if given.operation is WriteOperation.DELETE_PARTITION:
        raise ConfigError(
            "the operation delete_partition takes no rows",
            next_step="call Table.delete_partitions",
        )
    if not overwrite or given.operation in REPLACING:
        return given.operation
    return WriteOperation.INSERT_OVERWRITE_TABLE
