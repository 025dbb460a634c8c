"""Building a metadata table from what lies on storage.

The table's properties name it last: a crash before leaves a folder that nobody reads, and the next
attempt starts over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelake.config import TableConfig
from tidelake.config.keys import read_keys as keys
from tidelake.env import Env
from tidelake.errors import reading
from tidelake.formats import index_definitions, partition_metadata
from tidelake.formats.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from tidelake.formats.file_name import format_base, parse_base, parse_log
from tidelake.formats.hfile_writer import encode_hfile
from tidelake.formats.index_definitions import IndexDefinition
from tidelake.formats.instant_name import LAYOUT_1
from tidelake.formats.metadata_encoding import encode_files
from tidelake.formats.metadata_record import (
    ALL_PARTITIONS,
    FileEntry,
    file_group_of,
    partition_identifier,
)
from tidelake.formats.metadata_schema import record_schema_text
from tidelake.formats.partition_metadata import PartitionMetadata
from tidelake.formats.properties import java_date
from tidelake.metadata.names import (
    BUILD_PREFIX,
    COLUMN_STATS,
    FILES,
    FIRST_BUILD,
    METADATA_FOLDER,
    PARTITION_STATS,
    RECORD_INDEX,
    group_file_id,
)
from tidelake.metadata.own_table import STAGES, ZEROS, OwnTable
from tidelake.metadata.statistics import (
    all_records,
    bounds_of_files,
    data_files,
    load_definitions,
    stats_columns,
)
from tidelake.model import Action
from tidelake.model.table_format import TableFormat
from tidelake.storage import FileInfo, Storage, StorageSpec, SubStorage, open_storage
from tidelake.timeline import (
    Timeline,
    TimelineContents,
    load_history_times,
    update_table_config,
)
from tidelake.timeline.table_properties import PROPERTIES_PATH, encode_properties
from tidelake.txn import InstantTimes
from tidelake.view import StorageListing, TableView, refuse_missing_files

_log = logging.getLogger(__name__)
#: How long files may be deleted without a look at the lock.
_LOOKS_EVERY_MS = 500

_PAYLOAD = "org.apache.hudi.metadata.HoodieMetadataPayload"
_KEY_GENERATOR = "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator"
_PAYLOAD_STRATEGY = "00000000-0000-0000-0000-000000000000"
_BULK_INSERT = "BULK_INSERT_PREPPED"
_STATS_GROUPS = 2
#: File groups of a record index: one for so many bytes of base files, within these bounds.
_BYTES_PER_INDEX_GROUP = 64 << 20
_INDEX_GROUPS = 10
_MOST_INDEX_GROUPS = 10_000
_DEFINITIONS = ".hoodie/.index_defs/index.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFiles:
    """The base files of a record index that is being built; it travels to tasks."""

    storage: StorageSpec
    instant_time: str
    write_token: str
    table_version: int
    groups: int

    def write(self, number: int, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Write one of them, from keys in ascending order and where they are."""
        storage, schema = open_storage(self.storage), record_schema_text(self.table_version)
        path = base_path(RECORD_INDEX, number, self.instant_time, self.write_token)
        _put_base(storage, path, entries, schema)


#: Writes the files of an index of all keys that the table has by now, and returns how many keys are
#: in each; files that would have none may be missing.
FillIndex = Callable[[IndexFiles], Mapping[int, int]]


def build(
    env: Env,
    config: TableConfig,
    timeline: Timeline,
    times: InstantTimes,
    *,
    with_stats: bool = False,
    with_index: bool = False,
    columns: Sequence[str] = (),
    fill_index: FillIndex | None = None,
) -> TableConfig:
    """Build a metadata table in place of what is left of an older one.

    `with_stats` asks for statistics beside the list of files, of `columns` or of the first that can
    have any, and `with_index` for an index of record keys, which a table that has files gets by
    `fill_index` alone. Return the table's settings, which name what was built.
    """
    if config.metadata_partitions:
        # Without the folder, writers of Apache Hudi would fail on the names.
        config = update_table_config(env, {keys.METADATA_PARTITIONS.name: ""}, times.ensure)
    files = committed_files(env.storage, config, timeline)
    parts: dict[str, Sequence[Mapping[str, bytes]]] = {
        FILES: [file_records(files, config.table_version)]
    }
    definitions: dict[str, IndexDefinition] = {}
    stats = _statistics(env.storage, config, timeline, files, columns) if with_stats else None
    if stats is not None:
        parts |= stats.parts
        definitions |= stats.definitions
    has_rows = any(files.values())
    if with_index:
        reason = no_index(config, has_rows=has_rows, fill_index=fill_index)
        if reason is not None:
            _log.warning("%s gets no record index: %s", config.name, reason)
        else:
            parts[RECORD_INDEX] = [{} for _ in range(_index_groups(files))]
            definitions[RECORD_INDEX] = _index_definition(config.table_version)
    folder = SubStorage(env.storage, METADATA_FOLDER)
    _delete_older(env, folder, times)
    entries = own_properties(config)
    content = encode_properties(entries, env.clock.now_ms(), "Properties saved on")
    times.ensure()
    folder.put(PROPERTIES_PATH, content)
    own_config = TableConfig.from_properties(entries)
    folder.make_folder(own_config.history_folder)
    # Nothing is there any more; what a stopped process may put back is no reason to fail.
    own = OwnTable(folder, own_config, Timeline(instants=()))
    # Instants of a build have fixed times. Who was stopped while it deleted a file of the older one
    # must not hit the one that takes its place.
    token = f"0-{env.clock.now_ms() % STAGES}-0"
    for number, (partition, groups) in enumerate(parts.items()):
        instant_time = _build_time(config, timeline, number)
        times.ensure()
        own.publisher.request(instant_time, Action.DELTACOMMIT)
        own.publisher.start(instant_time, Action.DELTACOMMIT)
        counts = {index: len(values) for index, values in enumerate(groups)}
        filled: Mapping[int, int] = {}
        if partition == RECORD_INDEX and has_rows and fill_index is not None:
            filled = fill_index(
                IndexFiles(
                    storage=own.storage.spec,
                    instant_time=instant_time,
                    write_token=token,
                    table_version=config.table_version,
                    groups=len(groups),
                )
            )
        for index, values in enumerate(groups):
            if index not in filled:
                write_base(own, base_path(partition, index, instant_time, token), values)
        _mark_partition(own, partition, instant_time, env.clock.now_ms())
        counts |= filled
        done = [
            base_stat(own, partition, i, base_path(partition, i, instant_time, token), n)
            for i, n in counts.items()
        ]
        own.complete(instant_time, Action.DELTACOMMIT, done, times, _BULK_INSERT)
    changes = {keys.METADATA_PARTITIONS.name: ",".join(sorted(parts))}
    if definitions:
        known = load_definitions(env.storage, config)
        env.storage.put(_DEFINITIONS, index_definitions.encode({**known, **definitions}))
        changes[keys.INDEX_DEFINITIONS_PATH.name] = _DEFINITIONS
    return update_table_config(env, changes, times.ensure)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statistics:
    parts: Mapping[str, Sequence[Mapping[str, bytes]]]
    definitions: Mapping[str, IndexDefinition]


def _delete_older(env: Env, folder: SubStorage, times: InstantTimes) -> None:
    """Delete what is left of an older one, and nothing of one that others build meanwhile."""
    times.ensure()
    looked_ms = env.clock.now_ms()
    for path in folder.files_below(""):
        if not 0 <= env.clock.now_ms() - looked_ms < _LOOKS_EVERY_MS:
            times.ensure()
            looked_ms = env.clock.now_ms()
        folder.delete(path)
    times.ensure()
    folder.delete_folder("")


def _statistics(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    files: Mapping[str, Mapping[str, FileEntry]],
    wanted: Sequence[str],
) -> _Statistics | None:
    version = config.table_version
    path, schema = _schema(storage, config, timeline)
    if not config.format.keeps_indexes or schema is None:
        _log.warning("%s gets no statistics: it is of version %s", config.name, version)
        return None
    with reading(path):
        columns = stats_columns(schema, version, wanted, with_meta=config.populate_meta_fields)
    paths = [
        f"{partition}/{name}" if partition else name
        for partition, entries in files.items()
        for name in data_files(partition, entries)
    ]
    bounds = bounds_of_files(storage, paths, schema, columns)
    of_files, of_partitions = all_records(bounds, columns, version)
    spread: list[dict[str, bytes]] = [{} for _ in range(_STATS_GROUPS)]
    for key, value in of_files.items():
        spread[file_group_of(key, _STATS_GROUPS)][key] = value
    parts: dict[str, Sequence[Mapping[str, bytes]]] = {COLUMN_STATS: spread}
    if config.partition_fields:
        parts[PARTITION_STATS] = [of_partitions]
    definition = IndexDefinition(
        index_name=COLUMN_STATS,
        index_type=COLUMN_STATS,
        index_function=COLUMN_STATS,
        source_fields=columns,
        version="V2" if config.format.has_typed_statistics else None,
    )
    return _Statistics(parts=parts, definitions={COLUMN_STATS: definition})


def no_index(config: TableConfig, *, has_rows: bool, fill_index: FillIndex | None) -> str | None:
    """Return why a table cannot have a record index, or None when it can."""
    if not config.format.keeps_indexes:
        return f"it is of version {config.table_version}"
    if has_rows and fill_index is None:
        return "it has files, of which keys have to be read; write to it with Table.upsert once"
    if has_rows and not config.populate_meta_fields:
        return "its rows have no meta columns, which hold their keys"
    return None


def _index_groups(files: Mapping[str, Mapping[str, FileEntry]]) -> int:
    """Return into how many file groups an index is divided; it stays so."""
    size_bytes = sum(entry.size_bytes for found in files.values() for entry in found.values())
    return min(_MOST_INDEX_GROUPS, max(_INDEX_GROUPS, -(-size_bytes // _BYTES_PER_INDEX_GROUP)))


def _index_definition(table_version: int) -> IndexDefinition:
    return IndexDefinition(
        index_name=RECORD_INDEX,
        index_type=RECORD_INDEX,
        index_options={"isPartitioned": "false"},
        version="V1" if TableFormat(table_version).has_typed_statistics else None,
    )


def _schema(storage: Storage, config: TableConfig, timeline: Timeline) -> tuple[str, str | None]:
    """Return the newest schema, behind the file that says it."""
    contents = TimelineContents(storage, config)
    for instant in reversed(timeline.writes()):
        found = contents.commit_metadata(instant).schema
        if found is not None:
            return f"{config.timeline_folder}/{instant.file_name}", found
    return PROPERTIES_PATH, config.create_schema


def committed_files(
    storage: Storage, config: TableConfig, timeline: Timeline
) -> Mapping[str, Mapping[str, FileEntry]]:
    """Return every committed file, replaced ones included, by partition and name.

    Raises `MissingFileError` when storage lacks one that the timeline tells of: who lists files by
    what is made of this would not miss it.
    """
    listing = StorageListing(storage)
    view = TableView(
        table_version=config.table_version,
        timeline=timeline,
        contents=TimelineContents(storage, config),
        listing=listing,
        history_times=lambda: load_history_times(storage, config),
    )
    version = config.table_version
    partitions = listing.partitions()
    refuse_missing_files(view, view.latest_slices(partitions), None)
    return {
        partition: {
            info.name: FileEntry(info.size_bytes, False)
            for info in files
            if info.size_bytes and _is_committed(view, partition, info, version)
        }
        for partition, files in listing.files_of(partitions).items()
    }


def file_records(
    files: Mapping[str, Mapping[str, FileEntry]], table_version: int
) -> Mapping[str, bytes]:
    """Return the records of `files` for all files of a table."""
    named = {partition_identifier(p): FileEntry(0, False) for p in files}
    found = {ALL_PARTITIONS: encode_files(named, table_version, is_partition_list=True)}
    for partition, entries in files.items():
        found[partition_identifier(partition)] = encode_files(entries, table_version)
    return found


def _is_committed(view: TableView, partition: str, info: FileInfo, table_version: int) -> bool:
    base = parse_base(partition, info.name, 0)
    if base is not None:
        return view.times.is_committed(base.instant_time)
    log = parse_log(partition, info.name, 0)
    if log is None:
        return False
    # Up to version 7 the name says the slice, and blocks of failed writes are passed over.
    return not TableFormat(table_version).has_own_logs or view.times.is_committed(log.instant_time)


def own_properties(config: TableConfig) -> Mapping[str, str]:
    """Return the properties of the metadata table of a table."""
    found = {
        keys.TABLE_NAME.name: f"{config.name}_metadata",
        keys.TABLE_TYPE.name: "MERGE_ON_READ",
        keys.TABLE_VERSION.name: str(config.table_version),
        keys.LAYOUT_VERSION.name: str(config.layout_version),
        keys.BASE_FILE_FORMAT.name: "HFILE",
        keys.RECORD_KEY_FIELDS.name: "key",
        keys.POPULATE_META_FIELDS.name: "false",
        keys.DROP_PARTITION_COLUMNS.name: "false",
        keys.PAYLOAD_CLASS.name: _PAYLOAD,
    }
    if config.layout_version == LAYOUT_1:
        return {
            **found,
            keys.ARCHIVE_FOLDER.name: "archived",
            keys.KEY_GENERATOR_CLASS.name: _KEY_GENERATOR,
        }
    return {
        **found,
        keys.INITIAL_VERSION.name: str(config.table_version),
        keys.ARCHIVE_FOLDER.name: "history",
        keys.TIMELINE_PATH.name: "timeline",
        keys.HISTORY_PATH.name: "history",
        keys.KEY_GENERATOR_TYPE.name: "HOODIE_TABLE_METADATA",
        keys.RECORD_MERGE_MODE.name: "CUSTOM",
        keys.MERGE_STRATEGY_ID.name: _PAYLOAD_STRATEGY,
    }


def _build_time(config: TableConfig, timeline: Timeline, number: int) -> str:
    if config.layout_version != LAYOUT_1:
        return f"{number:017d}"
    newest = max((i.requested_time for i in timeline.completed), default="")
    return f"{newest or BUILD_PREFIX}{FIRST_BUILD + number:03d}"


def _mark_partition(own: OwnTable, partition: str, instant_time: str, now_ms: int) -> None:
    """Put what makes a folder a partition."""
    marker = f"{partition}/{partition_metadata.FILE_NAME}"
    made = PartitionMetadata(commit_time=instant_time, partition_depth=1)
    own.storage.put_if_absent(marker, partition_metadata.encode(made, java_date(now_ms)))


def write_base(own: OwnTable, path: str, values: Mapping[str, bytes]) -> None:
    """Put a base file with these values."""
    entries = sorted((key.encode(), value) for key, value in values.items())
    _put_base(own.storage, path, entries, own.schema)


def _put_base(
    storage: Storage, path: str, entries: Iterable[tuple[bytes, bytes]], schema: str
) -> None:
    storage.put(path, encode_hfile(entries, schema, is_base=True))


def base_path(partition: str, index: int, instant_time: str, write_token: str) -> str:
    """Return where the base file of a file group lies."""
    name = format_base(
        file_id=group_file_id(partition, index),
        write_token=write_token,
        instant_time=instant_time,
        extension="hfile",
    )
    return f"{partition}/{name}"


def base_stat(own: OwnTable, partition: str, index: int, path: str, records: int) -> WriteStat:
    """Return the stat of a base file that was put."""
    there = own.storage.stat(path)
    size_bytes = there.size_bytes if there else 0
    return WriteStat(
        file_id=group_file_id(partition, index),
        path=path,
        prev_commit=NO_PREVIOUS_COMMIT,
        num_writes=records,
        num_inserts=records,
        num_update_writes=0,
        num_deletes=0,
        partition_path=partition,
        total_write_bytes=size_bytes,
        file_size_in_bytes=size_bytes,
        **ZEROS,
    )
