"""What every write knows of its table, and the way to its commit; nothing here needs Spark to run.

A session is made from the table as it is at one moment. `choose` decides how rows are understood;
`begin`, `plan` and `commit` are the steps around the tasks that write them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice

from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.config import (
    ConcurrencyMode,
    FailedWritesPolicy,
    IndexType,
    LockKind,
    TableConfig,
    WriteOperation,
    WriteOptions,
    concurrency_keys,
)
from tidelake.config.concurrency_options import merges_schema
from tidelake.engine.avro_types import avro_schema
from tidelake.engine.replaced_keys import ReplacedKeys
from tidelake.engine.staging import delete_leftovers
from tidelake.env import Env
from tidelake.errors import (
    ConfigError,
    CorruptFileError,
    SchemaConflictError,
    SchemaError,
    UnsupportedTableError,
)
from tidelake.files import read_footers, read_slice
from tidelake.files.write_task import ColumnSet, WriteKind, WriteSpec
from tidelake.files.written_keys import shared_keys
from tidelake.formats.commit_metadata import CommitMetadata, WriteStat
from tidelake.formats.hashing_metadata import FOLDER as RINGS
from tidelake.metadata.build import FillIndex
from tidelake.metadata.keeper import KeeperOptions, MetadataTableKeeper
from tidelake.metadata.names import METADATA_FOLDER, RECORD_INDEX
from tidelake.metadata.record_index import RecordIndex, open_record_index
from tidelake.metadata.upkeep import CompactGroups
from tidelake.model import Commit, FileGroupId, FileSlice
from tidelake.read.scan import read_spec, slice_tasks
from tidelake.read.state import TableSchema, TableState
from tidelake.records import META_COLUMNS, Fill, MergeSpec, column_names
from tidelake.records.schema import RECORD_KEY
from tidelake.services.inline import after_write
from tidelake.storage.machine import is_of_this_machine
from tidelake.timeline.table_schema import (
    FIRST_BY_COMPLETION,
    commit_with_schema,
    writes_in_order,
)
from tidelake.txn import MetadataKeeper, Transaction, begin, find_commit
from tidelake.txn.concurrency import Concurrency, SchemaResolver, SharedKeys
from tidelake.txn.locks import choose_kind, open_lock
from tidelake.txn.locks.process import process_name
from tidelake.view import StorageListing, TableView
from tidelake.write.agree import refuse_contradictions
from tidelake.write.groups import LiveGroup, live_groups
from tidelake.write.index import LOOKED_UP_BY, Index, choose_index
from tidelake.write.keys import KeySpec, key_spec, may_be_named
from tidelake.write.operation import (
    action_of,
    combines,
    refuse_keyless,
    refuse_unwritable,
    replaced_ids,
)
from tidelake.write.partial import brought_columns, refuse_partial, refuse_torn_groups
from tidelake.write.plan import NewGroups, Workload, WritePlan, plan_new_files, plan_write
from tidelake.write.ring import Rings, confirm_ring, load_rings, put_ring, renewed, ring_files
from tidelake.write.schema import (
    WriteSchema,
    evolve,
    fixed_columns,
    refuse_other_past,
    without_meta_columns,
)
from tidelake.write.schema_conflict import (
    SchemasClashError,
    differing,
    refuse_hidden,
    resolve,
    same,
    told_changes,
)
from tidelake.write.sharing import refuse_blocking, refuse_unshareable, slot_name
from tidelake.write.sizing import record_size
from tidelake.write.spec import merge_spec, write_spec

_log = logging.getLogger(__name__)

#: Files that are looked into to learn how a table spells or spreads its keys.
_SAMPLED_FILES = 8
_SAMPLED_KEYS = 50
#: Commits that are looked at to learn how large rows are.
_SIZED_COMMITS = 3
_LATEST_SCHEMA = "latest_schema"
#: Operations whose rows have no columns that could differ from the table's.
_WITHOUT_SCHEMA = frozenset({WriteOperation.DELETE, WriteOperation.DELETE_PARTITION})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How the rows of one write are understood."""

    operation: WriteOperation
    schema: WriteSchema
    columns: tuple[str, ...]
    """The columns of the rows that are written; none for a delete."""
    keys: KeySpec
    index: Index
    write_id: str | None
    column_sets: tuple[ColumnSet, ...] = ()
    """What partial rows bring; rows that do not say which set they bring bring the first."""

    @property
    def is_delete(self) -> bool:
        """Return whether the rows bring nothing but keys."""
        return self.operation is WriteOperation.DELETE


class WriteSession:
    """One table, and the options of one write to it."""

    def __init__(
        self,
        env: Env,
        state: TableState,
        options: WriteOptions,
        *,
        compact: Callable[[], None] | None = None,
        compact_groups: CompactGroups | None = None,
        fill_index: FillIndex | None = None,
    ) -> None:
        """Raise `UnsupportedTableError` for a table that tidelake does not write.

        Raises `ConfigError` when `options` contradict the table. `compact` does what they say about
        compactions once a write has committed, `compact_groups` compacts a large metadata table,
        and `fill_index` reads the keys of all rows for a record index.
        """
        refuse_unwritable(state.config)
        refuse_contradictions(state.config, options)
        refuse_unshareable(state.config, options)
        self._compact = compact
        self._compact_groups = compact_groups
        self._fill_index = fill_index
        self.env = env
        self.state = state
        self.options = options

    @property
    def config(self) -> TableConfig:
        """Return the table's settings."""
        return self.state.config

    @cached_property
    def keeper(self) -> MetadataKeeper:
        """Return what keeps the table's metadata table."""
        options = KeeperOptions.from_settings(self.options.settings)
        return MetadataTableKeeper(self.env, options, self._compact_groups, self._fill_index)

    @property
    def expires_ms(self) -> int | None:
        """Return after what silence a clean takes a write for dead; None when it takes none."""
        if self.options.failed_writes is not FailedWritesPolicy.LAZY:
            return None
        return self.options.concurrency.expires_after_ms

    def done_before(self, write_id: str | None) -> Commit | None:
        """Return the commit that an earlier call made under the same idempotence key."""
        if write_id is None:
            return None
        state = self.state
        return find_commit(state.timeline, state.contents, state.history, write_id)

    def choose(
        self,
        operation: WriteOperation,
        schema: T.StructType,
        write_id: str | None,
        *,
        by_key: bool = True,
    ) -> Choice:
        """Return how rows of `schema` are written; raise `SchemaError` when they do not fit.

        Without `by_key` the rows know their file groups already.
        """
        if by_key:
            refuse_keyless(self.config, operation)
        own = [f for f in schema.fields if f.name not in META_COLUMNS]
        is_delete = operation is WriteOperation.DELETE
        index = self._index()
        refuse_blocking(self.options.concurrency.mode, operation, index)
        sets: tuple[ColumnSet, ...] = ()
        if (
            by_key
            and operation is WriteOperation.UPSERT
            and self.options.partial_columns is not None
        ):
            refuse_partial(self.config, self.merge, index)
            names = brought_columns(
                self.config, self.merge, self.options.partial_columns, [f.name for f in own]
            )
            own = [f for f in own if f.name in names]
            sets = (ColumnSet(names=names),)
        fitted = self._fitted(operation, T.StructType(own))
        if not is_delete:
            refuse_torn_groups(self.merge, {f.name for f in own}, set(column_names(fitted.avro)))
        return Choice(
            operation=operation,
            schema=fitted,
            columns=() if is_delete else tuple(f.name for f in own),
            keys=self._keys(),
            index=index,
            write_id=write_id,
            column_sets=sets,
        )

    @cached_property
    def merge(self) -> MergeSpec:
        """Return how records of the table are merged."""
        return merge_spec(self.config, self.options)

    @cached_property
    def stored_schema(self) -> TableSchema | None:
        """Return the table's columns as they are, or None before the first write."""
        if self.config.create_schema is None and not self.state.timeline.writes():
            return None
        return self.state.schema()

    def table_schema(self) -> TableSchema:
        """Return the table's columns as they are; raise `SchemaError` when it has none yet."""
        return self.stored_schema or self.state.schema()

    def _fitted(self, operation: WriteOperation, schema: T.StructType) -> WriteSchema:
        """Return the table's schema after the write."""
        if operation is WriteOperation.DELETE:
            return WriteSchema(avro=without_meta_columns(self.table_schema().avro))
        stored = self.stored_schema
        found = evolve(
            None if stored is None else stored.avro,
            avro_schema(schema, self.config.name),
            fill_missing=self.options.fill_missing_columns
            or self.options.partial_columns is not None
            or self.merge.fill is Fill.IGNORE_DEFAULTS,
            drop_missing=self.options.drop_missing_columns
            and self.options.partial_columns is None
            and not self.config.column_groups,
            fixed=fixed_columns(self.config),
        )
        if found.is_evolved and stored is not None:
            past = (m.schema for m in self._newest_commits() if m.schema)
            refuse_other_past(stored.avro, found.avro, past)
        if operation is WriteOperation.UPSERT:
            for field in self.merge.ordering_fields:
                if field.partition(".")[0] not in schema.names:
                    raise SchemaError(
                        f"the rows have no column {field}, by which the table tells newer rows",
                        next_step=f"add the ordering column {field} to the rows",
                    )
        if found.is_evolved and stored is not None and stored.history is not None:
            raise UnsupportedTableError(
                "the table follows its columns by id, and tidelake does not add or widen columns "
                "of such a table",
                next_step="change the schema with Apache Hudi's ALTER TABLE, then write",
            )
        return found

    def _keys(self) -> KeySpec:
        named = None
        if may_be_named(self.config):
            prefix = f"{self.config.record_key_fields[0]}:"
            named = next((key.startswith(prefix) for _, key in self._sampled_keys()), None)
        return key_spec(self.config, self.options, named_single=named)

    @cached_property
    def record_index(self) -> RecordIndex | None:
        """Return the table's record index as it was when the session began, if it has one."""
        return open_record_index(self.state.storage, self.config, self.state.timeline)

    def _index(self) -> Index:
        file_ids = self._recent_file_ids()
        index = choose_index(
            self.config,
            self.options,
            file_ids=file_ids,
            has_rings=self.state.storage.exists(RINGS),
            sample=self._sampled_keys,
        )
        if index.type is not IndexType.RECORD_INDEX or self.record_index is not None:
            return index
        if file_ids:
            _log.warning(
                "%s has no record index: keys are looked for in every partition",
                self.config.name,
            )
        return replace(index, type=IndexType.GLOBAL_SIMPLE)

    def _recent_file_ids(self) -> frozenset[str]:
        for metadata in self._newest_commits():
            found = frozenset(s.file_id for s in metadata.write_stats if s.file_id)
            if found:
                return found
        return frozenset()

    def _newest_commits(self) -> Iterator[CommitMetadata]:
        for instant in reversed(self.state.writes_by_time()):
            yield self.state.contents.commit_metadata(instant)

    def _sampled_keys(self) -> Iterator[tuple[str, str]]:
        """Return keys of the table with the file ids of their groups."""
        partitions: list[str] = []
        for metadata in self._newest_commits():
            partitions = [p for p, stats in metadata.partition_to_write_stats.items() if stats]
            if partitions:
                break
        slices = self.state.view.latest_slices(partitions)[:_SAMPLED_FILES]
        bases = {s.base_file.path: s for s in slices if s.base_file is not None}
        sizes = {path: s.base_file.size_bytes for path, s in bases.items() if s.base_file}
        for path, footer in read_footers(self.state.storage, sizes).items():
            for key in footer.key_range or ():
                yield bases[path].group.file_id, key
        yield from self._keys_inside(slices)

    def _keys_inside(self, slices: Sequence[FileSlice]) -> Iterator[tuple[str, str]]:
        if not self.config.populate_meta_fields:
            return
        spec = read_spec(self.state, self.table_schema(), (RECORD_KEY,))
        for task in slice_tasks(self.state, slices):
            for batch in islice(read_slice(task, spec), 1):
                for key in batch.column(0).slice(0, _SAMPLED_KEYS).to_pylist():
                    yield task.file_id, key

    @cached_property
    def record_bytes(self) -> int:
        """Return the bytes that a row takes in a base file, as far as earlier commits tell."""
        return record_size(islice(self._newest_commits(), _SIZED_COMMITS), self.options)

    @cached_property
    def concurrency(self) -> Concurrency:
        """Return the rules by which the write shares the table with others."""
        options = self.options.concurrency
        if not options.mode.is_shared:
            return Concurrency(
                slot_name=slot_name,
                max_future_ms=options.max_future_ms,
                writer=process_name(),
                shared_keys=self._shared_keys,
            )
        return Concurrency(
            mode=options.mode,
            lock=open_lock(self.env, options, self.config.name),
            strategy=options.strategy,
            allows_update=options.allows_update or options.mode is ConcurrencyMode.NON_BLOCKING,
            slot_name=slot_name,
            max_skew_ms=min(1, options.max_skew_ms) if self._has_one_clock else options.max_skew_ms,
            max_future_ms=options.max_future_ms,
            heartbeat_ms=options.heartbeat_ms,
            expires_after_ms=options.expires_after_ms,
            writer=process_name(),
            shared_keys=self._shared_keys,
            checks_new_keys=options.checks_new_keys,
            early_period_ms=options.early_period_ms,
            early_commits=options.early_commits,
        )

    @property
    def _has_one_clock(self) -> bool:
        """Return whether all writers of the table go by the same clock, as far as can be told."""
        options = self.options.concurrency
        if choose_kind(self.env, options) is LockKind.IN_PROCESS:
            return True
        folder = self.state.storage.local_path("")
        return not options.is_skew_given and folder is not None and is_of_this_machine(folder)

    @property
    def _shared_keys(self) -> SharedKeys:
        if self.config.populate_meta_fields:
            return partial(shared_keys, self.state.storage)
        if self.options.concurrency.checks_new_keys:
            raise ConfigError(
                f"{concurrency_keys.KEY_CHECK.name} compares the keys in files, and this table "
                "has no meta fields, which hold them",
                next_step="leave it out",
            )
        return lambda _ours, _theirs: ()

    def begin(
        self,
        operation: WriteOperation,
        write_id: str | None,
        *,
        looked_up: bool = True,
        keeps_unique: bool = False,
        is_global: bool = False,
    ) -> Transaction:
        """Put the write on the timeline, once what dead writes laid aside is gone.

        `looked_up` says that file groups were chosen by the table as the session found it, so that
        whatever others completed since then counts as not seen. `keeps_unique` says that no key
        may be twice where the index looks, which is the whole table if it `is_global`.
        """
        delete_leftovers(self.env, older_than_ms=self.options.staging_expiry_ms)
        return begin(
            self.env,
            self.config,
            self.state.timeline,
            action=action_of(operation, self.config.table_type),
            operation=operation.value,
            write_id=write_id,
            roll_back=self.options.failed_writes is FailedWritesPolicy.EAGER,
            use_markers=self.options.rollback_using_markers,
            keeper=self.keeper,
            concurrency=replace(
                self.concurrency,
                checks_new_keys=self.concurrency.checks_new_keys or (keeps_unique and is_global),
                keys_span_partitions=is_global,
            ),
            seen=self.state.timeline if looked_up else None,
        )

    def view(self, txn: Transaction) -> TableView:
        """Return the table's files as they are once failed writes were rolled back."""
        return TableView(
            table_version=txn.config.table_version,
            timeline=txn.timeline,
            contents=self.state.contents,
            listing=StorageListing(self.state.storage),
            history_times=self.state.history.completion_times,
        )

    def live(self, txn: Transaction, partitions: Sequence[str]) -> list[LiveGroup]:
        """Return the file groups of some partitions."""
        return live_groups(self.view(txn), txn.config, partitions)

    def plan(
        self, txn: Transaction, choice: Choice, workload: Workload, *, by_file_id: bool = False
    ) -> WritePlan:
        """Return where the rows of an insert, upsert or delete go."""
        view = self.view(txn)
        live = live_groups(view, txn.config, workload.partitions)
        found = plan_write(
            choice.operation,
            self.config,
            choice.index,
            self.options,
            workload,
            live,
            by_file_id=by_file_id,
            record_bytes=self.record_bytes,
            ids=self.env.ids,
            replaced=_replaced(view) if choice.index.fixed_ids else {},
        )
        txn.refuse_gone(self._gone(view, workload, found))
        if choice.index.type is IndexType.RECORD_INDEX and not by_file_id:
            _refuse_unknown_groups(workload, found)
        self._refuse_clustered(txn, found.touched())
        return found

    def _gone(self, view: TableView, workload: Workload, plan: WritePlan) -> list[FileGroupId]:
        """Return file groups that the session found and that others took off the table since."""
        missing = [
            FileGroupId(partition, group)
            for partition, group in workload.counts
            if group is not None and (partition, group) not in plan.targets
        ]
        if not missing:
            return []
        if plan.new_buckets is not None:
            return [group for group in missing if view.is_replaced(group)]
        partitions = sorted({group.partition for group in missing})
        found = {s.group for s in self.state.view.latest_slices(partitions)}
        return [group for group in missing if group in found]

    def plan_overwrite(
        self, txn: Transaction, choice: Choice, workload: Workload
    ) -> tuple[WritePlan, Mapping[str, Sequence[str]]]:
        """Return where the rows of an overwrite go, and the file ids that give way to them."""
        partitions: Sequence[str] = workload.partitions
        if choice.operation is WriteOperation.INSERT_OVERWRITE_TABLE:
            partitions = self.view(txn).partitions()
        replaced = self.retire(txn, partitions)
        known = frozenset(replaced)
        if choice.index.is_bucket:
            new = NewGroups(kind=WriteKind.CREATE)
            return WritePlan(targets={}, new_buckets=new, known_partitions=known), replaced
        made = plan_new_files(workload, self.options, known, self.record_bytes, self.env.ids)
        return made, replaced

    def rings(self, index: Index, partitions: Sequence[str]) -> Rings:
        """Return the buckets of each partition, under consistent hashing.

        Raises `UnsupportedTableError` when somebody replaced their files without a word to the
        ring: rows that went there would never be read.
        """
        found = self._rings(index, partitions)
        replaced = self.state.view.replacements
        for partition, ring in found.items():
            gone = [i for i in ring_files(ring) if FileGroupId(partition, i) in replaced]
            if gone:
                raise UnsupportedTableError(
                    f"the hash ring of partition {partition!r} names file group {gone[0]}, which "
                    "another writer replaced",
                    next_step="write the whole partition anew with Table.insert_overwrite, which "
                    "makes a new ring; the table is as it was",
                )
        return found

    def _rings(self, index: Index, partitions: Sequence[str]) -> Rings:
        timeline = self.state.timeline
        return load_rings(
            self.state.storage,
            partitions,
            [i.requested_time for i in timeline.writes()],
            index.buckets,
            is_archived=timeline.is_archived,
        )

    def renewed_rings(self, index: Index, partitions: Sequence[str]) -> Rings:
        """Return the buckets of partitions whose file groups are about to be replaced."""
        found = self._rings(index, partitions)
        return {p: renewed(ring, self.env.ids) for p, ring in found.items()}

    def retire(self, txn: Transaction, partitions: Sequence[str]) -> Mapping[str, list[str]]:
        """Return every file id of the partitions; raise when a clustering is moving their rows."""
        live = [g.id for g in self.live(txn, partitions)]
        self._refuse_clustered(txn, live)
        return replaced_ids([(group.partition, group.file_id) for group in live])

    def _refuse_clustered(self, txn: Transaction, groups: Iterable[FileGroupId]) -> None:
        if not self.concurrency.allows_update:  # or else the clustering gives way
            txn.refuse_clustered(groups)

    def replaced_keys(
        self,
        txn: Transaction,
        stats: Iterable[WriteStat],
        replaced: Mapping[str, Sequence[str]],
    ) -> ReplacedKeys | None:
        """Return the keys in file groups that give way, where the record index has to forget them.

        `stats` name what the write has put into the index already.
        """
        target = self.keeper.index_target(txn.config, txn.instant_time)
        if target is None:
            return None
        index = open_record_index(self.state.storage, txn.config, txn.timeline)
        if index is None:
            return None
        return ReplacedKeys(
            index=index,
            written=index.of_logs(stat.path for stat in stats if stat.is_index and stat.path),
            target=target,
            storage=self.state.storage.spec,
            groups=frozenset(FileGroupId(p, one) for p, ids in replaced.items() for one in ids),
        )

    def spec(self, txn: Transaction, choice: Choice) -> WriteSpec:
        """Return how the tasks of the write lay down rows."""
        stored = self.stored_schema
        return write_spec(
            txn.config,
            self.options,
            self.state.storage.spec,
            schema=self._schemas_at_begin(txn, choice.schema.avro)[1],
            history=None if stored is None else stored.history,
            instant_time=txn.instant_time,
            marker_folder=txn.marker_folder,
            combine=combines(choice.operation, choice.index, self.options),
            column_sets=choice.column_sets,
            bounded_columns=self.keeper.bounded_columns(txn.config),
            record_index=self.keeper.index_target(txn.config, txn.instant_time),
        )

    def commit(
        self,
        txn: Transaction,
        stats: Sequence[WriteStat],
        avro: str,
        *,
        replaced: Mapping[str, Sequence[str]] | None = None,
        forgets_replaced: bool = False,
        rings: Rings | None = None,
    ) -> Commit:
        """Make what was written part of the table, and run the services that are due then.

        `forgets_replaced` says that `stats` name what takes the keys of `replaced` out of the
        record index. `rings` are new ones of partitions that were replaced; all others that were
        get theirs here.
        """
        storage = self.state.storage
        new_rings = dict(rings or {})
        if replaced and storage.exists(RINGS):
            others = [partition for partition in replaced if partition not in new_rings]
            new_rings.update(self.renewed_rings(self._index(), others))
        for ring in new_rings.values():
            put_ring(storage, ring, txn.instant_time)
        start, avro = self._schemas_at_begin(txn, avro)
        commit = txn.commit(
            stats,
            schema=avro,
            replaced=replaced,
            forgets_replaced=forgets_replaced,
            extra=self._extra(),
            resolve_schema=self._resolver(txn, start, avro)
            if self.options.concurrency.checks_schema
            else None,
        )
        for partition in new_rings:
            confirm_ring(storage, partition, txn.instant_time)
        if self._compact is not None:
            self._compact()
        after_write(
            self.env,
            txn.timeline,
            self.options.services,
            self.keeper,
            expires_ms=self.expires_ms,
            concurrency=self.concurrency,
        )
        return commit

    def _schemas_at_begin(self, txn: Transaction, writer: str) -> tuple[str | None, str]:
        """Return the table's schema as the write began, and the one to write with.

        Others may have changed the table's since the session looked at it. Base files that are
        written anew then hold columns that the rows of this write do not have, and keep them.
        """
        stored = self.stored_schema
        start = None if stored is None else without_meta_columns(stored.avro)
        known = {i.requested_time for i in self.state.timeline.writes()}
        writes = writes_in_order(txn.config, txn.timeline)
        is_new = any(i.requested_time not in known for i in writes)
        if not (is_new and self.options.concurrency.checks_schema):
            return start, writer
        found = commit_with_schema(writes, self.state.contents)
        if found is None:
            return start, writer
        by, now = found[0].requested_time, without_meta_columns(found[1])
        if stored is not None and stored.history is not None and not same(stored.avro, now):
            clash = SchemasClashError(
                6,
                "another write changed the schema of a table that follows its columns by id",
                differing(stored.avro, now),
            )
            raise _schema_conflict(txn, clash, start, now, by, writer)
        return now, self._resolver(txn, start, writer)(now, by)

    def _resolver(self, txn: Transaction, start: str | None, writer: str) -> SchemaResolver:
        def resolve_now(now: str | None, by: str) -> str:
            if txn.operation in _WITHOUT_SCHEMA:
                return writer if now is None else without_meta_columns(now)
            current = None if now is None else without_meta_columns(now)
            try:
                made = resolve(start, current, writer, merges=self._merges_schema)
                if current is not None and self._is_hidden_behind(txn, by):
                    refuse_hidden(current, made)
            except SchemasClashError as clash:
                raise _schema_conflict(txn, clash, start, current, by, writer) from clash
            return made

        return resolve_now

    @property
    def _merges_schema(self) -> bool:
        """Return whether columns that others added may stand beside ours.

        A writer that never gives way writes whole rows under keys that others changed, too: columns
        that it does not know would become null, unless what is absent keeps its value.
        """
        merges = self.options.concurrency.merges_schema
        if merges is None:
            merges = merges_schema(self.config.properties)
        if self.options.concurrency.mode is not ConcurrencyMode.NON_BLOCKING:
            return merges
        keeps_absent = self.options.partial_columns is not None or self.merge.fill is not Fill.NONE
        return merges and keeps_absent

    def _is_hidden_behind(self, txn: Transaction, newest: str) -> bool:
        """Return whether readers take the table's schema from another commit than this one."""
        return self.config.table_version < FIRST_BY_COMPLETION and newest > txn.instant_time

    def _extra(self) -> dict[str, str]:
        found = dict(self.options.commit_metadata)
        if self.options.index_type is IndexType.RECORD_INDEX:
            found[LOOKED_UP_BY] = self.options.index_type.value
        stored = self.stored_schema
        if stored is not None and stored.history is not None:
            # Readers that follow columns by id look for this in the newest commit.
            for metadata in self._newest_commits():
                latest = metadata.extra_metadata.get(_LATEST_SCHEMA)
                if latest:
                    found[_LATEST_SCHEMA] = latest
                    break
        return found


def _schema_conflict(
    txn: Transaction,
    clash: SchemasClashError,
    start: str | None,
    now: str | None,
    by: str,
    writer: str,
) -> SchemaConflictError:
    return SchemaConflictError(
        ours=txn.instant_time,
        theirs=by,
        overlap=clash.columns,
        rule=str(clash),
        facts={
            "case of RFC-82": str(clash.case),
            **_told_changes(start, now, writer),
            "schema at the start": start or "none",
            "schema now": now or "none",
            "schema of this write": writer,
        },
        next_step="run the write again: it starts from the schema as it is now; "
        "hoodie.write.num.retries.on.conflict.failures does so by itself",
    )


def _told_changes(start: str | None, now: str | None, writer: str) -> dict[str, str]:
    if now is None:
        return {}
    if start is None:
        return {"this write differs": told_changes(now, writer)}
    return {
        "the other changed": told_changes(start, now),
        "this write changed": told_changes(start, writer),
    }


def _refuse_unknown_groups(workload: Workload, plan: WritePlan) -> None:
    for partition, group in workload.counts:
        if group is not None and (partition, group) not in plan.targets:
            raise CorruptFileError(
                f"{METADATA_FOLDER}/{RECORD_INDEX}",
                f"it says that keys are in file group {group} of partition {partition!r}, which "
                "the table does not have",
                next_step="write with another hoodie.index.type, and tidelake.metadata.rebuild=true"
                " to build the metadata table anew; the table is as it was",
            )


def _replaced(view: TableView) -> dict[FileGroupId, str]:
    found = view.replacements.items()
    return {group: max(one.requested_time for one in ones) for group, ones in found}
