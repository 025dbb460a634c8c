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

from tidelake.config import (
    ConcurrencyMode,
    FailedWritesPolicy,
    IndexType,
    LockKind,
    TableConfig,
    WriteOperation,
    WriteOptions,
)
from tidelake.config.keys import concurrency_keys
from tidelake.env import Env
from tidelake.errors import (
    ConfigError,
    CorruptFileError,
    SnapshotLostError,
    UnsupportedTableError,
)
from tidelake.files.write_task import ColumnSet, WriteKind, WriteSpec
from tidelake.files.written_keys import shared_keys
from tidelake.formats.commit_metadata import WRITE_ROWS, WriteStat
from tidelake.formats.hashing_metadata import FOLDER as RINGS
from tidelake.formats.table_schema import column_names
from tidelake.metadata.build import FillIndex
from tidelake.metadata.keeper import KeeperOptions, MetadataTableKeeper
from tidelake.metadata.names import METADATA_FOLDER, RECORD_INDEX
from tidelake.metadata.record_index import RecordIndex, open_record_index
from tidelake.metadata.upkeep import CompactGroups
from tidelake.model import Commit, FileGroupId
from tidelake.operations.replaced_keys import ReplacedKeys
from tidelake.operations.staging import STAGING_ROOT, delete_leftovers
from tidelake.operations.table_samples import newest_commits, recent_file_ids, sampled_keys
from tidelake.operations.write_schemas import RowColumns, WriteSchemas
from tidelake.records import META_COLUMNS, MergeSpec
from tidelake.services.done_log import log_commit
from tidelake.services.inline import after_write
from tidelake.state.table_state import TableState
from tidelake.storage.machine import is_of_this_machine
from tidelake.timeline import reload_timeline
from tidelake.txn import MetadataKeeper, Transaction, begin, find_commit
from tidelake.txn.concurrency import Concurrency, SharedKeys
from tidelake.txn.conflicts.candidates import clustered_groups
from tidelake.txn.locks import TableLock, choose_kind, open_lock
from tidelake.txn.locks.process import process_name
from tidelake.view import KnownFiles, StorageListing, TableView, refuse_missing_files
from tidelake.write.agree import refuse_contradictions
from tidelake.write.groups import LiveGroup, live_groups
from tidelake.write.index import LOOKED_UP_BY, Index, choose_index, looks_bucketed
from tidelake.write.key_spec import KeySpec, key_spec, may_be_named
from tidelake.write.lost_files import refuse_hiding
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
from tidelake.write.schema_evolution import (
    WriteSchema,
)
from tidelake.write.sharing import (
    refuse_blocking,
    refuse_unshareable,
    slot_name,
    takes_non_blocking,
)
from tidelake.write.sizing import record_size
from tidelake.write.spec import merge_spec, write_spec

_log = logging.getLogger(__name__)

#: Commits that are looked at to learn how large rows are.
_SIZED_COMMITS = 3
_LATEST_SCHEMA = "latest_schema"


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

    @property
    def moves_partition(self) -> bool:
        """Return whether a key that arrives with another partition goes there.

        An insert leaves rows of keys alone that the table has, wherever they are.
        """
        return self.operation is WriteOperation.UPSERT and self.index.moves_partition


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
        lock: TableLock | None = None,
    ) -> None:
        """Raise `UnsupportedTableError` for a table that tidelake does not write.

        Raises `ConfigError` when `options` contradict the table. `compact` does what they say about
        compactions once a write has committed, `compact_groups` compacts a large metadata table,
        and `fill_index` reads the keys of all rows for a record index. `lock` is the table's, for
        who has opened it already.
        """
        refuse_unwritable(state.config)
        refuse_contradictions(state.config, options)
        refuse_unshareable(state.config, options)
        self._compact = compact
        self._compact_groups = compact_groups
        self._fill_index = fill_index
        self._began_ms = env.clock.now_ms()
        self._lock = lock
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
        columns: RowColumns,
        write_id: str | None,
        *,
        by_key: bool = True,
    ) -> Choice:
        """Return how rows of `columns` are written; raise `SchemaError` when they do not fit.

        Without `by_key` the rows know their file groups already.
        """
        if by_key:
            refuse_keyless(self.config, operation)
            self.schemas.refuse_other_spelling(columns)
        own = [name for name in columns.names if name not in META_COLUMNS]
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
            names = brought_columns(self.config, self.merge, self.options.partial_columns, own)
            own = [name for name in own if name in names]
            sets = (ColumnSet(names=names),)
        fitted = self.schemas.fitted(operation, columns.only(own))
        if not is_delete:
            refuse_torn_groups(self.merge, set(own), set(column_names(fitted.avro)))
        return Choice(
            operation=operation,
            schema=fitted,
            columns=() if is_delete else tuple(own),
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
    def schemas(self) -> WriteSchemas:
        """Return what the table's columns are, and what they become."""
        return WriteSchemas(self.state, self.options, self.merge)

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
        file_ids = recent_file_ids(self.state)
        index = choose_index(
            self.config,
            self.options,
            file_ids=file_ids,
            has_rings=self.state.timeline.may_have(RINGS) and self.state.storage.exists(RINGS),
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

    def _sampled_keys(self) -> Iterator[tuple[str, str]]:
        return sampled_keys(self.state, self.schemas.table)

    @cached_property
    def record_bytes(self) -> int:
        """Return the bytes that a row takes in a base file, as far as earlier commits tell."""
        return record_size(islice(newest_commits(self.state), _SIZED_COMMITS), self.options)

    @cached_property
    def concurrency(self) -> Concurrency:
        """Return the rules by which the write shares the table with others."""
        options = self.options.concurrency
        if not options.mode.is_shared:
            return Concurrency(
                slot_name=slot_name,
                max_future_ms=options.max_future_ms,
                heartbeat_ms=options.heartbeat_ms,
                expires_after_ms=options.expires_after_ms,
                writer=process_name(),
                shared_keys=self._shared_keys,
                takes_non_blocking=self._takes_non_blocking,
            )
        return Concurrency(
            mode=options.mode,
            lock=self._lock or open_lock(self.env, options, self.config.name),
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
            takes_non_blocking=self._takes_non_blocking,
            early_period_ms=options.early_period_ms,
            early_commits=options.early_commits,
        )

    @property
    def _takes_non_blocking(self) -> bool:
        is_bucketed = looks_bucketed(self.config, self.options, recent_file_ids(self.state))
        return takes_non_blocking(self.config, is_bucketed=is_bucketed)

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
        is_fresh: bool = False,
    ) -> Transaction:
        """Put the write on the timeline, once what dead writes laid aside is gone.

        The table `is_fresh` when the session's state was loaded under the lock that is still held;
        what dead writes laid aside is left to `delete_leftovers` then. `looked_up` says that file
        groups were chosen by the table as the session found it, so that whatever others completed
        since then counts as not seen. `keeps_unique` says that no key may be twice where the index
        looks, which is the whole table if it `is_global`.
        """
        if not is_fresh:
            self.delete_leftovers()
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
            contents=self.state.contents,
            is_fresh=is_fresh,
        )

    def delete_leftovers(self) -> None:
        """Remove what dead writes laid aside."""
        if self.state.timeline.may_have(STAGING_ROOT):
            delete_leftovers(self.env, older_than_ms=self.options.staging_expiry_ms)

    def listed(self, partitions: Sequence[str]) -> KnownFiles:
        """Return the files of some partitions for whoever asks more than once; after `begin`."""
        return KnownFiles(StorageListing(self.state.storage).files_of(partitions))

    def view(self, txn: Transaction, files: KnownFiles | None = None) -> TableView:
        """Return the table's files as they are once failed writes were rolled back.

        `files` are those of the partitions that will be looked at, where they are known.
        """
        return TableView(
            table_version=txn.config.table_version,
            timeline=txn.timeline,
            contents=self.state.contents,
            listing=files or StorageListing(self.state.storage),
            history_times=self.state.history.completion_times,
            timeline_now=lambda: reload_timeline(self.state.storage, txn.config),
        )

    def live(
        self, txn: Transaction, partitions: Sequence[str], files: KnownFiles | None = None
    ) -> list[LiveGroup]:
        """Return the file groups of some partitions; for `files` see `view`."""
        return live_groups(self.view(txn, files), txn.config, partitions)

    def plan(
        self,
        txn: Transaction,
        choice: Choice,
        workload: Workload,
        *,
        by_file_id: bool = False,
        files: KnownFiles | None = None,
    ) -> WritePlan:
        """Return where the rows of an insert, upsert or delete go; for `files` see `view`."""
        view = self.view(txn, files)
        clustered = clustered_groups(txn.timeline, self.state.contents)
        live = live_groups(view, txn.config, workload.partitions, clustered)
        found = plan_write(
            choice.operation,
            self.config,
            choice.index,
            self.options,
            workload,
            live,
            by_file_id=by_file_id,
            # Commits are looked into only where rows go to files of some size.
            record_bytes=self.record_bytes
            if any(group is None for _, group in workload.counts)
            else self.options.record_size_bytes,
            ids=self.env.ids,
            replaced=_replaced(view) if choice.index.fixed_ids else {},
        )
        refuse_hiding(view, live, workload, found)
        txn.refuse_gone(self._gone(view, workload, found))
        if choice.index.type is IndexType.RECORD_INDEX and not by_file_id:
            moved_on = self.state.timeline.writes() != txn.timeline.writes()
            _refuse_unknown_groups(workload, found, moved_on=moved_on)
        self._refuse_clustered(txn, found.touched())
        txn.found_empty(found.left_out(workload))
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
            is_archived=self.state.view.times.is_committed,
        )

    def renewed_rings(self, index: Index, partitions: Sequence[str]) -> Rings:
        """Return the buckets of partitions whose file groups are about to be replaced."""
        found = self._rings(index, partitions)
        return {p: renewed(ring, self.env.ids) for p, ring in found.items()}

    def retire(self, txn: Transaction, partitions: Sequence[str]) -> Mapping[str, list[str]]:
        """Return every file id of the partitions; raise when a clustering is moving their rows."""
        view = self.view(txn)
        live = live_groups(view, txn.config, partitions)
        refuse_missing_files(view, [group.slice for group in live], partitions)
        self._refuse_clustered(txn, [group.id for group in live])
        return replaced_ids([(group.id.partition, group.id.file_id) for group in live])

    def _refuse_clustered(self, txn: Transaction, groups: Iterable[FileGroupId]) -> None:
        if not self.concurrency.allows_update:  # or else the clustering gives way
            txn.refuse_clustered(groups)

    def commit_replacing(
        self,
        txn: Transaction,
        stats: Sequence[WriteStat],
        avro: str,
        replaced: Mapping[str, Sequence[str]],
        forget: Callable[[ReplacedKeys], Sequence[WriteStat]],
        *,
        rings: Rings | None = None,
        brought: str | None = None,
    ) -> Commit:
        """Commit a write to which file groups give way.

        Where the table has a record index, `forget` takes their keys out of it.
        """
        gone = self._replaced_keys(txn, stats, replaced) if replaced else None
        return self.commit(
            txn,
            stats if gone is None else (*stats, *forget(gone)),
            avro,
            replaced=replaced,
            forgets_replaced=gone is not None,
            rings=rings,
            brought=brought,
        )

    def _replaced_keys(
        self,
        txn: Transaction,
        stats: Iterable[WriteStat],
        replaced: Mapping[str, Sequence[str]],
    ) -> ReplacedKeys | None:
        """Return the keys in file groups that give way, where the record index has to forget them.

        `stats` name what the write has put into the index already.
        """
        target = self.keeper.begin_index_logs(txn.config, txn.instant_time)
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
        stored = self.schemas.stored
        return write_spec(
            txn.config,
            self.options,
            self.state.storage.spec,
            schema=self.schemas.at_begin(txn, choice.schema.avro)[1],
            history=None if stored is None else stored.history,
            instant_time=txn.instant_time,
            marker_folder=txn.marker_folder,
            combine=combines(choice.operation, choice.index, self.options),
            column_sets=choice.column_sets,
            bounded_columns=self.keeper.bounded_columns(txn.config),
            record_index=self.keeper.begin_index_logs(txn.config, txn.instant_time),
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
        brought: str | None = None,
    ) -> Commit:
        """Make what was written part of the table, and run the services that are due then.

        `brought` says which rows the call brought, for one that comes again. `forgets_replaced`
        says that `stats` name what takes the keys of `replaced` out of the record index. `rings`
        are new ones of partitions that were replaced; all others that were get theirs here.
        """
        storage = self.state.storage
        new_rings = dict(rings or {})
        if replaced and storage.exists(RINGS):
            others = [partition for partition in replaced if partition not in new_rings]
            new_rings.update(self.renewed_rings(self._index(), others))
        for ring in new_rings.values():
            put_ring(storage, ring, txn.instant_time)
        start, avro = self.schemas.at_begin(txn, avro)
        commit = txn.commit(
            stats,
            schema=avro,
            replaced=replaced,
            forgets_replaced=forgets_replaced,
            extra=self._extra(brought),
            resolve_schema=self.schemas.resolver(txn, start, avro)
            if self.options.concurrency.checks_schema
            else None,
        )
        log_commit(self.env, self._began_ms, commit)
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

    def _extra(self, brought: str | None) -> dict[str, str]:
        found = dict(self.options.commit_metadata)
        if brought is not None:
            found[WRITE_ROWS] = brought
        if self.options.index_type is IndexType.RECORD_INDEX:
            found[LOOKED_UP_BY] = self.options.index_type.value
        stored = self.schemas.stored
        if stored is not None and stored.history is not None:
            # Readers that follow columns by id look for this in the newest commit.
            for metadata in newest_commits(self.state):
                latest = metadata.extra_metadata.get(_LATEST_SCHEMA)
                if latest:
                    found[_LATEST_SCHEMA] = latest
                    break
        return found


def _refuse_unknown_groups(workload: Workload, plan: WritePlan, *, moved_on: bool) -> None:
    """Raise for rows that the record index has elsewhere than the table.

    Where others have written since it was looked into, a new start tells more.
    """
    for partition, group in workload.counts:
        if group is not None and (partition, group) not in plan.targets:
            if moved_on:
                raise SnapshotLostError(f"file group {group} of partition {partition!r} is gone")
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
