"""Keeping the metadata table true while the table is written; see `txn.metadata_keeper` for when.

What is kept are `files`, column statistics together with partition statistics, and the index of
record keys. Everything else that the properties name leaves them before the write completes,
because a reader that finds an index without the newest files loses rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from typing_extensions import Self

from tidelake.config import TableConfig
from tidelake.config.keys import read_keys as keys
from tidelake.config.keys import write_keys
from tidelake.env import Env
from tidelake.errors import CorruptFileError, MissingFileError, UnsupportedTableError, reading
from tidelake.formats import index_definitions
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.formats.metadata_encoding import encode_files
from tidelake.formats.metadata_record import (
    ALL_PARTITIONS,
    FileEntry,
    FileList,
    partition_identifier,
    partition_path,
)
from tidelake.metadata.build import FillIndex, build, committed_files, no_index
from tidelake.metadata.file_group import Keys, Prefixes, reading_metadata
from tidelake.metadata.freshness import built, unknown
from tidelake.metadata.names import (
    COLUMN_STATS,
    FILES,
    METADATA_FOLDER,
    PARTITION_STATS,
    RECORD_INDEX,
)
from tidelake.metadata.own_table import OwnTable, Updates
from tidelake.metadata.record_index import epoch_ms, is_index_kept
from tidelake.metadata.statistics import (
    bounds_of_files,
    groups,
    is_told,
    load_definitions,
    stats_records,
    told_columns,
)
from tidelake.metadata.upkeep import CompactGroups, keep_small
from tidelake.model import Action, Instant, State
from tidelake.model.index_target import IndexTarget
from tidelake.timeline import (
    Timeline,
    TimelineContents,
    load_table_config,
    reload_timeline,
    update_table_config,
)
from tidelake.txn import FileChanges, InstantTimes, NoMetadataTable, changes_of

_log = logging.getLogger(__name__)

#: Partitions that are kept together or not at all.
STATISTICS = frozenset({COLUMN_STATS, PARTITION_STATS})
_PLANS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})
#: Indexes that Apache Hudi believes to be there as long as they are defined.
_BY_DEFINITION = ("secondary_index_", "expr_index_")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOptions:
    """What the options of a write say about the metadata table.

    `enabled` is None where they say nothing: a table then goes on as it is. `rebuild` throws away
    what is there. `compact_after` deltacommits the metadata table is compacted. `column_stats` are
    made with a metadata table that is built, of `stats_columns` or of the first columns; a
    `record_index`, too.
    """

    enabled: bool | None = None
    rebuild: bool = False
    compact_after: int = 10
    column_stats: bool = False
    stats_columns: tuple[str, ...] = ()
    record_index: bool = False

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Self:
        """Read the options of a write, given under names in lower case."""
        given = keys.METADATA_ENABLE.given(settings) is not None
        return cls(
            enabled=keys.METADATA_ENABLE.flag(settings) if given else None,
            rebuild=write_keys.METADATA_REBUILD.flag(settings),
            compact_after=write_keys.METADATA_COMPACT_AFTER.count(settings, least=1) or 1,
            column_stats=write_keys.METADATA_COLUMN_STATS.flag(settings),
            stats_columns=write_keys.METADATA_STATS_COLUMNS.items(settings),
            record_index=write_keys.METADATA_RECORD_INDEX.flag(settings),
        )


class MetadataTableKeeper:
    """Keeps the metadata table of the table in `env.storage`."""

    def __init__(
        self,
        env: Env,
        options: KeeperOptions | None = None,
        compact_groups: CompactGroups | None = None,
        fill_index: FillIndex | None = None,
    ) -> None:
        self._env = env
        self._compact_groups = compact_groups
        self._fill_index = fill_index
        self._options = options or KeeperOptions()
        self._config: TableConfig | None = None
        self._found: tuple[TableConfig, OwnTable] | None = None
        """The metadata table as it was prepared, with the table's settings by then."""
        self._begun: str | None = None
        """The write whose tasks may write to the record index."""

    def prepare(
        self,
        config: TableConfig,
        timeline: Timeline,
        times: InstantTimes,
        *,
        is_fresh: bool = False,
    ) -> TableConfig:
        """Make good what earlier writers left out, and keep the names of what will be kept.

        Raises `UnsupportedTableError` while an index is being built, and `CorruptFileError` or
        `MissingFileError` when the metadata table cannot be read.
        """
        if not is_fresh:
            # Somebody may have built or dropped an index since the caller looked.
            config = load_table_config(self._env.storage)
        with _beside_builders(times):
            self._config = self._prepared(config, timeline, times)
        return self._config

    def _prepared(
        self, config: TableConfig, timeline: Timeline, times: InstantTimes
    ) -> TableConfig:
        without = NoMetadataTable(self._env)
        wanted = self._options.enabled
        is_there = FILES in config.metadata_partitions
        if wanted is False or not (is_there or wanted) or self._is_stuck(config, timeline):
            return without.prepare(config, timeline, times)
        self._refuse_index_builds(timeline)
        if self._options.rebuild or not is_there or self._lacks_index(config):
            return self._build(config, timeline, times)
        with reading_metadata(""):
            own = OwnTable.load(self._env.storage, config)
        if own is None:
            config = without.prepare(config, timeline, times)
            return self._build(config, timeline, times) if wanted else config
        with reading_metadata(""):
            if unknown(timeline.writes(), timeline, own.timeline, own.contents):
                own.refuse_split()
        config = self._keep_only(self._kept(config), config)
        lost = own.lost_partitions(config.metadata_partitions)
        if lost:
            times.ensure()  # others that came in may be building it anew
            _log.warning(
                "%s of the metadata table of %s have no file that a completed instant wrote; it is "
                "built anew",
                ", ".join(sorted(lost)),
                self._env.storage.spec.uri,
            )
            return self._build(config, timeline, times)
        times.see(own.timeline)
        self._drop_unfinished(own, times)
        self._config = config
        self._repair(own, config, timeline, times)
        self._found = (self._config, own)
        return self._config

    def _lacks_index(self, config: TableConfig) -> bool:
        """Return whether a record index is asked for that has to be built, and can be."""
        return (
            self._options.record_index
            and RECORD_INDEX not in self._kept(config)
            and no_index(config, has_rows=True, fill_index=self._fill_index) is None
        )

    def _is_stuck(self, config: TableConfig, timeline: Timeline) -> bool:
        """Return whether Apache Hudi would write without telling the metadata table.

        Up to version 7 it does not build partitions that it misses while a plan is pending, and
        then leaves those that are there behind, too. It misses what it once had.
        """
        if config.format.builds_indexes_any_time or not any(
            instant.planned_as in _PLANS for instant in timeline.pending
        ):
            return False
        if FILES not in config.metadata_partitions:
            return True
        built_once = self._env.storage.list(METADATA_FOLDER).folders
        known = {name for name in built_once if not name.startswith(".")}
        return not known <= self._kept(config)

    def _kept(self, config: TableConfig) -> set[str]:
        definitions = load_definitions(self._env.storage, config)
        kept = {FILES, *(STATISTICS if told_columns(config, definitions) else ())}
        return kept | ({RECORD_INDEX} if is_index_kept(config, definitions) else set())

    def begin_index_logs(self, config: TableConfig, instant_time: str) -> IndexTarget | None:
        """Note that tasks of an instant write logs of the record index; return its file groups."""
        try:
            return self._begin_index_logs(config, instant_time)
        except (CorruptFileError, MissingFileError):
            # Somebody may have taken it out of use, or built it anew, since the settings were
            # loaded.
            return self._begin_index_logs(load_table_config(self._env.storage), instant_time)

    def _begin_index_logs(self, config: TableConfig, instant_time: str) -> IndexTarget | None:
        if RECORD_INDEX not in config.metadata_partitions:
            return None
        with reading_metadata(RECORD_INDEX):
            own = OwnTable.load(self._env.storage, config)
            if own is None:
                return None
            ids = tuple(own.file_ids(RECORD_INDEX))
            if not ids:
                return None
            # Whoever rolls the write back finds by these that tasks may have left logs here.
            if instant_time != self._begun:
                own.begin(instant_time)
                self._begun = instant_time
        return IndexTarget(
            folder=METADATA_FOLDER,
            partition=RECORD_INDEX,
            file_ids=ids,
            instant_time=instant_time,
            table_version=config.table_version,
            instant_ms=epoch_ms(instant_time, is_utc=config.timeline_timezone_utc),
        )

    def bounded_columns(self, config: TableConfig) -> Sequence[str]:
        """Return the columns of which statistics are kept."""
        if COLUMN_STATS not in config.metadata_partitions:
            return ()
        return told_columns(config, load_definitions(self._env.storage, config))

    def _build(self, config: TableConfig, timeline: Timeline, times: InstantTimes) -> TableConfig:
        options = self._options
        self._options = replace(options, rebuild=False)
        try:
            return build(
                self._env,
                config,
                timeline,
                times,
                with_stats=options.column_stats,
                with_index=options.record_index,
                columns=options.stats_columns,
                fill_index=self._fill_index,
            )
        except MissingFileError as lost:
            times.ensure()  # others that came in may have taken it away
            _log.warning(
                "%s gets no metadata table: %s is gone from storage, and a list of what is left "
                "would not tell; the next write builds it once the file is back",
                config.name,
                lost.path,
            )
            return NoMetadataTable(self._env).prepare(config, timeline, times)

    def _refuse_index_builds(self, timeline: Timeline) -> None:
        for instant in timeline.pending:
            if instant.action is Action.INDEXING:
                raise UnsupportedTableError(
                    f"instant {instant.requested_time} is building an index of this table, which "
                    "would miss what is written meanwhile",
                    next_step="write again once the index is built, or drop the index",
                )

    def _keep_only(self, kept: Iterable[str], config: TableConfig) -> TableConfig:
        kept = frozenset(kept)
        left = config.metadata_partitions - kept
        building = keys.METADATA_PARTITIONS_INFLIGHT.items(config.properties)
        if not left and not building:
            return config
        _log.warning(
            "%s of the metadata table of %s are not kept by this write and are taken out of use; "
            "Apache Hudi builds them anew when its options ask for them",
            ", ".join(sorted({*left, *building})),
            self._env.storage.spec.uri,
        )
        self._drop_definitions(config, left)
        names = ",".join(sorted(config.metadata_partitions & kept))
        changes = {keys.METADATA_PARTITIONS.name: names}
        if building:
            changes[keys.METADATA_PARTITIONS_INFLIGHT.name] = ""
        return update_table_config(self._env, changes)

    def _drop_definitions(self, config: TableConfig, left: Iterable[str]) -> None:
        """Take away the definitions of indexes that readers look up there."""
        path = config.index_definitions_path
        named = {name for name in left if name.startswith(_BY_DEFINITION)}
        if not named or path is None or self._env.storage.stat(path) is None:
            return
        with reading(path):
            definitions = index_definitions.decode(self._env.storage.read(path))
        kept = {name: found for name, found in definitions.items() if name not in named}
        self._env.storage.put(path, index_definitions.encode(kept))

    def _drop_unfinished(self, own: OwnTable, times: InstantTimes) -> None:
        """Take away services of the metadata table that nobody will end."""
        for instant in own.timeline.pending:
            if instant.planned_as is Action.CLEAN or (
                # Up to version 7 logs go behind a compaction as soon as it is planned.
                instant.planned_as is Action.COMPACTION
                and not own.has_logs_named(instant.requested_time)
            ):
                own.forget(instant.requested_time, times, instant.planned_as)

    def _repair(
        self, own: OwnTable, config: TableConfig, timeline: Timeline, times: InstantTimes
    ) -> None:
        """Write down late what completed without the metadata table knowing."""
        contents = TimelineContents(self._env.storage, config)
        cleaned = (i for i in timeline.completed if i.action is Action.CLEAN)
        with reading_metadata(""):
            writes = unknown(timeline.writes(), timeline, own.timeline, own.contents)
            cleans = unknown(cleaned, timeline, own.timeline, own.contents)
            # Said twice, a file would stay in the list of Apache Hudi when a clean takes it away:
            # there the one and the other cancel out.
            listed = listed_files(own) if writes else {}
        columns = self.bounded_columns(config)
        missing = {i: self._written(i, contents, columns, listed) for i in writes}
        missing |= {i: _cleaned(i, contents) for i in cleans}
        for instant in sorted(missing, key=lambda i: i.completion_time or ""):
            if instant in writes or missing[instant]:
                _log.warning(
                    "the metadata table of %s does not know %s %s, which is made good",
                    self._env.storage.spec.uri,
                    instant.action,
                    instant.requested_time,
                )
                self._write(own, instant.requested_time, missing[instant], times)

    def _written(
        self,
        instant: Instant,
        contents: TimelineContents,
        columns: Sequence[str],
        listed: Mapping[str, Mapping[str, int]],
    ) -> FileChanges:
        metadata = contents.commit_metadata(instant)
        named = changes_of(metadata.write_stats).written
        # A clean may have taken some of them away since.
        written: dict[str, dict[str, int]] = {}
        for partition, files in named.items():
            for name in files:
                path = f"{partition}/{name}" if partition else name
                there = self._env.storage.stat(path)
                known = listed.get(partition, {}).get(name)
                if there is not None and there.size_bytes != known:
                    written.setdefault(partition, {})[name] = there.size_bytes
        replaced = metadata.partition_to_replace_file_ids
        if not columns or metadata.schema is None:
            return FileChanges(written=written, replaced=replaced)
        paths = [f"{p}/{name}" if p else name for p, files in written.items() for name in files]
        bounds = bounds_of_files(self._env.storage, paths, metadata.schema, columns)
        return FileChanges(written=written, replaced=replaced, bounds=bounds)

    def record(self, instant_time: str, changes: FileChanges, times: InstantTimes) -> bool:
        """Write down what the instant did to files, in a deltacommit of the same time.

        Return whether the last thing done was a look at the lock.
        """
        with _beside_builders(times):
            own = self._own()
            if own is None or self._config is None:
                return False
            with reading_metadata(""):
                own = keep_small(
                    self._env,
                    own,
                    self._config,
                    times,
                    delta_commits=self._options.compact_after,
                    compact_groups=self._compact_groups,
                )
            return self._write(own, instant_time, changes, times)

    def undo(self, instant_time: str, times: InstantTimes) -> bool:
        """Take the deltacommit of an instant off, unless it went into a base file meanwhile."""
        with _beside_builders(times):
            return self._undone(instant_time, times)

    def _undone(self, instant_time: str, times: InstantTimes) -> bool:
        own = self._own()
        if own is None:
            return True
        if not own.has(instant_time):
            own.delete_strays(RECORD_INDEX, instant_time, frozenset())
            known = own.timeline.is_archived(instant_time) or (
                instant_time <= built(own.timeline, own.contents) and _lists(own, instant_time)
            )
            if known:
                self._drop_told()
            return not known and not _lists_logs_of_others(own, instant_time)
        if _is_compacted(own, instant_time):
            self._drop_told()
            return False
        own.forget(instant_time, times)
        return not _lists_logs_of_others(own.reloaded(), instant_time)

    def reconcile(self, instant_time: str, times: InstantTimes) -> None:
        """Write down where the list of files differs from what lies on storage and counts."""
        with _beside_builders(times):
            self._reconcile(instant_time, times)

    def _reconcile(self, instant_time: str, times: InstantTimes) -> None:
        own = self._own()
        if own is None or self._config is None:
            return
        timeline = reload_timeline(self._env.storage, self._config)
        there = committed_files(self._env.storage, self._config, timeline)
        with reading_metadata(FILES):
            listed = listed_files(own)
        written = {
            partition: {
                name: entry.size_bytes
                for name, entry in files.items()
                if listed.get(partition, {}).get(name) != entry.size_bytes
            }
            for partition, files in there.items()
        }
        deleted = {
            partition: sorted(names.keys() - there.get(partition, {}).keys())
            for partition, names in listed.items()
        }
        changes = FileChanges(
            written={p: files for p, files in written.items() if files},
            deleted={p: names for p, names in deleted.items() if names},
        )
        if changes:
            self._write(own, instant_time, changes, times)

    def _drop_told(self) -> None:
        """Keep the list of files alone: the rest tells of rows of a write that is being undone.

        The index has their keys; and the bounds of partitions may leave out rows that come back,
        where Apache Hudi made them tight.
        """
        if self._config is not None:
            self._config = self._keep_only({FILES}, self._config)

    def _own(self) -> OwnTable | None:
        # A transaction may go on in another process, and others may build indexes meanwhile.
        storage, prepared = self._env.storage, self._found
        # What it is now is of use only where the table's settings are what they were.
        config, own = storage.both(
            lambda: load_table_config(storage),
            lambda: None if prepared is None else _reloaded(prepared[1]),
        )
        self._config = config
        if FILES not in config.metadata_partitions:
            return None
        if prepared is not None and prepared[0] == config and own is not None:
            return own
        with reading_metadata(""):
            return OwnTable.load(storage, config)

    def _write(
        self, own: OwnTable, instant_time: str, changes: FileChanges, times: InstantTimes
    ) -> bool:
        with reading_metadata(""):
            told = self._with_ghosts(own, changes)
            updates: Updates = {FILES: file_records(told, own.config.table_version)}
            updates = {**updates, **self._statistics(own, instant_time, changes)}
            index_logs = self._index_logs(own, instant_time, changes)
            is_begun = instant_time == self._begun and own.has(instant_time)
            self._begun = None
            return own.commit(instant_time, updates, times, index_logs, is_begun=is_begun)

    def _index_logs(
        self, own: OwnTable, instant_time: str, changes: FileChanges
    ) -> Sequence[WriteStat]:
        """Return what tasks wrote for the record index; or take it out where that has a gap."""
        config = self._config
        if config is None or RECORD_INDEX not in config.metadata_partitions:
            logs: Sequence[WriteStat] = ()
        elif _has_gap(own, instant_time, changes):
            self._config = self._keep_only(config.metadata_partitions - {RECORD_INDEX}, config)
            logs = ()
        else:
            logs = changes.index_logs
        if RECORD_INDEX in (config.metadata_partitions if config else ()) or changes.index_logs:
            own.delete_strays(RECORD_INDEX, instant_time, {stat.path for stat in logs})
        return logs

    @staticmethod
    def _with_ghosts(own: OwnTable, changes: FileChanges) -> FileChanges:
        """Return the changes with files of earlier lives of a partition, lest they come back."""
        names = {partition_identifier(partition): partition for partition in changes.begun}
        deleted = {partition: list(files) for partition, files in changes.deleted.items()}
        for group in groups(own, FILES) if names else ():
            for key, ghosts in group.buried(Keys(names)).items():
                gone = ghosts - changes.written[names[key]].keys()
                deleted.setdefault(names[key], []).extend(sorted(gone))
        return replace(changes, deleted=deleted)

    def _statistics(self, own: OwnTable, instant_time: str, changes: FileChanges) -> Updates:
        """Return what the statistics learn; or take them out of use where they would have a gap."""
        config = self._config
        columns = () if config is None else self.bounded_columns(config)
        if config is None or not columns:
            return {}
        if is_told(changes, columns, own.config.table_version):
            has_partitions = PARTITION_STATS in config.metadata_partitions
            found = stats_records(
                own, instant_time, changes, columns, has_partitions=has_partitions
            )
            if found is not None:
                return found
        self._config = self._keep_only(config.metadata_partitions - STATISTICS, config)
        return {}


def _reloaded(own: OwnTable) -> OwnTable | None:
    """Return a metadata table as it is now, None where that cannot be told by what it was."""
    try:
        with reading_metadata(""):
            return own.reloaded()
    except (CorruptFileError, MissingFileError):
        return None


def _has_gap(own: OwnTable, instant_time: str, changes: FileChanges) -> bool:
    """Return whether the record index would lack keys of an instant.

    It may have been built anew since tasks began to write to it, and their logs be gone.
    """
    if not changes.is_indexed:
        return bool(changes.written or changes.replaced)
    return bool(changes.index_logs) and not own.has(instant_time)


@contextmanager
def _beside_builders(times: InstantTimes) -> Iterator[None]:
    """Turn damage into `LockLostError` where others, that came in, may be building it anew."""
    try:
        yield
    except (CorruptFileError, MissingFileError):
        times.ensure()
        raise


def file_records(changes: FileChanges, table_version: int) -> Mapping[str, bytes]:
    """Return the records of `files` that say what an instant did."""
    touched = {*changes.written, *changes.deleted, *changes.replaced}
    partitions = {partition: FileEntry(0, False) for partition in sorted(touched)}
    partitions |= {partition: FileEntry(0, True) for partition in changes.gone}
    found = {
        ALL_PARTITIONS: encode_files(
            {partition_identifier(p): entry for p, entry in partitions.items()},
            table_version,
            is_partition_list=True,
        )
    }
    for partition in sorted({*changes.written, *changes.deleted}):
        entries = {name: FileEntry(0, True) for name in changes.deleted.get(partition, ())}
        written = changes.written.get(partition, {})
        entries |= {name: FileEntry(size, False) for name, size in written.items()}
        found[partition_identifier(partition)] = encode_files(entries, table_version)
    return found


def listed_files(own: OwnTable) -> Mapping[str, Mapping[str, int]]:
    """Return the files that the metadata table lists with their sizes, by partition."""
    found: dict[str, dict[str, int]] = {}
    for group in groups(own, FILES):
        for key, record in group.find(Prefixes([""])).items():
            if key != ALL_PARTITIONS and isinstance(record, FileList):
                live = {n: e.size_bytes for n, e in record.entries.items() if not e.is_deleted}
                found.setdefault(partition_path(key), {}).update(live)
    return found


def _lists(own: OwnTable, instant_time: str) -> bool:
    """Return whether files are listed that an instant of the table wrote."""
    for partition, names in listed_files(own).items():
        for name in names:
            file = parse_base(partition, name, 0) or parse_log(partition, name, 0)
            if file is not None and file.instant_time == instant_time:
                return True
    return False


def _lists_logs_of_others(own: OwnTable, instant_time: str) -> bool:
    """Return whether logs are listed that others added to slices of an instant that is forgotten.

    Up to version 7 they have its time in their names, and go with it: what failed writes had
    appended to the slice, and what took that back.
    """
    return own.names_logs_by_slice and _lists(own, instant_time)


def _cleaned(instant: Instant, contents: TimelineContents) -> FileChanges:
    metadata = contents.clean_metadata(instant)
    deleted = {
        partition: [path.rpartition("/")[2] for path in done.success_delete_files]
        for partition, done in metadata.partition_metadata.items()
        if done.success_delete_files
    }
    gone = [p for p, done in metadata.partition_metadata.items() if done.is_partition_deleted]
    return FileChanges(deleted=deleted, gone=gone)


def _is_compacted(own: OwnTable, instant_time: str) -> bool:
    """Return whether the records of an instant are in base files, among those of others."""
    completed_at = next(
        (i.completion_time for i in own.timeline.writes() if i.requested_time == instant_time), None
    )
    if completed_at is None:
        return False
    compactions = [
        i.requested_time
        for i in own.timeline.completed
        if i.action is Action.COMMIT and i.state is State.COMPLETED
    ]
    newest = max(compactions, default="")
    # Up to version 7 a compaction has the time of the deltacommit before it, and three digits more.
    mark = instant_time if own.names_logs_by_slice else completed_at
    return mark <= newest
