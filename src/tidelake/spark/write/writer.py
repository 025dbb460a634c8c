"""A write from the rows of a DataFrame to a commit.

Rows are run once to be counted, and kept by Spark for the second run, in which tasks write them:
the first run says which partitions and file groups are touched, finds rows that may not be written,
and gives a checksum to which the second is held. Nothing of the table changes before it is done.
A bulk insert keeps no rows: its first run looks at their keys alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Protocol

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tidelake.config import DuplicatePolicy, IndexType, SortMode, WriteOperation, WriteOptions
from tidelake.config.keys import write_keys
from tidelake.env import Env
from tidelake.errors import ConfigError, InputChangedError, SchemaError, UnsupportedTableError
from tidelake.files.write_task import GROUP, ColumnSet
from tidelake.formats.commit_metadata import WriteStat
from tidelake.model import Commit, MergeMode
from tidelake.operations.compaction_run import inline_compaction
from tidelake.operations.replaced_keys import ReplacedKeys
from tidelake.operations.write_session import Choice, WriteSession
from tidelake.records import Fill
from tidelake.records.schema import PARTITION_PATH, RECORD_KEY, top_level
from tidelake.spark.merge.merge_clauses import MergeRequest
from tidelake.spark.merge.merge_plan import condition_of_target, matching, sides
from tidelake.spark.merge.merge_rows import count_changes, unsure_inserts, without_stale
from tidelake.spark.merge.merge_setup import set_up
from tidelake.spark.session.cores import cpu_cores
from tidelake.spark.types.fitting import Typed
from tidelake.spark.types.to_avro import FrameColumns
from tidelake.spark.workers.index_tasks import forget_keys
from tidelake.spark.workers.metadata_groups import compact_on
from tidelake.spark.workers.task_runs import OnSpark
from tidelake.spark.workers.write_tasks import run_write_tasks
from tidelake.spark.write.incoming_rows import (
    ODD,
    Incoming,
    assigned,
    for_tasks,
    keyed_rows,
    read_rows,
    user_columns,
)
from tidelake.spark.write.index_fill import fill_on
from tidelake.spark.write.index_lookup import (
    Lookup,
    clashing_key,
    in_one_partition,
    revived,
    tagged,
    tagged_globally,
    without_known_keys,
)
from tidelake.spark.write.ordering import is_older_than
from tidelake.spark.write.path_values import PathValues, values_of_paths
from tidelake.spark.write.placement import fits_one_task, spread
from tidelake.spark.write.python_groups import BucketsOfKeys, RingsOfPartitions, python_groups
from tidelake.spark.write.record_lookup import Doubts, RecordLookup
from tidelake.spark.write.row_count import count_by_spark, count_rows, refuse_bad_rows
from tidelake.state.table_state import TableSchema, TableState
from tidelake.txn.protocol.retry import retry_on_conflict
from tidelake.write.groups import live_groups
from tidelake.write.index import Index
from tidelake.write.operation import ADDING, REPLACING, planned_partitions, planned_stats
from tidelake.write.partial import logs_changed_columns
from tidelake.write.partitions import named_partitions
from tidelake.write.plan import Workload, WritePlan
from tidelake.write.refused_rows import bad_rows, known_key
from tidelake.write.ring import Rings
from tidelake.write.schema_evolution import without_meta_columns
from tidelake.write.sharing import refuse_exclusive
from tidelake.write.write_work import WriteWork, Written

#: Sort modes that bring the rows of a partition together, and those that order them.
_REPARTITIONED = frozenset(
    {SortMode.PARTITION_PATH_REPARTITION, SortMode.PARTITION_PATH_REPARTITION_AND_SORT}
)
_SORTED = frozenset(
    {
        SortMode.GLOBAL_SORT,
        SortMode.PARTITION_SORT,
        SortMode.PARTITION_PATH_REPARTITION_AND_SORT,
    }
)
#: So many rows are sent to every task that reads keys of the table; more take a shuffle.
_FEW_ROWS = 100_000
#: What the columns are called that hold ordering values of before an update.
_BEFORE = "_tidelake_before_"


class ReadTarget(Protocol):
    """Reads rows of the table with their meta columns, from some partitions or from all."""

    def __call__(
        self, columns: Sequence[str] | None, partitions: Sequence[str] | None, where: str | None
    ) -> DataFrame:
        """Return the rows; None stands for every column or partition.

        Files in which no row fulfils `where` may be left out.
        """


class Writer:
    """Writes the rows of DataFrames to one table, as it is when the writer is made."""

    def __init__(
        self, spark: SparkSession, env: Env, state: TableState, options: WriteOptions
    ) -> None:
        """Raise `UnsupportedTableError` or `ConfigError` when the table cannot be written so."""
        self._spark = spark
        inline = inline_compaction(env, state, options, OnSpark(spark))
        self._session = WriteSession(
            env,
            state,
            options,
            compact=inline,
            compact_groups=compact_on(spark),
            fill_index=fill_on(spark, state),
        )

    def write(
        self, operation: WriteOperation, frame: DataFrame, write_id: str | None = None
    ) -> Commit:
        """Insert, upsert, delete or overwrite with the rows of a DataFrame."""
        done = self._session.done_before(write_id)
        if done is not None:
            return done
        choice = self._session.choose(operation, FrameColumns(frame.schema), write_id)
        rows = _keyed(frame, choice)
        if self._goes_at_once(choice):
            return self._bulk(rows, choice)
        if operation in REPLACING:
            return self._overwrite(rows, choice)
        return self._change(rows, choice)

    def write_as_told(self, frame: DataFrame, write_id: str | None = None) -> Commit:
        """Write rows as `hoodie.datasource.write.operation` says: upsert them unless it is set.

        The operation `delete_partition` leaves the rows aside and retires the partitions that
        `hoodie.datasource.write.partitions.to.delete` names.
        """
        options = self._session.options
        if options.operation is not WriteOperation.DELETE_PARTITION:
            return self.write(options.operation, frame, write_id)
        if not options.partitions_to_delete:
            raise ConfigError(
                "the operation delete_partition takes no rows, and no partition is named",
                next_step="call Table.delete_partitions, or name the partitions in "
                f"{write_keys.PARTITIONS_TO_DELETE.name}",
            )
        return self.delete_partitions(options.partitions_to_delete, write_id)

    def content(self, operation: WriteOperation, frame: DataFrame) -> str:
        """Return what a commit of these rows would say of them, which tells them from others."""
        choice = self._session.choose(operation, FrameColumns(frame.schema), None)
        return count_by_spark(_keyed(frame, choice)).content

    def delete_read(self, frame: DataFrame, write_id: str | None = None) -> Commit:
        """Delete rows that were read from the table with their meta columns."""
        return self._change_read(WriteOperation.DELETE, frame, write_id)

    def update_read(
        self, frame: DataFrame, values: Mapping[str, Column], write_id: str | None = None
    ) -> Commit:
        """Give columns of rows that were read from the table, with their meta columns, new values.

        Raises `SchemaError` when a column is unknown or part of the key or the partition path, and
        for a value that it does not hold.
        """
        config = self._session.config
        columns = user_columns(frame)
        identity = top_level((*config.record_key_fields, *config.partition_fields))
        changed: dict[str, Column] = {}
        for wanted, value in values.items():
            name = matching(wanted.strip("`"), columns)
            if name is None:
                raise SchemaError(
                    f"the table has no column {wanted}",
                    next_step=f"its columns are {', '.join(columns)}",
                )
            if name in changed:
                raise SchemaError(f"the update sets {name} twice", next_step="set it once")
            if name in identity:
                raise SchemaError(
                    f"{name} is part of the record key or the partition path, which an update "
                    "leaves as they are",
                    next_step="delete the rows and insert them anew",
                )
            changed[name] = value
        kinds = {f.name: f.dataType for f in frame.schema.fields}
        given = frame.select(*(value.alias(name) for name, value in changed.items())).schema
        typed = {name: Typed(value, given[name].dataType) for name, value in changed.items()}
        _refuse_misfits(
            frame, {n: t.is_lost(kinds[n]) for n, t in typed.items() if not t.surely_fits(kinds[n])}
        )
        made = self._updated(frame, {n: t.fitted(kinds[n]) for n, t in typed.items()})
        brought = self._brought(columns, list(changed))
        return self._change_read(WriteOperation.UPSERT, made, write_id, brought)

    def _updated(self, frame: DataFrame, values: Mapping[str, Column]) -> DataFrame:
        """Return the rows with new values, without those that are older than they were.

        These change nothing; as partial records in a log they might, beside others.
        """
        merge = self._session.merge
        by_time = merge.mode is MergeMode.EVENT_TIME and merge.fill is Fill.NONE
        ordering = top_level(merge.ordering_fields) if by_time else []
        if not any(name in values for name in ordering):
            return frame.withColumns(dict(values))
        before = {f"{_BEFORE}{name}": F.col(f"`{name}`") for name in ordering}
        made = frame.withColumns({**before, **values})
        is_older = is_older_than(made, merge.ordering_fields, _BEFORE, merge)
        return made.where(~is_older).drop(*before)

    def _brought(self, columns: Sequence[str], changed: Sequence[str]) -> ColumnSet | None:
        """Return what rows of an update bring, or None where they are written whole.

        Whole rows unless somebody asks for less: incremental queries of Apache Hudi and hudi-rs
        fail on partial blocks, and an update by condition worked for them before.
        """
        session = self._session
        is_asked_for = write_keys.MERGE_PARTIAL_UPDATES.given(session.options.settings) is not None
        if not (is_asked_for and session.options.logs_changed_columns):
            return None
        if not logs_changed_columns(session.config, session.merge):
            return None
        ordering = session.merge.ordering_fields
        if session.merge.mode is not MergeMode.EVENT_TIME:
            ordering = ()
        wanted = {*changed, *top_level(ordering)}
        return ColumnSet(names=tuple(n for n in columns if n in wanted), is_known=True)

    def merge(self, request: MergeRequest, read: ReadTarget, write_id: str | None = None) -> Commit:
        """Merge a source into the table; `read` gives rows of the table with their meta columns.

        Raises `SchemaError` when the merge does not fit the table, the source or their rows.
        """
        session = self._session
        done = session.done_before(write_id)
        if done is not None:
            return done
        if not session.config.populate_meta_fields:
            raise UnsupportedTableError(
                "rows of a table without meta columns do not say where they are",
                next_step="write the rows with upsert and delete",
            )
        source = request.source.select("*")
        choice, rows, columns = set_up(session, request, source, write_id)
        with ExitStack() as stack:
            partitions = None
            found = None if sides(request)[2] else rows.partition_paths(source)
            if found is not None:
                # It is run twice, and a row that were in other partitions then would match nothing.
                source = stack.enter_context(_persisted(source))
                partitions = [row[0] for row in found.collect()]
            where = None if sides(request)[2] else condition_of_target(rows.on)
            changes = rows.changes(read(columns, partitions, where), source)
            kept = stack.enter_context(_kept(changes))
            workload, unsure = count_changes(kept, may_match_twice=request.may_match_twice)
            made = without_stale(kept)
            if unsure:
                self._refuse_known_keys(unsure_inserts(made), workload, choice)
            placed = self._placed_inserts(made, workload, choice)
            if placed is None:
                return self._counted(made, workload, choice, was_read=True)
            again = stack.enter_context(_kept(placed))
            return self._counted(again, count_rows(again), choice, was_read=True)

    def _refuse_known_keys(self, rows: Incoming, workload: Workload, choice: Choice) -> None:
        """Raise `SchemaError` when a row to insert has a key that the table has."""
        session = self._session
        if choice.keys.is_made_up:
            return
        is_global = choice.index.type.is_global
        lookup = self._lookup(choice, is_global=is_global)
        if choice.index.type is IndexType.RECORD_INDEX:
            with self._record_lookup(lookup).known(rows, Doubts.ALL) as known:
                clash = clashing_key(rows, known, is_global=True)
        else:
            partitions = session.state.view.partitions() if is_global else workload.partitions
            known = lookup.known(live_groups(session.state.view, session.config, list(partitions)))
            clash = clashing_key(rows, known, is_global=is_global)
        if clash is not None:
            raise SchemaError(
                f"a row to insert has the key {clash!r}, which a row of the table has that does "
                "not match it",
                next_step="match rows by their key, or leave such rows out by a condition; nothing "
                "was written",
            )

    def _placed_inserts(
        self, rows: Incoming, workload: Workload, choice: Choice
    ) -> Incoming | None:
        """Return the rows with groups for new ones that have a place already, if there are any."""
        session = self._session
        if choice.index.is_ring:
            rings = session.rings(choice.index, workload.partitions)
            return _on_rings(rows, choice.index, rings)
        if workload.oddly_hashed:
            return _rehashed(rows, choice.index)
        partitions = [partition for partition, group in workload.counts if group is None]
        if choice.index.is_bucket or choice.keys.is_made_up or not partitions:
            return None
        # A key that a log took away comes back where it was, as in an upsert.
        live = live_groups(session.state.view, session.config, partitions)
        logged = [g for g in live if g.slice.log_files and g.slice.base_file is not None]
        if not logged:
            return None
        return revived(rows, self._lookup(choice).in_base_files(logged))

    def _lookup(
        self,
        choice: Choice,
        *,
        is_global: bool = False,
        revives: bool = False,
        with_ordering: bool = False,
        wanted: DataFrame | None = None,
    ) -> Lookup:
        session = self._session
        return Lookup(
            spark=self._spark,
            state=session.state,
            # The first write brings the schema, unless the table was created with one.
            schema=session.schemas.stored or TableSchema(avro=choice.schema.avro),
            keys=choice.keys,
            merge=session.merge,
            is_global=is_global,
            revives=revives,
            with_ordering=with_ordering,
            wanted=wanted,
        )

    def _record_lookup(self, lookup: Lookup) -> RecordLookup:
        index = self._session.record_index
        assert index is not None  # without one, another kind of index was chosen
        return RecordLookup(index=index, lookup=lookup, config=self._session.config)

    def delete_partitions(self, wanted: Sequence[str], write_id: str | None = None) -> Commit:
        """Retire every file group of the partitions; raise `ConfigError` for one that is not."""
        session = self._session
        done = session.done_before(write_id)
        if done is not None:
            return done
        refuse_exclusive(session.options.concurrency.mode, WriteOperation.DELETE_PARTITION)
        chosen = named_partitions(session.config, wanted, session.state.view.partitions())
        avro = without_meta_columns(session.schemas.table().avro)
        with session.begin(WriteOperation.DELETE_PARTITION, write_id, looked_up=False) as txn:
            replaced = {**{p: [] for p in chosen}, **session.retire(txn, chosen)}
            txn.start(planned_partitions(Workload(), replaced))
            return session.commit_replacing(txn, (), avro, replaced, self._forgotten)

    def _goes_at_once(self, choice: Choice) -> bool:
        """Return whether rows may go to new file groups without a look at them first."""
        return (
            choice.operation is WriteOperation.BULK_INSERT
            and not choice.index.is_bucket
            and not self._session.options.combine_before_insert
            and self._session.options.insert_duplicates is DuplicatePolicy.NONE
        )

    def _bulk(self, rows: Incoming, choice: Choice) -> Commit:
        """Write rows to new file groups in one run, without counting them first."""
        refuse_bad_rows(rows)
        session = self._session
        options = session.options
        by_partition = [PARTITION_PATH] if session.config.partition_fields else []
        frame = rows.frame
        if options.sort_mode is SortMode.GLOBAL_SORT:
            frame = _ranged(frame, options.bulk_parallelism, [*by_partition, RECORD_KEY])
        elif options.sort_mode in _REPARTITIONED:
            frame = _hashed(frame, options.bulk_parallelism, by_partition or [RECORD_KEY])
        is_sorted = options.sort_mode in _SORTED
        if is_sorted:
            frame = frame.sortWithinPartitions(*by_partition, RECORD_KEY)
        with session.begin(choice.operation, choice.write_id, looked_up=False) as txn:
            txn.start()
            work = WriteWork(
                spec=session.spec(txn, choice),
                plan=None,
                is_sorted=is_sorted or not by_partition,
                key_column=rows.key_column,
            )
            made = run_write_tasks(for_tasks(rows, frame, is_planned=False), work)
            return session.commit(
                txn, made.stats, choice.schema.avro, brought=_told(choice, made.content)
            )

    def _change(self, rows: Incoming, choice: Choice) -> Commit:
        """Write rows to the file groups that hold, or are to hold, their keys."""
        is_load = choice.operation is WriteOperation.BULK_INSERT
        if is_load and choice.index.is_simple_bucket and not self._needs_new_keys(choice):
            # To keep as many rows as a load brings costs more than to read their keys twice.
            counted = count_by_spark(rows)
            if not counted.oddly_hashed:
                return self._counted(rows, counted, choice, brought=_told(choice, counted.content))
        with _kept(rows) as kept:
            looks_up = not choice.index.is_bucket and self._needs_lookup(choice)
            if looks_up and choice.index.type is IndexType.RECORD_INDEX:
                return self._change_indexed(kept, count_rows(kept), choice)
            if looks_up and choice.index.type.is_global:
                first = None
                # How many rows there are changes as they are looked up.
                brought = None if choice.write_id is None else count_rows(kept).content
                every = list(self._session.state.view.partitions())
                found = self._looked_up(kept, choice, every, are_few=False)
            else:
                first = count_rows(kept)
                brought = _told(choice, first.content)
                if looks_up:
                    are_few = first.rows <= _FEW_ROWS
                    found = self._looked_up(kept, choice, first.partitions, are_few=are_few)
                elif self._needs_new_keys(choice):
                    with _kept(self._not_in_buckets(kept, first, choice)) as new:
                        return self._in_buckets(new, count_rows(new), choice, brought)
                else:
                    return self._in_buckets(kept, first, choice, brought)
            with _kept(found) as looked_up:
                workload = count_rows(looked_up)
                if first is not None and not set(workload.partitions) <= set(first.partitions):
                    raise _changed(first.rows, workload.rows)
                return self._counted(looked_up, workload, choice, brought=brought)

    def _needs_lookup(self, choice: Choice) -> bool:
        if choice.operation in (WriteOperation.UPSERT, WriteOperation.DELETE):
            return True
        return self._session.options.insert_duplicates is not DuplicatePolicy.NONE

    def _needs_new_keys(self, choice: Choice) -> bool:
        """Return whether rows whose keys the table has are to be left out, or refused."""
        policy = self._session.options.insert_duplicates
        return choice.operation in ADDING and policy is not DuplicatePolicy.NONE

    def _not_in_buckets(self, rows: Incoming, first: Workload, choice: Choice) -> Incoming:
        """Return the rows whose keys no bucket holds; raise where others are to be refused."""
        session = self._session
        lookup = self._lookup(choice, wanted=rows.frame if first.rows <= _FEW_ROWS else None)
        known = lookup.known(live_groups(session.state.view, session.config, first.partitions))
        if session.options.insert_duplicates is DuplicatePolicy.FAIL:
            self._without_duplicates(tagged(rows, known))
            return rows
        return without_known_keys(rows, known)

    def _in_buckets(
        self, rows: Incoming, counted: Workload, choice: Choice, brought: str | None
    ) -> Commit:
        if choice.index.is_ring:
            rings = self._session.rings(choice.index, counted.partitions)
            found = _on_rings(rows, choice.index, rings)
        elif counted.oddly_hashed:
            found = _rehashed(rows, choice.index)
        else:
            return self._counted(rows, counted, choice, brought=brought)
        with _kept(found) as placed:
            return self._counted(placed, count_rows(placed), choice, brought=brought)

    def _change_indexed(self, rows: Incoming, first: Workload, choice: Choice) -> Commit:
        """Write rows to the file groups in which the record index has their keys."""
        are_few = first.rows <= _FEW_ROWS
        moves = choice.moves_partition
        if choice.is_delete:
            doubts = Doubts.NONE  # to delete what is not there does no harm
        elif choice.operation is WriteOperation.UPSERT:
            doubts = Doubts.OTHER_PARTITIONS
        else:
            doubts = Doubts.ALL
        lookup = self._lookup(
            choice,
            is_global=True,
            with_ordering=moves and self._session.merge.mode is MergeMode.EVENT_TIME,
            wanted=rows.frame if are_few else None,
        )
        # In one task rows of one key meet without a shuffle.
        together = rows.with_frame(rows.frame.coalesce(1)) if are_few else rows
        with (
            self._record_lookup(lookup).known(rows, doubts) as known,
            _kept(self._tagged(together, known, choice)) as found,
        ):
            return self._counted(
                found, count_rows(found), choice, brought=_told(choice, first.content)
            )

    def _looked_up(
        self, rows: Incoming, choice: Choice, partitions: Sequence[str], *, are_few: bool
    ) -> Incoming:
        """Return the rows with the file groups of `partitions` in which their keys are."""
        session = self._session
        is_global = choice.index.type.is_global
        moves = is_global and choice.moves_partition
        lookup = self._lookup(
            choice,
            is_global=is_global,
            revives=choice.operation is WriteOperation.UPSERT,
            with_ordering=moves and session.merge.mode is MergeMode.EVENT_TIME,
            wanted=rows.frame if are_few else None,
        )
        known = lookup.known(live_groups(session.state.view, session.config, partitions))
        return self._tagged(rows, known, choice)

    def _tagged(self, rows: Incoming, known: DataFrame, choice: Choice) -> Incoming:
        """Return the rows with the file groups in which their keys are known to be."""
        session = self._session
        if choice.index.type.is_global:
            if session.options.combine_before_upsert and not choice.is_delete:
                rows = in_one_partition(rows, session.merge)
            moves = choice.moves_partition
            values: Sequence[PathValues] = ()
            if not choice.index.moves_partition:
                paths = session.state.view.partitions()
                values = values_of_paths(session.config, choice.schema.avro, paths, choice.columns)
            found = tagged_globally(
                rows, known, session.merge, moves_partition=moves, path_values=values
            )
        else:
            found = tagged(rows, known)
        if choice.is_delete:
            return found.with_frame(found.frame.where(F.col(GROUP).isNotNull()))
        if choice.operation is WriteOperation.UPSERT:
            return found
        return self._without_duplicates(found)

    def _without_duplicates(self, rows: Incoming) -> Incoming:
        is_known = F.col(GROUP).isNotNull()
        if self._session.options.insert_duplicates is DuplicatePolicy.FAIL:
            twice = rows.frame.groupBy(RECORD_KEY, PARTITION_PATH).count().where("count > 1")
            clash = rows.frame.where(is_known).select(RECORD_KEY).limit(1).collect()
            clash = clash or twice.select(RECORD_KEY).limit(1).collect()
            if clash:
                raise known_key(clash[0][0])
        return rows.with_frame(rows.frame.where(~is_known))

    def _counted(
        self,
        rows: Incoming,
        workload: Workload,
        choice: Choice,
        *,
        by_file_id: bool = False,
        was_read: bool = False,
        brought: str | None = None,
    ) -> Commit:
        """Write rows once they were counted; `was_read` says that rows of the table made them."""
        session = self._session
        looked_up = by_file_id or was_read or not choice.index.is_simple_bucket
        with session.begin(
            choice.operation,
            choice.write_id,
            looked_up=looked_up,
            keeps_unique=self._needs_lookup(choice),
            is_global=choice.index.type.is_global,
        ) as txn:
            plan = session.plan(txn, choice, workload, by_file_id=by_file_id)
            txn.start(planned_stats(workload, plan))
            work = WriteWork(
                spec=session.spec(txn, choice),
                plan=plan,
                is_delete=choice.is_delete,
                forgets_deleted=was_read,
                key_column=rows.key_column,
            )
            made = self._run(rows, workload, plan, work)
            return session.commit(txn, made.stats, choice.schema.avro, brought=brought)

    def _change_read(
        self,
        operation: WriteOperation,
        frame: DataFrame,
        write_id: str | None,
        brought: ColumnSet | None = None,
    ) -> Commit:
        session = self._session
        done = session.done_before(write_id)
        if done is not None:
            return done
        if not session.config.populate_meta_fields:
            # Such rows do not say which file they come from, so their keys have to find it.
            return self.write(operation, frame, write_id)
        choice = session.choose(operation, FrameColumns(frame.schema), write_id, by_key=False)
        if brought is not None:
            choice = replace(choice, columns=brought.names, column_sets=(brought,))
        required = [n for n in choice.schema.required if n in choice.columns]
        rows = read_rows(frame, choice.columns, required)
        with _kept(rows) as kept:
            return self._counted(kept, count_rows(kept), choice, by_file_id=True)

    def _overwrite(self, rows: Incoming, choice: Choice) -> Commit:
        session = self._session
        with ExitStack() as stack:
            kept = stack.enter_context(_kept(rows))
            workload = count_rows(kept)
            brought = _told(choice, workload.content)
            rings: Rings = {}
            if choice.index.is_ring:
                rings = session.renewed_rings(choice.index, workload.partitions)
                kept = stack.enter_context(_kept(_on_rings(kept, choice.index, rings)))
                workload = count_rows(kept)
            elif workload.oddly_hashed:
                kept = stack.enter_context(_kept(_rehashed(kept, choice.index)))
                workload = count_rows(kept)
            with session.begin(choice.operation, choice.write_id, looked_up=False) as txn:
                plan, replaced = session.plan_overwrite(txn, choice, workload)
                txn.start(planned_partitions(workload, replaced))
                work = WriteWork(
                    spec=session.spec(txn, choice), plan=plan, key_column=rows.key_column
                )
                made = self._run(kept, workload, plan, work)
                return session.commit_replacing(
                    txn,
                    made.stats,
                    choice.schema.avro,
                    replaced,
                    self._forgotten,
                    rings=rings,
                    brought=brought,
                )

    def _forgotten(self, gone: ReplacedKeys) -> Sequence[WriteStat]:
        return forget_keys(self._spark, gone)

    def _run(self, rows: Incoming, workload: Workload, plan: WritePlan, work: WriteWork) -> Written:
        """Run the tasks, and hold what they saw to what was counted."""
        if not workload.rows:
            return Written(stats=(), rows=0, checksum=0)
        frame = for_tasks(rows, assigned(rows, plan.shares))
        parallelism = self._session.options.parallelism
        if parallelism is None and fits_one_task(workload.rows, plan.base_bytes):
            made = run_write_tasks(frame.coalesce(1), replace(work, is_sorted=False))
        else:
            weights = plan.weights(workload, self._session.record_bytes)
            arranged, places = spread(
                frame, weights, workload.rows, cpu_cores(self._spark), parallelism
            )
            made = run_write_tasks(arranged, replace(work, places=places))
        if (made.rows, made.checksum) != (workload.rows, workload.checksum):
            raise _changed(workload.rows, made.rows)
        return made


def committed(
    spark: SparkSession,
    env: Env,
    options: WriteOptions,
    load: Callable[[], TableState],
    write: Callable[[Writer, TableState], Commit],
) -> Commit:
    """Return what a write commits; one that has to give way starts anew, if the options say so.

    `load` gives the table for each attempt.
    """

    def attempt() -> Commit:
        state = load()
        return write(Writer(spark, env, state, options), state)

    return retry_on_conflict(env, options.concurrency.retries, attempt)


def _told(choice: Choice, content: str) -> str | None:
    """Return what the commit says of the rows of a call that may be made again."""
    return None if choice.write_id is None else content


def _keyed(frame: DataFrame, choice: Choice) -> Incoming:
    index = choice.index
    return keyed_rows(
        frame,
        choice.keys,
        columns=choice.columns,
        required=choice.schema.required,
        buckets=(index.hash_fields, index.buckets) if index.is_simple_bucket else None,
    )


@contextmanager
def _persisted(frame: DataFrame) -> Iterator[DataFrame]:
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


@contextmanager
def _kept(rows: Incoming) -> Iterator[Incoming]:
    """Let Spark keep the rows once they were run, so that a second run gives the same."""
    with _persisted(rows.frame) as frame:
        yield rows.with_frame(frame)


def _changed(first: int, then: int) -> InputChangedError:
    return InputChangedError(
        f"the DataFrame gave {first} rows at first, and {then} that were not the same when it was "
        "run again",
        next_step="make it give the same rows each time, such as by writing them to files first; "
        "the table is as it was",
    )


def _on_rings(rows: Incoming, index: Index, rings: Rings) -> Incoming:
    """Return the rows with the file groups of their buckets."""
    rule = RingsOfPartitions(index.hash_fields, rings)
    return rows.with_frame(python_groups(rows.frame, rule))


def _rehashed(rows: Incoming, index: Index) -> Incoming:
    """Return the rows with their buckets as Hudi finds them in the text of their keys."""
    made = python_groups(rows.frame, BucketsOfKeys(index.hash_fields, index.buckets))
    return rows.with_frame(made.withColumn(ODD, F.lit(False)))


def _ranged(frame: DataFrame, tasks: int | None, by: Sequence[str]) -> DataFrame:
    return frame.repartitionByRange(tasks, *by) if tasks else frame.repartitionByRange(*by)


def _hashed(frame: DataFrame, tasks: int | None, by: Sequence[str]) -> DataFrame:
    return frame.repartition(tasks, *by) if tasks else frame.repartition(*by)


def _refuse_misfits(frame: DataFrame, lost: Mapping[str, Column]) -> None:
    """Raise `SchemaError` when a value of some row does not survive in its column."""
    if not lost:
        return
    counts = frame.agg(*(F.count_if(flag).alias(name) for name, flag in lost.items())).collect()[0]
    for name in lost:
        if counts[name]:
            raise bad_rows(f"a value that column {name} does not hold", counts[name])
