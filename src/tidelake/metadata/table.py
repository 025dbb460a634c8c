"""The metadata table of a table: its files, the ranges of its columns, where its keys are."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from typing_extensions import Self

from tidelake.config import TableConfig
from tidelake.errors import CorruptFileError, Malformed, MissingFileError, reading
from tidelake.formats import index_definitions, table_path
from tidelake.formats.bloom_filter import BloomFilter, BloomKind
from tidelake.formats.index_definitions import IndexDefinition
from tidelake.formats.metadata_record import (
    ALL_PARTITIONS,
    BloomEntry,
    ColumnRange,
    FileList,
    MetadataRecord,
    RecordLocation,
    column_id,
    file_group_of,
    file_id,
    partition_id,
    partition_identifier,
    partition_path,
)
from tidelake.metadata.file_group import (
    Keys,
    MetadataFileGroup,
    Prefixes,
    reading_metadata,
)
from tidelake.metadata.freshness import unknown
from tidelake.metadata.lost_files import refuse_lost_files
from tidelake.metadata.names import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
)
from tidelake.metadata.own_config import load_own_config, load_own_timeline
from tidelake.model import ColumnStats, Instant
from tidelake.storage import FileInfo, Storage
from tidelake.timeline import (
    Timeline,
    TimelineContents,
    load_history_times,
    load_table_config,
    reload_timeline,
)
from tidelake.view import StorageListing, TableView

_log = logging.getLogger(__name__)

_ID_CHARS = 12
#: With more partitions than this, all of a column is read and the rest of the key is compared.
_MOST_PREFIXES = 64


class MetadataTable:
    """A listing of the table's files that costs no listing of storage, and what prunes them.

    A change that reached the metadata table while its instant is still pending on the table itself
    is not seen: the metadata table commits first.
    """

    def __init__(
        self,
        *,
        table: Storage,
        storage: Storage,
        config: TableConfig,
        view: TableView,
        contents: TimelineContents,
        pending: frozenset[str],
        indexes: Mapping[str, IndexDefinition],
    ) -> None:
        """Look at nothing yet.

        `config`, `pending` instants and `indexes` are those of the `table` that is described;
        `storage`, `view` and `contents` those of the metadata table itself.
        """
        self._table = table
        self._storage = storage
        self._config = config
        self._view = view
        self._contents = contents
        self._pending = pending
        self._indexes = indexes
        self._groups: dict[str, Sequence[MetadataFileGroup]] = {}
        self._partitions: Sequence[str] | None = None

    @classmethod
    def open(cls, storage: Storage, config: TableConfig, timeline: Timeline) -> Self | None:
        """Return the metadata table of the table in `storage`, or None when there is none to trust.

        As with Hudi's readers, a folder that is gone means the same as a property that is not set.
        Unlike with them, so does one that a writer has left behind: its listing would lose rows.
        """
        try:
            return cls._open(storage, config, timeline)
        except (CorruptFileError, MissingFileError):
            # Somebody may have taken it away, or built it anew, since the settings were loaded.
            return cls._open(storage, load_table_config(storage), timeline)

    @classmethod
    def _open(cls, storage: Storage, config: TableConfig, timeline: Timeline) -> Self | None:
        if FILES not in config.metadata_partitions:
            return None
        with reading_metadata(""):
            found = load_own_timeline(storage, config)
            if found is None:
                return None
            folder, own_config, own_timeline = found
            contents = TimelineContents(folder, own_config)
            missing = unknown(timeline.writes(), timeline, own_timeline, contents)
        if missing:
            _log.warning(
                "the metadata table of %s does not know %s %s: files are listed from storage. The "
                "next write of tidelake makes it good",
                storage.spec.uri,
                missing[0].action,
                missing[0].requested_time,
            )
            return None
        view = TableView(
            table_version=own_config.table_version,
            timeline=own_timeline,
            contents=contents,
            listing=StorageListing(folder),
            history_times=lambda: load_history_times(folder, own_config),
            timeline_now=lambda: reload_timeline(folder, own_config),
        )
        return cls(
            table=storage,
            storage=folder,
            config=config,
            view=view,
            contents=contents,
            pending=timeline.pending_times,
            indexes=_index_definitions(storage, config),
        )

    def partitions(self) -> Sequence[str]:
        """Return the partition paths relative to the table, sorted."""
        if self._partitions is None:
            found = self._find(FILES, [ALL_PARTITIONS]).get(ALL_PARTITIONS)
            with reading_metadata(FILES):
                paths = map(partition_path, _live_names(found))
                self._partitions = sorted(map(table_path.partition, paths))
        return self._partitions

    def files(self, partition: str) -> Sequence[FileInfo]:
        """Return the files of one partition; their modification times are not known."""
        return self.files_of([partition])[partition]

    def files_of(self, partitions: Sequence[str]) -> Mapping[str, Sequence[FileInfo]]:
        """Return the files of each of `partitions`; an unknown partition has none."""
        identifiers = {partition: partition_identifier(partition) for partition in partitions}
        found = self._find(FILES, identifiers.values())
        with reading_metadata(FILES):
            return {
                partition: [
                    FileInfo(table_path.entry(name), size, 0)
                    for name, size in sorted(_live_names(found.get(identifier)).items())
                ]
                for partition, identifier in identifiers.items()
            }

    def column_stats(
        self, columns: Collection[str], partitions: Sequence[str] | None = None
    ) -> dict[str, dict[str, ColumnStats]]:
        """Return the bounds of `columns` in each file, by the file's path and the column.

        A file or column that is missing here may hold anything.
        """
        wanted = self.partitions() if partitions is None else partitions
        partition_of = {partition_id(partition): partition for partition in wanted}
        column_ids = [column_id(column) for column in columns]
        if len(partition_of) > _MOST_PREFIXES:
            prefixes = column_ids
        else:
            prefixes = [column + partition for column in column_ids for partition in partition_of]
        stats: dict[str, dict[str, ColumnStats]] = {}
        for key, record in self._find_by_prefix(COLUMN_STATS, prefixes):
            partition = partition_of.get(key[_ID_CHARS : 2 * _ID_CHARS])
            known = _stats(record)
            if partition is not None and known is not None and isinstance(record, ColumnRange):
                path = f"{partition}/{record.file_name}" if partition else record.file_name
                stats.setdefault(path, {})[record.column] = known
        return stats

    def partition_stats(self, columns: Collection[str]) -> dict[str, dict[str, ColumnStats]]:
        """Return the bounds of `columns` in each partition, by partition path and column.

        They hold for the table as it is, not for points in its past: rows deleted since are not in
        them. Counts are not given: files from before a column was added do not take part in them.
        """
        partition_of = {partition_id(partition): partition for partition in self.partitions()}
        prefixes = [column_id(column) for column in columns]
        stats: dict[str, dict[str, ColumnStats]] = {}
        for key, record in self._find_by_prefix(PARTITION_STATS, prefixes):
            partition = partition_of.get(key[_ID_CHARS:])
            known = _stats(record)
            if partition is not None and known is not None and isinstance(record, ColumnRange):
                stats.setdefault(partition, {})[record.column] = ColumnStats(
                    min=known.min, max=known.max, null_count=None, value_count=None
                )
        return stats

    def bloom_filters(self, files: Iterable[tuple[str, str]]) -> dict[str, BloomFilter]:
        """Return the bloom filters of base files, given as partition and name, by path."""
        path_of = {
            partition_id(partition) + file_id(name): f"{partition}/{name}" if partition else name
            for partition, name in files
        }
        filters = {}
        for key, record in self._find(BLOOM_FILTERS, path_of).items():
            if isinstance(record, BloomEntry) and not record.is_deleted:
                with reading_metadata(BLOOM_FILTERS):
                    filters[path_of[key]] = BloomFilter.decode(record.text, _kind(record))
        return filters

    def record_index_lookup(self, keys: Iterable[str]) -> dict[str, tuple[str, str]] | None:
        """Return partition and file id of those of the record keys that the table holds.

        None means that the table has no such index, or one for each partition apart.
        """
        definition = self._indexes.get(RECORD_INDEX)
        if RECORD_INDEX not in self._config.metadata_partitions or (
            definition is not None and definition.index_options.get("isPartitioned") == "true"
        ):
            return None
        return {
            key: (record.partition, record.file_id)
            for key, record in self._find(RECORD_INDEX, keys).items()
            if isinstance(record, RecordLocation)
        }

    def _find(self, partition: str, keys: Iterable[str]) -> dict[str, MetadataRecord]:
        groups = self._file_groups(partition)
        wanted: dict[int, list[str]] = {}
        for key in keys:
            if groups:
                wanted.setdefault(file_group_of(key, len(groups)), []).append(key)
        found: dict[str, MetadataRecord] = {}
        for index, of_group in wanted.items():
            found.update(groups[index].find(Keys(of_group)))
        return found

    def _find_by_prefix(
        self, partition: str, prefixes: Sequence[str]
    ) -> Iterable[tuple[str, MetadataRecord]]:
        wanted = Prefixes(prefixes)
        for group in self._file_groups(partition):
            yield from group.find(wanted).items()

    def _file_groups(self, partition: str) -> Sequence[MetadataFileGroup]:
        if partition not in self._config.metadata_partitions:
            return ()
        if partition not in self._groups:
            with reading_metadata(partition):
                slices = self._view.latest_slices([partition])
                refuse_lost_files(
                    self._view,
                    self._contents,
                    partition,
                    slices,
                    is_visible=self._is_visible,
                    now=self._timeline_now,
                )
            self._groups[partition] = [
                MetadataFileGroup(
                    self._storage,
                    file_slice,
                    is_visible=self._is_visible,
                    may_be_torn=self._may_be_torn,
                )
                for file_slice in sorted(slices, key=lambda s: s.group.file_id)
            ]
        return self._groups[partition]

    def _timeline_now(self) -> Timeline:
        """Return the metadata table's own timeline as it is by now; an empty one if it is gone."""
        found = load_own_config(self._table)
        return Timeline() if found is None else reload_timeline(*found)

    def _is_visible(self, instant_time: str) -> bool:
        return instant_time not in self._pending and self._view.times.is_committed(instant_time)

    def _may_be_torn(self, path: str) -> bool:
        # From version 8 on a log file belongs to one instant, and only completed ones are read.
        # Before, a writer that crashed may have left half a block in a file that is read.
        return not self._config.format.has_own_logs and path not in self._committed_files

    @cached_property
    def _committed_files(self) -> frozenset[str]:
        writes = self._view.timeline.writes()
        self._contents.load_commit_metadata(writes)
        return frozenset(
            stat.path
            for write in writes
            for stats in self._contents.commit_metadata(write).partition_to_write_stats.values()
            for stat in stats
            if stat.path
        )


def unknown_writes(storage: Storage, config: TableConfig, timeline: Timeline) -> Sequence[Instant]:
    """Return the completed writes that a metadata table in use was never told of."""
    found = load_own_config(storage) if FILES in config.metadata_partitions else None
    if found is None:
        return ()
    folder, own_config = found
    with reading_metadata(""):
        own_timeline = reload_timeline(folder, own_config)
        contents = TimelineContents(folder, own_config)
        return unknown(timeline.writes(), timeline, own_timeline, contents)


def _index_definitions(storage: Storage, config: TableConfig) -> Mapping[str, IndexDefinition]:
    path = config.index_definitions_path
    if path is None:
        return {}
    try:
        data = storage.read(path)
    except MissingFileError:
        return {}
    with reading(path):
        return index_definitions.decode(data)


def _live_names(record: MetadataRecord | None) -> Mapping[str, int]:
    """Return names and sizes of a listing without what was deleted."""
    if not isinstance(record, FileList):
        return {}
    return {
        name: entry.size_bytes for name, entry in record.entries.items() if not entry.is_deleted
    }


def _stats(record: MetadataRecord) -> ColumnStats | None:
    if not isinstance(record, ColumnRange) or not record.is_known:
        return None
    return ColumnStats(
        min=record.minimum,
        max=record.maximum,
        null_count=record.null_count,
        value_count=record.value_count,
    )


def _kind(entry: BloomEntry) -> BloomKind:
    try:
        return BloomKind(entry.kind)
    except ValueError as cause:
        raise Malformed(f"the bloom filter is of the unknown type {entry.kind!r}") from cause
