"""The handle people hold; it only delegates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from os import PathLike, fspath

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812
from typing_extensions import override

from tidelake.config import ReadOptions, WriteOperation, WriteOptions
from tidelake.config.options.write_options import without_write_options
from tidelake.env import Env
from tidelake.errors import (
    ConfigError,
    SchemaError,
    TidelakeError,
)
from tidelake.model import Commit, TableType
from tidelake.model.printed import FileSliceList, InstantList, html_table
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import (
    create_table_of,
    load_state,
    load_table,
    table_exists,
)
from tidelake.operations.scheduled_service import ScheduledService
from tidelake.operations.table_services import CleanSteps, TableServices
from tidelake.operations.timeline_rows import timeline_rows
from tidelake.read.changes import plan_changes
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import ScanPlan, Selection
from tidelake.read.snapshot import plan_snapshot
from tidelake.records import arrow_schema
from tidelake.services import (
    Archived,
    Cleaned,
    Restored,
    RolledBack,
    Savepoint,
    Service,
    ServicePlan,
)
from tidelake.spark.merge.merge_clauses import MergeBuilder, MergeRequest
from tidelake.spark.read.dataframe import changes_dataframe, to_dataframe
from tidelake.spark.session.sql_settings import is_read_alike, spark_reason
from tidelake.spark.types.from_arrow import spark_schema
from tidelake.spark.types.to_avro import FrameColumns
from tidelake.spark.workers.task_runs import OnSpark
from tidelake.spark.workers.worker_errors import worker_errors
from tidelake.spark.workers.worker_process import use_own_interpreter
from tidelake.spark.workers.workers import given_rows, to_ipc
from tidelake.spark.write.given_data import Rows, is_dataframe, to_spark
from tidelake.spark.write.writer import Writer, committed
from tidelake.state.table_state import TableState
from tidelake.storage import open_storage
from tidelake.timeline import load_table_config, with_history

Time = str | int | datetime
Options = Mapping[str, str]
Location = str | PathLike[str]


class Table:
    """An Apache Hudi table, read and written through a Spark session.

        trips = Table.open(spark, "s3://lake/trips")
        trips.read(where="city = 'oslo'").show()
        trips.upsert([{"id": 1, "city": "oslo", "fare": 12.5}])

    Every query looks at the table anew, so a handle never goes stale; a DataFrame keeps answering
    from the moment it was made. Rows to write are a DataFrame of Spark, pandas or polars, an Arrow
    table, or a list of dicts. Dicts and pandas take the types of the table's columns; times without
    a zone are of the session's.
    """

    def __init__(
        self, spark: SparkSession, path: Location, options: Mapping[str, str] | None
    ) -> None:
        self._spark = spark
        self._given = dict(options or {})
        self._options = ReadOptions.from_options(without_write_options(self._given))
        use_own_interpreter(spark)
        self._storage = open_storage(fspath(path), options)
        self._config = load_table_config(self._storage)

    @classmethod
    def open(
        cls, spark: SparkSession, path: Location, options: Mapping[str, str] | None = None
    ) -> Table:
        """Open an existing table; `options` are Hudi's read options and those of the storage.

            trips = Table.open(spark, "s3://lake/trips", {"fs.s3a.endpoint": "http://minio:9000"})

        Raises `TableNotFoundError`, `NotATableError`, `UnsupportedTableError` and
        `CorruptFileError`.
        """
        return cls(spark, path, options)

    @classmethod
    def create(
        cls,
        spark: SparkSession,
        path: Location,
        schema: T.StructType | str | Rows,
        *,
        name: str | None = None,
        key: str | Sequence[str] = (),
        partition_by: str | Sequence[str] | None = None,
        ordering: str | Sequence[str] | None = None,
        table_type: TableType | str | None = None,
        table_version: int | None = None,
        options: Options | None = None,
    ) -> Table:
        """Create an empty table and open it.

            Table.create(spark, "lake/trips", "id long, city string, ts long", key="id",
                         partition_by="city", ordering="ts", table_type="MERGE_ON_READ")

        `schema` is a StructType, a DDL string or rows to take the columns from. `key` are
        the columns of the record key (none: keys are made up), `ordering` those that say which of
        two rows of a key is newer. Whatever is not given may stand in `options`, under Hudi's
        names; otherwise the table is copy-on-write and of version 9, and its name is the last part
        of the path. Raises `TableExistsError` and `NotATableError` when something lies there.
        """
        create_table_of(
            Env(open_storage(fspath(path), options)),
            _columns(spark, schema),
            WriteOptions.from_options(options or {}),
            name=name,
            key=_names(key),
            partition_by=_names(partition_by),
            ordering=_names(ordering),
            table_type=None if table_type is None else _table_type(table_type),
            table_version=table_version,
        )
        return cls(spark, path, options)

    @staticmethod
    def exists(
        spark: SparkSession,  # noqa: ARG004 - where a table is does not depend on the session
        path: Location,
        options: Mapping[str, str] | None = None,
    ) -> bool:
        """Return whether a Hudi table lies at `path`."""
        return table_exists(open_storage(fspath(path), options))

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self._config.name

    @property
    def path(self) -> str:
        """Return where the table lies."""
        return self._storage.spec.uri

    @property
    def table_type(self) -> TableType:
        """Return whether the table is copy-on-write or merge-on-read."""
        return self._config.table_type

    @property
    def table_version(self) -> int:
        """Return the version of the table format."""
        return self._config.table_version

    @property
    def schema(self) -> T.StructType:
        """Return the user's columns as they are now."""
        return spark_schema(arrow_schema(self._now().schema().avro))

    def read(
        self,
        columns: str | Sequence[str] | None = None,
        where: str | Column | None = None,
        as_of: Time | None = None,
        *,
        meta: bool = False,
    ) -> DataFrame:
        """Return the table's rows, now or as of a point in time.

            table.read(columns=["id", "fare"], where="city = 'oslo'", as_of="2026-03-01 10:15:00")

        `where` is a condition in Spark SQL; it also spares whole partitions and files. `meta` puts
        Hudi's five columns in front.
        """
        plan = plan_snapshot(self._now(), self._selection(columns, where, meta=meta), as_of=as_of)
        return self._frame(plan, where)

    def read_optimized(
        self,
        columns: str | Sequence[str] | None = None,
        where: str | Column | None = None,
        as_of: Time | None = None,
        *,
        meta: bool = False,
    ) -> DataFrame:
        """Return the rows of base files alone: quicker, and blind to what only logs hold yet."""
        selection = self._selection(columns, where, meta=meta)
        plan = plan_snapshot(self._now(), selection, as_of=as_of, base_only=True)
        return self._frame(plan, where)

    def incremental(
        self,
        start: Time | None = None,
        end: Time | None = None,
        columns: str | Sequence[str] | None = None,
        where: str | Column | None = None,
        *,
        meta: bool = False,
    ) -> DataFrame:
        """Return the rows last changed inside (start, end], as they stood at its end.

            table.incremental(start=last_commit.completion_time)

        Times are completion times from table version 8 on, requested times before.
        """
        selection = self._selection(columns, where, meta=meta)
        plan = plan_incremental(self._now(), selection, start=start, end=end)
        return self._frame(plan, where)

    def changes(self, start: Time | None = None, end: Time | None = None) -> DataFrame:
        """Return every change inside (start, end]: `op`, `ts_ms`, `before` and `after`.

            table.changes(start="2026-03-01").where("op = 'd'")

        `ts_ms` is the requested time of the commit; `before` and `after` are rows as JSON. Changes
        come in the order in which they took effect.
        """
        plan = plan_changes(self._now(), start=start, end=end)
        return changes_dataframe(self._spark, plan.spec, plan.tasks)

    def insert(
        self, rows: Rows, *, options: Options | None = None, write_id: str | None = None
    ) -> Commit:
        """Add rows, small files first; keys that the table has already are kept twice.

        Unless `hoodie.datasource.insert.dup.policy` says otherwise. With the bucket index, which
        holds one row a key, an insert is an upsert. The same `write_id` twice commits once.
        """
        return self._write(WriteOperation.INSERT, rows, options, write_id)

    def bulk_insert(
        self, rows: Rows, *, options: Options | None = None, write_id: str | None = None
    ) -> Commit:
        """Add rows to new files as fast as that goes, arranged by `hoodie.bulkinsert.sort.mode`."""
        return self._write(WriteOperation.BULK_INSERT, rows, options, write_id)

    def upsert(
        self, rows: Rows, *, options: Options | None = None, write_id: str | None = None
    ) -> Commit:
        """Add rows whose key is new, and merge the others with the rows that have their key.

        commit = table.upsert(rows, write_id="orders-2026-03-01")  # twice commits once
        """
        return self._write(WriteOperation.UPSERT, rows, options, write_id)

    def delete(
        self, rows: Rows, *, options: Options | None = None, write_id: str | None = None
    ) -> Commit:
        """Delete the rows whose keys `rows` carry; it needs the key and partition columns alone.

        table.delete([{"id": 1, "city": "oslo"}])
        """
        return self._write(WriteOperation.DELETE, rows, options, write_id)

    def insert_overwrite(
        self, rows: Rows, *, options: Options | None = None, write_id: str | None = None
    ) -> Commit:
        """Put `rows` in the place of everything in the partitions that they belong to."""
        return self._write(WriteOperation.INSERT_OVERWRITE, rows, options, write_id)

    def insert_overwrite_table(
        self, rows: Rows, *, options: Options | None = None, write_id: str | None = None
    ) -> Commit:
        """Put `rows` in the place of everything in the table."""
        return self._write(WriteOperation.INSERT_OVERWRITE_TABLE, rows, options, write_id)

    def write(
        self, rows: Rows, *, options: Options | None = None, write_id: str | None = None
    ) -> Commit:
        """Write rows as `hoodie.datasource.write.operation` says: upsert them unless it is set.

        The operation `delete_partition` leaves the rows aside and retires the partitions that
        `hoodie.datasource.write.partitions.to.delete` names.
        """
        found = self._rows(rows)
        return self._committed(options, lambda writer, _: writer.write_as_told(found, write_id))

    def delete_where(
        self,
        where: str | Column,
        *,
        options: Options | None = None,
        write_id: str | None = None,
    ) -> Commit:
        """Delete the rows for which a condition in Spark SQL is true.

        table.delete_where("city = 'oslo' and fare is null")
        """
        return self._committed(
            options, lambda writer, state: writer.delete_read(self._read(state, where), write_id)
        )

    def update_where(
        self,
        where: str | Column,
        values: Mapping[str, str | Column],
        *,
        options: Options | None = None,
        write_id: str | None = None,
    ) -> Commit:
        """Give columns new values in the rows for which a condition is true.

            table.update_where("city = 'oslo'", {"fare": "fare * 2"})

        `values` maps columns to expressions over the row as it is. Under event-time ordering a new
        value of an ordering column that is lower than the old one loses, as in any other write.
        """

        def update(writer: Writer, state: TableState) -> Commit:
            found = self._read(state, where)
            try:
                made = {
                    name: F.expr(value) if isinstance(value, str) else value
                    for name, value in values.items()
                }
                return writer.update_read(found, made, write_id)
            except AnalysisException as cause:
                raise _unfit(f"the new values {dict(values)}", cause, found.columns) from cause

        return self._committed(options, update)

    def merge(self, source: Rows, on: str | Column | Sequence[str] | None = None) -> MergeBuilder:
        """Begin a merge of `source` into the table, to which clauses say what happens.

        `on` is a condition over `target` and `source`, or the name or names of columns that both
        have; without it rows match that an upsert takes for the same: those with the same record
        key and, unless the index is global, the same partition.

            trips.merge(news, on="id").when_matched_update_all().when_not_matched_insert_all()

        Under event-time ordering a row whose ordering value is lower than that of the table's row
        changes nothing, as in any other write; deletes always take effect.
        """
        request = MergeRequest(source=self._rows(source), on=on)
        return MergeBuilder(request, self._merge)

    def delete_partitions(
        self,
        partitions: str | Sequence[str],
        *,
        options: Options | None = None,
        write_id: str | None = None,
    ) -> Commit:
        """Retire whole partitions, named by their path or as `column=value`.

        table.delete_partitions(["city=oslo", "city=rome"])
        """
        paths = [partitions] if isinstance(partitions, str) else partitions
        return self._committed(options, lambda writer, _: writer.delete_partitions(paths, write_id))

    @property
    def clean(self) -> ScheduledService[Cleaned, list[Cleaned]]:
        """Return the clean, which deletes files that nobody can ask for, by `hoodie.clean.*`.

        `clean()` finishes cleans that were begun before and cleans anew; it returns what was done,
        an empty list when no file is old enough. `clean.schedule()` and `clean.run(instant)` are
        the two steps.

            table.clean(options={"hoodie.clean.commits.retained": "20"})
        """
        return ScheduledService("clean", lambda options: CleanSteps(self._table_services(options)))

    def archive(self, *, options: Options | None = None) -> Archived | None:
        """Move old instants into the history, by `hoodie.keep.*`; None when nothing is due.

        An archival has no plan on the timeline, and so nothing to schedule.
        """
        return self._table_services(options).archive()

    def rollback(
        self, instant: str, *, force: bool = False, options: Options | None = None
    ) -> RolledBack:
        """Take a write off the table: one that failed, or the newest that completed.

        `instant` is its requested time. Raises `ConfigError` when it cannot be rolled back, and
        `HorizonError` when a clean has deleted what the table would have to go back to. A write
        that gives signs of life is rolled back only with `force`; its writer then fails.
        """
        return self._table_services(options).roll_back(instant, force=force)

    def rollback_failed(self, *, options: Options | None = None) -> list[str]:
        """Roll back every write that did not complete, and return their requested times.

        The next write does so by itself, unless `hoodie.clean.failed.writes.policy` says otherwise.
        """
        return list(self._table_services(options).roll_back_failed())

    def savepoint(
        self, instant: str | None = None, *, comment: str = "", options: Options | None = None
    ) -> Savepoint:
        """Keep the table as of a completed write, by default the newest, until further notice.

            saved = table.savepoint(comment="before the migration")
            table.restore(saved.requested_time)

        Cleans leave its files, and `restore` can bring it back. Raises `ConfigError` for an instant
        that did not complete, and `HorizonError` for one whose files were cleaned.
        """
        return self._table_services(options).savepoint(instant, comment)

    def delete_savepoint(self, instant: str, *, options: Options | None = None) -> None:
        """Give up a savepoint: the next clean deletes what nothing else keeps."""
        self._table_services(options).delete_savepoint(instant)

    def restore(self, savepoint: str, *, options: Options | None = None) -> Restored:
        """Make the table what it was at a savepoint, and forget everything since.

        After a crash call it again with the same savepoint. Raises `ConfigError` when there is no
        such savepoint, and `HorizonError` when files of it are gone.
        """
        return self._table_services(options).restore(savepoint)

    def plan(self, service: Service | str, *, options: Options | None = None) -> ServicePlan:
        """Return what a service would do now, without doing it; the value prints well.

            print(table.plan("compact"))

        Services are `compact`, `clean` and `archive`; the words of the timeline, such as
        `compaction`, mean the same.
        """
        return self._table_services(options).plan(service)

    @property
    def compact(self) -> ScheduledService[Commit, Commit | None]:
        """Return the compaction of a merge-on-read table: logs are folded into base files.

        `compact()` plans a compaction and runs it, together with plans that wait, ours or Apache
        Hudi's; `compact.schedule()` and `compact.run(instant)` are the two steps.

            instant = table.compact.schedule()
            commit = table.compact.run(instant) if instant else None
        """
        return ScheduledService("compact", self._compactor)

    def timeline(self, *, history: bool = False) -> InstantList:
        """Return the instants, newest last, as a list that prints as a table.

        With `history` the archived ones too.
        """
        state = self._now()
        if not history:
            return InstantList(state.timeline.instants)
        return InstantList(with_history(state.timeline, state.history.instants()))

    def history(self) -> DataFrame:
        """Return the whole timeline as a DataFrame, archived instants first, newest last.

            table.history().where("operation = 'UPSERT'").orderBy("completion_time")

        Its columns are the requested and the completion time, action, state, whether the instant
        is archived, and of writes the operation, the rows that were inserted, updated and deleted,
        and files and bytes written.
        """
        rows = timeline_rows(self._now())
        return given_rows(self._spark, [to_ipc(rows)], spark_schema(rows.schema))

    def slices(self, as_of: Time | None = None, partition: str | None = None) -> FileSliceList:
        """Return the newest file slice of every file group, as a list that prints as a table.

        table.slices(partition="city=oslo", as_of="2026-03-01")
        """
        state = self._now()
        at = None if as_of is None else state.as_of(as_of)
        found = state.view.latest_slices(None if partition is None else [partition], as_of=at)
        return FileSliceList(found)

    @override
    def __repr__(self) -> str:
        facts = dict(self._facts())
        name = facts.pop("name")
        return f"<Table {name}: {', '.join(f'{fact} {value}' for fact, value in facts.items())}>"

    def _repr_html_(self) -> str:
        return html_table((), self._facts(), caption="Hudi table")

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("name", self.name),
            ("type", self.table_type.value),
            ("version", str(self.table_version)),
            ("path", self.path),
            ("last commit", self._last_commit()),
        ]

    def _last_commit(self) -> str:
        try:
            last = next(reversed(self._now().writes_by_time()), None)
        except TidelakeError as cause:
            return f"unknown ({cause.problem})"
        return "none" if last is None else f"{last.requested_time} ({last.action})"

    def _rows(self, given: Rows) -> DataFrame:
        """Return rows as a DataFrame of this session."""
        if is_dataframe(given):
            return to_spark(self._spark, given, None)
        try:
            stored = arrow_schema(self._now().schema().avro)
        except SchemaError:  # no write has said yet which columns there are
            stored = None
        return to_spark(self._spark, given, stored)

    def _table_services(self, options: Options | None) -> TableServices:
        given = WriteOptions.from_options({**self._given, **(options or {})})
        return TableServices(Env(self._storage), self._now(), given)

    def _now(self) -> TableState:
        return load_table(self._storage, self._options)

    def _write(
        self,
        operation: WriteOperation,
        rows: Rows,
        options: Options | None,
        write_id: str | None,
    ) -> Commit:
        frame = self._rows(rows)
        return self._committed(options, lambda writer, _: writer.write(operation, frame, write_id))

    def _committed(
        self, options: Options | None, write: Callable[[Writer, TableState], Commit]
    ) -> Commit:
        """Return what a write commits; one that has to give way starts anew if it is to."""
        given = WriteOptions.from_options({**self._given, **(options or {})})
        with worker_errors():
            return committed(self._spark, Env(self._storage), given, self._now, write)

    def _compactor(self, options: Options) -> Compactor:
        given = {**self._given, **options}
        return Compactor(
            Env(self._storage),
            lambda: load_state(self._storage, given),
            WriteOptions.from_options(given),
            OnSpark(self._spark),
        )

    def _merge(
        self, request: MergeRequest, options: Options | None, write_id: str | None
    ) -> Commit:
        def merge(writer: Writer, state: TableState) -> Commit:
            def read(
                columns: Sequence[str] | None, partitions: Sequence[str] | None, where: str | None
            ) -> DataFrame:
                paths = None if partitions is None else frozenset(partitions)
                told = where if is_read_alike(self._spark, str(request.on)) else None
                wanted = Selection(columns=columns, where=told, meta=True, partitions=paths)
                return self._frame(plan_snapshot(state, wanted), None)

            return writer.merge(request, read, write_id)

        return self._committed(options, merge)

    def _selection(
        self, columns: str | Sequence[str] | None, where: str | Column | None, *, meta: bool
    ) -> Selection:
        return Selection(
            columns=[columns] if isinstance(columns, str) else columns,
            where=where if isinstance(where, str) and is_read_alike(self._spark, where) else None,
            meta=meta,
            is_filtered=where is not None,
        )

    def _read(self, state: TableState, where: str | Column) -> DataFrame:
        plan = plan_snapshot(state, self._selection(None, where, meta=True))
        return self._frame(plan, where)

    def _frame(self, plan: ScanPlan, where: str | Column | None) -> DataFrame:
        frame = to_dataframe(self._spark, plan.spec, plan.tasks, self._options.merge_path)
        if where is None:
            return frame
        try:
            found = frame.where(where)
            if plan.spec.columns == plan.output:
                return found
            return found.select(*(f"`{name}`" for name in plan.output))
        except AnalysisException as cause:
            raise _unfit(f"the condition {where}", cause, plan.output) from cause


def _unfit(what: str, cause: AnalysisException, columns: Sequence[str]) -> SchemaError:
    return SchemaError(
        f"{what} does not fit the table: {spark_reason(cause)}",
        next_step=f"its columns are {', '.join(columns)}",
    )


def _columns(spark: SparkSession, schema: T.StructType | str | Rows) -> FrameColumns:
    if isinstance(schema, T.StructType):
        return FrameColumns(schema)
    if isinstance(schema, str):
        return FrameColumns(spark.createDataFrame([], schema).schema)
    return FrameColumns.of_any_rows(to_spark(spark, schema, None).schema)


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (
        tuple(part.strip() for part in given.split(",")) if isinstance(given, str) else tuple(given)
    )


def _table_type(given: TableType | str) -> TableType:
    for word in TableType:
        if word.value == str(given).upper():
            return word
    raise ConfigError(
        f"table_type is {given!r}",
        next_step=f"choose {' or '.join(word.value for word in TableType)}",
    )
