"""The handle people hold; it only delegates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.config import ReadOptions, TableConfig
from tidelake.engine import changes_dataframe, spark_schema, to_dataframe
from tidelake.errors import NotATableError, SchemaError, TableNotFoundError
from tidelake.metadata import MetadataTable
from tidelake.model import FileSlice, Instant, TableType
from tidelake.read.changes import plan_changes
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import ScanPlan, Selection
from tidelake.read.snapshot import plan_snapshot
from tidelake.read.state import TableState
from tidelake.read.torn_logs import refuse_damaged_logs
from tidelake.records import arrow_schema
from tidelake.storage import Storage, open_storage
from tidelake.timeline import Timeline, load_table_config, with_history

Time = str | int | datetime


def open_state(path: str, options: Mapping[str, str] | None = None) -> TableState:
    """Return all that can be known of a table without Spark.

    Raises `TableNotFoundError`, `NotATableError`, `UnsupportedTableError` or `CorruptFileError`.
    """
    return _load(open_storage(path, options), ReadOptions.from_options(options or {}))


def _load(storage: Storage, options: ReadOptions) -> TableState:
    return TableState.load(storage, options, _from_metadata_table)


def _from_metadata_table(
    storage: Storage, config: TableConfig, timeline: Timeline
) -> tuple[MetadataTable, MetadataTable] | None:
    found = MetadataTable.open(storage, config, timeline)
    return None if found is None else (found, found)


class Table:
    """An Apache Hudi table, read through a Spark session.

    Every query looks at the table anew, so a handle never goes stale; a DataFrame keeps answering
    from the moment it was made.
    """

    def __init__(self, spark: SparkSession, path: str, options: Mapping[str, str] | None) -> None:
        self._spark = spark
        self._options = ReadOptions.from_options(options or {})
        self._storage = open_storage(path, options)
        self._opened = _load(self._storage, self._options)

    @classmethod
    def open(
        cls, spark: SparkSession, path: str, options: Mapping[str, str] | None = None
    ) -> Table:
        """Open an existing table; `options` are Hudi's read options and those of the storage.

        Raises `TableNotFoundError`, `NotATableError`, `UnsupportedTableError` and
        `CorruptFileError`.
        """
        return cls(spark, path, options)

    @staticmethod
    def exists(
        spark: SparkSession,  # noqa: ARG004 - where a table is does not depend on the session
        path: str,
        options: Mapping[str, str] | None = None,
    ) -> bool:
        """Return whether a Hudi table lies at `path`."""
        try:
            load_table_config(open_storage(path, options))
        except (TableNotFoundError, NotATableError):
            return False
        return True

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self._opened.config.name

    @property
    def path(self) -> str:
        """Return where the table lies."""
        return self._storage.spec.uri

    @property
    def table_type(self) -> TableType:
        """Return whether the table is copy-on-write or merge-on-read."""
        return self._opened.config.table_type

    @property
    def table_version(self) -> int:
        """Return the version of the table format."""
        return self._opened.config.table_version

    @property
    def schema(self) -> T.StructType:
        """Return the user's columns as they are now."""
        return spark_schema(arrow_schema(self._now().schema().avro))

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | Column | None = None,
        as_of: Time | None = None,
        meta: bool = False,
    ) -> DataFrame:
        """Return the table's rows, now or as of a point in time.

        `where` is a condition in Spark SQL; it also spares whole partitions and files. `meta` puts
        Hudi's five columns in front.
        """
        state = self._now()
        plan = plan_snapshot(state, _selection(columns, where, meta=meta), as_of=as_of)
        return self._frame(state, plan, where)

    def read_optimized(
        self,
        columns: Sequence[str] | None = None,
        where: str | Column | None = None,
        as_of: Time | None = None,
        meta: bool = False,
    ) -> DataFrame:
        """Return the rows of base files alone: quicker, and blind to what only logs hold yet."""
        selection = _selection(columns, where, meta=meta)
        state = self._now()
        plan = plan_snapshot(state, selection, as_of=as_of, base_only=True)
        return self._frame(state, plan, where)

    def incremental(
        self,
        start: Time | None = None,
        end: Time | None = None,
        columns: Sequence[str] | None = None,
        where: str | Column | None = None,
        meta: bool = False,
    ) -> DataFrame:
        """Return the rows last changed inside (start, end], as they stood at its end.

        Times are completion times from table version 8 on, requested times before.
        """
        selection = _selection(columns, where, meta=meta)
        state = self._now()
        plan = plan_incremental(state, selection, start=start, end=end)
        return self._frame(state, plan, where)

    def changes(self, start: Time | None = None, end: Time | None = None) -> DataFrame:
        """Return every change inside (start, end]: `op`, `ts_ms`, `before` and `after`.

        `ts_ms` is the requested time of the commit; `before` and `after` are rows as JSON.
        """
        plan = plan_changes(self._now(), start=start, end=end)
        return changes_dataframe(self._spark, plan.spec, plan.tasks)

    def timeline(self, history: bool = False) -> list[Instant]:
        """Return the instants, newest last; with `history` the archived ones too."""
        state = self._now()
        if not history:
            return list(state.timeline.instants)
        return list(with_history(state.timeline, state.history.instants()))

    def slices(self, as_of: Time | None = None, partition: str | None = None) -> list[FileSlice]:
        """Return the newest file slice of every file group, now or as of a point in time."""
        state = self._now()
        at = None if as_of is None else state.as_of(as_of)
        return state.view.latest_slices(None if partition is None else [partition], as_of=at)

    def _now(self) -> TableState:
        return _load(self._storage, self._options)

    def _frame(self, state: TableState, plan: ScanPlan, where: str | Column | None) -> DataFrame:
        frame = to_dataframe(
            self._spark,
            plan.spec,
            plan.tasks,
            self._options.merge_path,
            on_torn=partial(refuse_damaged_logs, state),
        )
        if where is None:
            return frame
        try:
            return frame.where(where).select(*(f"`{name}`" for name in plan.output))
        except AnalysisException as cause:
            raise SchemaError(
                f"the condition {where} does not fit the table: {str(cause).partition(chr(10))[0]}",
                next_step=f"its columns are {', '.join(plan.output)}",
            ) from cause


def _selection(
    columns: Sequence[str] | None, where: str | Column | None, *, meta: bool
) -> Selection:
    return Selection(
        columns=columns,
        where=where if isinstance(where, str) else None,
        meta=meta,
        is_filtered=where is not None,
    )
