"""A write from rows to commit.

Rows are run once to be counted, and kept by Spark for the second run, in which tasks write them:
the first run says which partitions and file groups are touched, finds rows that may not be written,
and gives a checksum to which the second is held. Nothing of the table changes before it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tidelake.config import (
    DuplicatePolicy,
    SortMode,
    TableConfig,
    WriteOperation,
    WriteOptions,
)
from tidelake.engine.avro_types import avro_schema
from tidelake.engine.incoming_rows import (
    GROUP,
    Incoming,
    assigned,
    count_rows,
    for_tasks,
    keyed_rows,
    read_rows,
    refuse_bad_rows,
    user_columns,
)
from tidelake.engine.index_lookup import Lookup, tagged, tagged_globally
from tidelake.engine.key_columns import KeyColumns, bucket
from tidelake.engine.placement import fits_one_task, spread
from tidelake.engine.rings import ring_groups
from tidelake.engine.write_tasks import WriteWork, Written, written
from tidelake.env import Env
from tidelake.errors import InputChangedError, SchemaError, UnsupportedTableError
from tidelake.files import ReadSpec, read_footers, read_slice
from tidelake.files.write_task import WriteKind, WriteSpec
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.formats.hashing_metadata import FOLDER as RINGS
from tidelake.model import Commit, FileSlice, MergeMode
from tidelake.read.scan import read_spec, slice_tasks
from tidelake.read.state import TableSchema, TableState
from tidelake.records.schema import PARTITION_PATH, RECORD_KEY
from tidelake.txn import Transaction, begin, find_commit
from tidelake.view import StorageListing, TableView
from tidelake.write.agree import refuse_contradictions
from tidelake.write.groups import LiveGroup, clustered_groups, live_groups, refuse_clustered
from tidelake.write.index import Index, choose_index
from tidelake.write.keys import KeySpec, key_spec, may_be_named
from tidelake.write.operation import (
    REPLACING,
    action_of,
    combines,
    planned_stats,
    refuse_keyless,
    refuse_unwritable,
    replaced_ids,
)
from tidelake.write.partitions import named_partitions
from tidelake.write.plan import NewGroups, Workload, WritePlan, plan_new_files, plan_write
from tidelake.write.ring import load_ring
from tidelake.write.schema import WriteSchema, evolve
from tidelake.write.sizing import record_size
from tidelake.write.spec import merge_spec, write_spec

#: Keys that are looked at to learn how a table spells or spreads them.
_SAMPLED_FILES = 8
#: Commits that are looked at to learn how large rows are.
_SIZED_COMMITS = 3
_UNKNOWN_CORES = 16
_LATEST_SCHEMA = "latest_schema"


@dataclass(frozen=True, slots=True)
class _Write:
    """One write of rows by their keys."""

    operation: WriteOperation
    index: Index
    schema: WriteSchema
    keys: KeySpec
    write_id: str | None


class Writer:
    """Writes to one table, as it is when the writer is made."""

    def __init__(
        self, spark: SparkSession, env: Env, state: TableState, options: WriteOptions
    ) -> None:
        """Raise `ConfigError` when `options` contradict the table."""
        refuse_contradictions(state.config, options)
        self._spark = spark
        self._env = env
        self._state = state
        self._options = options

    def write(
        self, operation: WriteOperation, frame: DataFrame, write_id: str | None = None
    ) -> Commit:
        """Insert, upsert, delete or overwrite with the rows of a DataFrame."""
        refuse_unwritable(self._config, operation)
        refuse_keyless(self._config, operation)
        done = self._done_before(write_id)
        if done is not None:
            return done
        schema, columns = self._fitted(operation, frame)
        keys = self._keys()
        index = self._index()
        is_bulk = operation is WriteOperation.BULK_INSERT
        if is_bulk and not index.is_bucket and not self._options.combine_before_insert:
            rows = keyed_rows(frame, keys, columns=columns, required=schema.required)
            return self._bulk(rows, schema, write_id)
        made = KeyColumns(self._spark, keys, frame.schema)
        group = self._bucket_column(made, index) if index.is_bucket and not index.is_ring else None
        rows = keyed_rows(
            frame, keys, columns=columns, required=schema.required, group=group, keys=made
        )
        write = _Write(operation, index, schema, keys, write_id)
        if operation in REPLACING:
            return self._overwrite(rows, write)
        return self._change(rows, write)

    def delete_read(self, frame: DataFrame, write_id: str | None = None) -> Commit:
        """Delete rows that were read from the table with their meta columns."""
        return self._change_read(WriteOperation.DELETE, frame, (), write_id)

    def update_read(
        self, frame: DataFrame, values: Mapping[str, Column], write_id: str | None = None
    ) -> Commit:
        """Give columns of rows that were read from the table, with their meta columns, new values.

        Raises `SchemaError` when a column is unknown or part of the key or the partition path.
        """
        columns = user_columns(frame)
        fixed = {
            *self._config.record_key_fields,
            *self._config.partition_fields,
        }
        for name in values:
            if name not in columns:
                raise SchemaError(
                    f"the table has no column {name}",
                    next_step=f"its columns are {', '.join(columns)}",
                )
            if name in fixed:
                raise SchemaError(
                    f"{name} is part of the record key or the partition path, which an update "
                    "leaves as they are",
                    next_step="delete the rows and insert them anew",
                )
        kinds = {f.name: f.dataType for f in frame.schema.fields}
        made = frame.withColumns({n: v.cast(kinds[n]) for n, v in values.items()})
        return self._change_read(WriteOperation.UPSERT, made, columns, write_id)

    def delete_partitions(self, wanted: Sequence[str], write_id: str | None = None) -> Commit:
        """Retire every file group of the partitions; raise `ConfigError` for one that is not."""
        operation = WriteOperation.DELETE_PARTITION
        refuse_unwritable(self._config, operation)
        done = self._done_before(write_id)
        if done is not None:
            return done
        chosen = named_partitions(self._config, wanted, self._state.view.partitions())
        schema = self._table_schema()
        with self._begin(operation, write_id) as txn:
            live = self._live(txn, chosen)
            self._refuse_clustered(live)
            txn.start()
            return txn.commit(
                (),
                schema=schema.avro,
                replaced={**{p: [] for p in chosen}, **_file_ids(live)},
                extra=self._extra(),
            )

    # From counted rows to a commit.

    def _bulk(self, rows: Incoming, schema: WriteSchema, write_id: str | None) -> Commit:
        """Write rows to new file groups in one run, without counting them first."""
        refuse_bad_rows(rows)
        frame = rows.frame
        mode = self._options.sort_mode
        tasks = self._options.bulk_parallelism
        is_sorted = not self._config.partition_fields
        by_partition = [PARTITION_PATH] if self._config.partition_fields else []
        if mode is SortMode.GLOBAL_SORT:
            by = [*by_partition, RECORD_KEY]
            frame = frame.repartitionByRange(tasks, *by) if tasks else frame.repartitionByRange(*by)
        elif mode in (
            SortMode.PARTITION_PATH_REPARTITION,
            SortMode.PARTITION_PATH_REPARTITION_AND_SORT,
        ):
            by = by_partition or [RECORD_KEY]
            frame = frame.repartition(tasks, *by) if tasks else frame.repartition(*by)
        if mode in (
            SortMode.GLOBAL_SORT,
            SortMode.PARTITION_SORT,
            SortMode.PARTITION_PATH_REPARTITION_AND_SORT,
        ):
            frame = frame.sortWithinPartitions(*by_partition, RECORD_KEY)
            is_sorted = True
        with self._begin(WriteOperation.BULK_INSERT, write_id) as txn:
            txn.start()
            work = WriteWork(
                spec=self._spec(txn, schema, combine=False), plan=None, is_sorted=is_sorted
            )
            made = written(for_tasks(rows, frame), work)
            return self._commit(txn, made, schema)

    def _change(self, rows: Incoming, write: _Write) -> Commit:
        """Write rows to the file groups that hold, or are to hold, their keys."""
        with _kept(rows) as kept:
            if write.index.is_ring:
                found = self._on_rings(kept, write.index)
            elif not write.index.is_bucket and self._needs_lookup(write):
                found = self._looked_up(kept, write)
            else:
                return self._counted(kept, write)
            with _kept(found) as looked_up:
                return self._counted(looked_up, write)

    def _needs_lookup(self, write: _Write) -> bool:
        if write.operation in (WriteOperation.UPSERT, WriteOperation.DELETE):
            return True
        return self._options.insert_duplicates is not DuplicatePolicy.NONE

    def _looked_up(self, rows: Incoming, write: _Write) -> Incoming:
        """Return the rows with the file groups in which their keys are."""
        is_global = write.index.type.is_global
        is_delete = write.operation is WriteOperation.DELETE
        view = self._state.view
        partitions = list(view.partitions()) if is_global else count_rows(rows).partitions
        merge = merge_spec(self._config, self._options)
        moves = is_global and write.index.moves_partition and not is_delete
        lookup = Lookup(
            spark=self._spark,
            state=self._state,
            schema=self._table_schema(),
            keys=write.keys,
            merge=merge,
            with_ordering=moves and merge.mode is MergeMode.EVENT_TIME,
        )
        known = lookup.known(live_groups(view, self._config, partitions))
        if is_global:
            found = tagged_globally(
                rows,
                known,
                merge,
                moves_partition=write.index.moves_partition,
                is_delete=is_delete,
            )
        else:
            found = tagged(rows, known)
        if is_delete:
            return found.with_frame(found.frame.where(F.col(GROUP).isNotNull()))
        if write.operation is WriteOperation.UPSERT:
            return found
        return self._without_duplicates(found)

    def _without_duplicates(self, rows: Incoming) -> Incoming:
        known = F.col(GROUP).isNotNull()
        if self._options.insert_duplicates is DuplicatePolicy.FAIL:
            twice = rows.frame.groupBy(RECORD_KEY, PARTITION_PATH).count().where("count > 1")
            clash = rows.frame.where(known).select(RECORD_KEY).limit(1).collect()
            clash = clash or twice.select(RECORD_KEY).limit(1).collect()
            if clash:
                raise SchemaError(
                    f"key {clash[0][0]!r} is in the table already, or comes twice in the insert",
                    next_step="use upsert, or leave such rows out with "
                    "hoodie.datasource.insert.dup.policy=drop; nothing was written",
                )
        return rows.with_frame(rows.frame.where(~known))

    def _on_rings(self, rows: Incoming, index: Index) -> Incoming:
        completed = [i.requested_time for i in self._state.timeline.writes()]
        rings = {
            partition: load_ring(self._state.storage, partition, completed, index.buckets)
            for partition in count_rows(rows).partitions
        }
        return rows.with_frame(ring_groups(rows.frame, rings, index.hash_fields))

    def _counted(self, rows: Incoming, write: _Write, *, by_file_id: bool = False) -> Commit:
        workload = count_rows(rows)
        with self._begin(write.operation, write.write_id) as txn:
            live = self._live(txn, workload.partitions)
            plan = plan_write(
                write.operation,
                self._config,
                write.index,
                self._options,
                workload,
                live,
                by_file_id=by_file_id,
                record_bytes=self._record_bytes(),
                ids=self._env.ids,
            )
            touched = set(plan.touched())
            self._refuse_clustered([g for g in live if g.id in touched])
            txn.start(planned_stats(workload, plan))
            spec = self._spec(
                txn,
                write.schema,
                combine=combines(write.operation, write.index, self._options),
            )
            is_delete = write.operation is WriteOperation.DELETE
            made = self._run(
                rows, workload, plan, WriteWork(spec=spec, plan=plan, is_delete=is_delete)
            )
            return self._commit(txn, made, write.schema)

    def _change_read(
        self,
        operation: WriteOperation,
        frame: DataFrame,
        columns: Sequence[str],
        write_id: str | None,
    ) -> Commit:
        refuse_unwritable(self._config, operation)
        done = self._done_before(write_id)
        if done is not None:
            return done
        schema, _ = self._fitted(operation, frame.select(*map(_quoted, columns)))
        if not self._config.populate_meta_fields:
            return self._write_by_key(operation, frame, write_id)
        rows = read_rows(frame, columns)
        rows = replace(
            rows,
            bad={
                f"null in {name}, which the table requires": F.col(_quoted(name)).isNull()
                for name in schema.required
            },
        )
        write = _Write(operation, self._index(), schema, self._keys(), write_id)
        with _kept(rows) as kept:
            return self._counted(kept, write, by_file_id=True)

    def _write_by_key(
        self, operation: WriteOperation, frame: DataFrame, write_id: str | None
    ) -> Commit:
        return self.write(operation, frame.select(*map(_quoted, user_columns(frame))), write_id)

    def _overwrite(self, rows: Incoming, write: _Write) -> Commit:
        with _kept(rows) as kept:
            workload = count_rows(kept)
            with self._begin(write.operation, write.write_id) as txn:
                partitions: Sequence[str] = workload.partitions
                if write.operation is WriteOperation.INSERT_OVERWRITE_TABLE:
                    partitions = self._view(txn).partitions()
                live = self._live(txn, partitions)
                self._refuse_clustered(live)
                known = frozenset(g.id.partition for g in live)
                if write.index.is_bucket:
                    plan = WritePlan(
                        targets={},
                        new_buckets=NewGroups(kind=WriteKind.CREATE),
                        known_partitions=known,
                    )
                else:
                    plan = plan_new_files(
                        workload, self._options, known, self._record_bytes(), self._env.ids
                    )
                txn.start()
                combine = combines(write.operation, write.index, self._options)
                work = WriteWork(spec=self._spec(txn, write.schema, combine=combine), plan=plan)
                made = self._run(kept, workload, plan, work)
                return self._commit(txn, made, write.schema, replaced=_file_ids(live))

    def _run(self, rows: Incoming, workload: Workload, plan: WritePlan, work: WriteWork) -> Written:
        """Run the tasks, and hold what they saw to what was counted."""
        if not workload.rows:
            return Written(stats=(), rows=0, checksum=0)
        frame = for_tasks(rows, assigned(rows, plan.shares))
        parallelism = self._options.parallelism
        if fits_one_task(workload.rows, plan.base_bytes) and parallelism is None:
            made = written(frame.coalesce(1), replace(work, is_sorted=False))
        else:
            weights = _weights(workload, plan, self._record_bytes())
            arranged = spread(frame, weights, workload.rows, self._cores(), parallelism)
            made = written(arranged, work)
        if (made.rows, made.checksum) != (workload.rows, workload.checksum):
            raise InputChangedError(
                f"the DataFrame gave {workload.rows} rows at first and {made.rows} others when "
                "they were written",
                next_step="make it give the same rows each time, such as by writing them to files "
                "first; nothing was written",
            )
        return made

    # What the table is, and what the write knows of it.

    @property
    def _config(self) -> TableConfig:
        return self._state.config

    @cached_property
    def _stored_schema(self) -> TableSchema | None:
        state = self._state
        if state.config.create_schema is None and not state.timeline.writes():
            return None
        return state.schema()

    def _table_schema(self) -> TableSchema:
        if self._stored_schema is None:
            return self._state.schema()
        return self._stored_schema

    def _fitted(
        self, operation: WriteOperation, frame: DataFrame
    ) -> tuple[WriteSchema, Sequence[str]]:
        """Return the table's schema after the write, and the columns to write."""
        columns = user_columns(frame)
        if operation is WriteOperation.DELETE:
            return WriteSchema(avro=self._table_schema().avro), ()
        incoming = avro_schema(frame.select(*map(_quoted, columns)).schema, self._config.name)
        stored = self._stored_schema
        found = evolve(
            None if stored is None else stored.avro,
            incoming,
            fill_missing=self._options.fill_missing_columns,
        )
        self._refuse_missing_ordering(operation, columns)
        if found.is_evolved and stored is not None and stored.history is not None:
            raise UnsupportedTableError(
                "the table follows its columns by id, and tidelake does not add or widen columns "
                "of such a table",
                next_step="change the schema with Apache Hudi's ALTER TABLE, then write",
            )
        return found, columns

    def _refuse_missing_ordering(self, operation: WriteOperation, columns: Sequence[str]) -> None:
        if operation is not WriteOperation.UPSERT:
            return
        merge = merge_spec(self._config, self._options)
        for field in merge.ordering_fields:
            if field.partition(".")[0] not in columns:
                raise SchemaError(
                    f"the rows have no column {field}, by which the table tells newer rows",
                    next_step=f"add the ordering column {field} to the rows",
                )

    def _keys(self) -> KeySpec:
        named = None
        if may_be_named(self._config):
            field = self._config.record_key_fields[0]
            named = next((k.startswith(f"{field}:") for _, k in self._sampled_keys()), None)
        return key_spec(self._config, self._options, named_single=named)

    def _index(self) -> Index:
        return choose_index(
            self._config,
            self._options,
            file_ids=self._recent_file_ids(),
            has_rings=self._state.storage.exists(RINGS),
            sample=self._sampled_keys,
        )

    def _recent_file_ids(self) -> frozenset[str]:
        for metadata in self._newest_commits():
            found = frozenset(s.file_id for s in metadata.write_stats if s.file_id)
            if found:
                return found
        return frozenset()

    def _newest_commits(self) -> Iterator[CommitMetadata]:
        for instant in reversed(self._state.writes_by_time()):
            yield self._state.contents.commit_metadata(instant)

    def _sampled_keys(self) -> Iterator[tuple[str, str]]:
        """Return keys of the table with the file ids of their groups."""
        partitions: list[str] = []
        for metadata in self._newest_commits():
            partitions = [p for p, stats in metadata.partition_to_write_stats.items() if stats]
            if partitions:
                break
        slices = self._state.view.latest_slices(partitions[:4])[:_SAMPLED_FILES]
        bases = {s.base_file.path: s for s in slices if s.base_file is not None}
        sizes = {path: s.base_file.size_bytes for path, s in bases.items() if s.base_file}
        for path, footer in read_footers(self._state.storage, sizes).items():
            for key in footer.key_range or ():
                yield bases[path].group.file_id, key
        yield from self._keys_inside(slices)

    def _keys_inside(self, slices: Sequence[FileSlice]) -> Iterator[tuple[str, str]]:
        if not self._config.populate_meta_fields:
            return
        spec: ReadSpec = read_spec(self._state, self._table_schema(), (RECORD_KEY,))
        for task in slice_tasks(self._state, slices[:2]):
            for batch in read_slice(task, spec):
                for key in batch.column(0).slice(0, 50).to_pylist():
                    yield task.file_id, key
                break

    def _bucket_column(self, keys: KeyColumns, index: Index) -> Column:
        number = bucket(keys.hashed_parts(index.hash_fields), index.buckets)
        return F.lpad(number.cast("string"), 8, "0")

    def _record_bytes(self) -> int:
        newest = (m for m, _ in zip(self._newest_commits(), range(_SIZED_COMMITS), strict=False))
        return record_size(newest, self._options)

    def _cores(self) -> int:
        try:
            return self._spark.sparkContext.defaultParallelism
        except (AttributeError, PySparkException):
            return _UNKNOWN_CORES  # Spark Connect has no context to ask.

    # The transaction.

    def _done_before(self, write_id: str | None) -> Commit | None:
        if write_id is None:
            return None
        return find_commit(self._state.timeline, self._state.contents, write_id)

    def _begin(self, operation: WriteOperation, write_id: str | None) -> Transaction:
        return begin(
            self._env,
            self._config,
            self._state.timeline,
            action=action_of(operation, self._config.table_type),
            operation=operation.value,
            write_id=write_id,
        )

    def _view(self, txn: Transaction) -> TableView:
        return TableView(
            table_version=txn.config.table_version,
            timeline=txn.timeline,
            contents=self._state.contents,
            listing=StorageListing(self._state.storage),
            history_times=self._state.history.completion_times,
        )

    def _live(self, txn: Transaction, partitions: Sequence[str]) -> list[LiveGroup]:
        return live_groups(self._view(txn), txn.config, partitions)

    def _refuse_clustered(self, groups: Iterable[LiveGroup]) -> None:
        clustered = clustered_groups(self._state.timeline, self._state.contents)
        if clustered:
            refuse_clustered([g.id for g in groups], clustered)

    def _spec(self, txn: Transaction, schema: WriteSchema, *, combine: bool) -> WriteSpec:
        stored = self._stored_schema
        return write_spec(
            txn.config,
            self._options,
            self._state.storage.spec,
            schema=schema.avro,
            history=None if stored is None else stored.history,
            instant_time=txn.instant_time,
            marker_folder=txn.marker_folder,
            combine=combine,
        )

    def _commit(
        self,
        txn: Transaction,
        made: Written,
        schema: WriteSchema,
        *,
        replaced: Mapping[str, Sequence[str]] | None = None,
    ) -> Commit:
        return txn.commit(made.stats, schema=schema.avro, replaced=replaced, extra=self._extra())

    def _extra(self) -> dict[str, str]:
        found = dict(self._options.commit_metadata)
        stored = self._stored_schema
        if stored is not None and stored.history is not None:
            for metadata in self._newest_commits():
                latest = metadata.extra_metadata.get(_LATEST_SCHEMA)
                if latest:
                    found[_LATEST_SCHEMA] = latest
                    break
        return found


@contextmanager
def _kept(rows: Incoming) -> Iterator[Incoming]:
    """Let Spark keep the rows once they were run, so that a second run gives the same."""
    frame = rows.frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield rows.with_frame(frame)
    finally:
        frame.unpersist()


def _weights(workload: Workload, plan: WritePlan, record_bytes: int) -> dict[tuple[str, str], int]:
    """Return how much work each group is: its rows, and the base file to write anew."""
    found: dict[tuple[str, str], int] = {}
    for (partition, group), rows in workload.counts.items():
        if group is not None:
            found[partition, group] = rows * record_bytes
    for partition, shares in plan.shares.items():
        for share in shares:
            at = (partition, share.file_id)
            found[at] = found.get(at, 0) + share.rows * record_bytes
    for at, size_bytes in plan.rewritten_bytes.items():
        found[at] = found.get(at, 0) + size_bytes
    return found


def _file_ids(groups: Iterable[LiveGroup]) -> Mapping[str, list[str]]:
    return replaced_ids([(g.id.partition, g.id.file_id) for g in groups])


def _quoted(name: str) -> str:
    return f"`{name}`"
