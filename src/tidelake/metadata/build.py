"""Building a metadata table from what lies on storage.

The table's properties name it last: a crash before leaves a folder that nobody reads, and the next
attempt starts over.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.config import TableConfig, keys
from tidelake.env import Env
from tidelake.formats import partition_metadata
from tidelake.formats.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from tidelake.formats.file_name import format_base, parse_base, parse_log
from tidelake.formats.hfile_writer import encode_hfile
from tidelake.formats.instant_name import LAYOUT_1
from tidelake.formats.metadata_encoding import encode_files
from tidelake.formats.metadata_record import ALL_PARTITIONS, FileEntry, partition_identifier
from tidelake.formats.partition_metadata import PartitionMetadata
from tidelake.formats.properties import java_date
from tidelake.metadata.names import FILES, METADATA_FOLDER, group_file_id
from tidelake.metadata.own_table import WRITE_TOKEN, ZEROS, OwnTable
from tidelake.model import Action
from tidelake.storage import FileInfo, Storage, SubStorage
from tidelake.timeline import (
    Timeline,
    TimelineContents,
    load_history_times,
    load_timeline,
    update_table_config,
)
from tidelake.timeline.table_properties import PROPERTIES_PATH, encode_properties
from tidelake.txn import InstantTimes
from tidelake.view import StorageListing, TableView

_PAYLOAD = "org.apache.hudi.metadata.HoodieMetadataPayload"
_KEY_GENERATOR = "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator"
_PAYLOAD_STRATEGY = "00000000-0000-0000-0000-000000000000"
_BULK_INSERT = "BULK_INSERT_PREPPED"
#: First instant that builds a partition, and on layout 1 what follows the newest instant.
_FIRST_BUILD = "00000000000000000"
_FIRST_BUILD_SUFFIX = "010"


def build(env: Env, config: TableConfig, timeline: Timeline, times: InstantTimes) -> TableConfig:
    """Build a metadata table with `files`, in place of what is left of an older one.

    Return the table's settings, which name it.
    """
    if config.metadata_partitions:
        # Without the folder, writers of Apache Hudi would fail on the names.
        config = update_table_config(env, {keys.METADATA_PARTITIONS.name: ""})
    records = file_listing(env.storage, config, timeline)
    folder = SubStorage(env.storage, METADATA_FOLDER)
    folder.delete_folder("")
    entries = own_properties(config)
    content = encode_properties(entries, env.clock.now_ms(), "Properties saved on")
    folder.put(PROPERTIES_PATH, content)
    own_config = TableConfig.from_properties(entries)
    folder.make_folder(own_config.history_folder)
    own = OwnTable(folder, own_config, load_timeline(folder, own_config))
    instant_time = _build_time(config, timeline)
    write_base(own, FILES, 0, instant_time, records, env.clock.now_ms())
    stat = base_stat(own, FILES, 0, instant_time, len(records))
    own.publisher.request(instant_time, Action.DELTACOMMIT)
    own.publisher.start(instant_time, Action.DELTACOMMIT)
    own.complete(instant_time, Action.DELTACOMMIT, [stat], times, _BULK_INSERT)
    return update_table_config(env, {keys.METADATA_PARTITIONS.name: FILES})


def file_listing(storage: Storage, config: TableConfig, timeline: Timeline) -> Mapping[str, bytes]:
    """Return the records of `files` for every committed file, replaced ones included."""
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
    named = {partition_identifier(p): FileEntry(0, False) for p in partitions}
    found = {ALL_PARTITIONS: encode_files(named, version, is_partition_list=True)}
    for partition, files in listing.files_of(partitions).items():
        entries = {
            info.name: FileEntry(info.size_bytes, False)
            for info in files
            if info.size_bytes and _is_committed(view, partition, info, version)
        }
        found[partition_identifier(partition)] = encode_files(entries, version)
    return found


def _is_committed(view: TableView, partition: str, info: FileInfo, table_version: int) -> bool:
    base = parse_base(partition, info.name, 0)
    if base is not None:
        return view.times.is_committed(base.instant_time)
    log = parse_log(partition, info.name, 0)
    if log is None:
        return False
    # Up to version 7 the name says the slice, and blocks of failed writes are passed over.
    return table_version < 8 or view.times.is_committed(log.instant_time)


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


def _build_time(config: TableConfig, timeline: Timeline) -> str:
    if config.layout_version != LAYOUT_1:
        return _FIRST_BUILD
    newest = max((i.requested_time for i in timeline.completed), default="")
    return (newest or "0" * 14) + _FIRST_BUILD_SUFFIX


def write_base(
    own: OwnTable,
    partition: str,
    index: int,
    instant_time: str,
    values: Mapping[str, bytes],
    now_ms: int,
) -> None:
    """Put a base file with these values, and what makes its folder a partition."""
    marker = f"{partition}/{partition_metadata.FILE_NAME}"
    made = PartitionMetadata(commit_time=instant_time, partition_depth=1)
    own.storage.put_if_absent(marker, partition_metadata.encode(made, java_date(now_ms)))
    entries = sorted((key.encode(), value) for key, value in values.items())
    data = encode_hfile(entries, own.schema, is_base=True)
    own.storage.put(base_path(partition, index, instant_time), data)


def base_path(partition: str, index: int, instant_time: str) -> str:
    """Return where the base file of a file group lies."""
    name = format_base(
        file_id=group_file_id(partition, index),
        write_token=WRITE_TOKEN,
        instant_time=instant_time,
        extension="hfile",
    )
    return f"{partition}/{name}"


def base_stat(
    own: OwnTable, partition: str, index: int, instant_time: str, records: int
) -> WriteStat:
    """Return the stat of a base file that was put."""
    path = base_path(partition, index, instant_time)
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
