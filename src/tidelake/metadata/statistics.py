"""Column statistics and partition statistics of the metadata table, written together or not at all.

Apache Hudi prunes partitions by the one and files by the other, and makes the one from the other,
so that a gap in either hides rows sooner or later. Bounds of a partition only ever widen here: rows
that are gone may still be inside of them, and no row is outside. They are not called tight, so that
readers take those of writes that overlapped together, in whatever order they find them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow.parquet as pq

from tidelake.config import TableConfig
from tidelake.errors import ConfigError, reading
from tidelake.files.base_file import readable
from tidelake.files.column_stats import column_kinds, footer_bounds, widest
from tidelake.formats import index_definitions
from tidelake.formats.column_bounds import ColumnBounds, joined
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.formats.index_definitions import IndexDefinition
from tidelake.formats.metadata_encoding import (
    column_stats_fit,
    encode_column_stats,
    encode_deleted_stats,
    stored_bounds,
)
from tidelake.formats.metadata_record import (
    ALL_PARTITIONS,
    ColumnRange,
    FileList,
    column_id,
    decode,
    decode_bounds,
    file_id,
    partition_id,
    partition_identifier,
)
from tidelake.metadata.file_group import Keys, MetadataFileGroup, Stored
from tidelake.metadata.names import COLUMN_STATS, FILES, PARTITION_STATS
from tidelake.metadata.own_table import OwnTable, Updates
from tidelake.storage import Storage
from tidelake.txn import FileChanges

_READERS = 16
#: Version of the index that stores values in the type of their column, from table version 9 on.
_TYPED = "V2"
#: What readers add up over the records of one partition.
_COUNTS = ("value_count", "null_count", "packed_bytes", "plain_bytes")
#: Columns of Hudi's own that are always told of, and how many of the user's are unless asked.
META_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")
MOST_COLUMNS = 32

Bounds = Mapping[str, ColumnBounds]


def load_definitions(storage: Storage, config: TableConfig) -> Mapping[str, IndexDefinition]:
    """Return the table's index definitions by the name of the index."""
    path = config.index_definitions_path
    if path is None or storage.stat(path) is None:
        return {}
    with reading(path):
        return index_definitions.decode(storage.read(path))


def told_columns(config: TableConfig, definitions: Mapping[str, IndexDefinition]) -> Sequence[str]:
    """Return the columns of which statistics are kept; none when they cannot be kept."""
    names = config.metadata_partitions
    definition = definitions.get(COLUMN_STATS)
    if COLUMN_STATS not in names or definition is None or not config.format.keeps_indexes:
        return ()
    if (PARTITION_STATS in names) != bool(config.partition_fields):
        return ()
    if config.format.has_typed_statistics and definition.version != _TYPED:
        return ()
    return definition.source_fields


def is_told(changes: FileChanges, columns: Sequence[str], table_version: int) -> bool:
    """Return whether the bounds of every new file are known, in types that readers understand."""
    for partition, files in changes.written.items():
        for name in data_files(partition, files):
            bounds = changes.bounds.get(_path(partition, name), {})
            for column in columns:
                known = bounds.get(column)
                if known is None or not _fits(known, table_version):
                    return False
    return True


def stats_records(
    own: OwnTable,
    instant_time: str,
    changes: FileChanges,
    columns: Sequence[str],
    *,
    has_partitions: bool,
) -> Updates | None:
    """Return the records of both partitions, or None when there is or would be a gap."""
    version = own.config.table_version
    values: dict[str, bytes] = {}
    fresh: dict[str, dict[str, list[ColumnBounds]]] = {}
    for partition, files in changes.written.items():
        for name in data_files(partition, files):
            known = changes.bounds[_path(partition, name)]
            for column in columns:
                key = _file_key(column, partition, name)
                bounds = stored_bounds(known[column], version)
                values[key] = encode_column_stats(bounds, version, name=name, column=column)
                fresh.setdefault(partition, {}).setdefault(column, []).append(bounds)
    for partition, names in changes.deleted.items():
        for name in data_files(partition, names):
            for column in columns:
                key = _file_key(column, partition, name)
                values[key] = encode_deleted_stats(version, name=name, column=column)
    if not has_partitions:
        return {COLUMN_STATS: values} if values else {}
    by_partition = _partition_records(own, fresh, instant_time)
    if by_partition is None:
        return None
    found = {COLUMN_STATS: values, PARTITION_STATS: by_partition}
    return {name: records for name, records in found.items() if records}


def _partition_records(
    own: OwnTable, fresh: Mapping[str, Mapping[str, Sequence[ColumnBounds]]], instant_time: str
) -> dict[str, bytes] | None:
    """Return records that are true whichever of those of one partition counts as the newest.

    Each has the bounds of all rows so far and the counts of its own, which readers add up. Apache
    Hudi goes by the requested time of who wrote it, and one that it made tight hides earlier ones.
    """
    version = own.config.table_version
    wanted = {
        column_id(column) + partition_id(partition): (partition, column)
        for partition, columns in fresh.items()
        for column in columns
    }
    before: dict[str, ColumnBounds] = {}
    for group in groups(own, PARTITION_STATS):
        for key, stored in group.newest(Keys(wanted)).items():
            if stored.log_time > instant_time and _hides_others(stored):
                return None
            bounds = decode_bounds(stored.value, stored.schema)
            if bounds is not None:
                before[key] = bounds
    known = _known_partitions(own) if len(before) < len(wanted) else frozenset[str]()
    records = {}
    for key, (partition, column) in wanted.items():
        if key not in before and partition in known:
            return None
        added = joined(fresh[partition][column])
        if added is None:
            return None
        bounds = joined([before[key], added]) if key in before else added
        if bounds is None or not (bounds.value_count == 0 or _fits(bounds, version)):
            return None
        if added.value_count == 0 and key in before:
            continue
        counts = {name: getattr(added, name) for name in _COUNTS}
        records[key] = encode_column_stats(
            replace(bounds, **counts),
            version,
            name=partition_identifier(partition),
            column=column,
            is_partition=True,
            is_tight=False,
        )
    return records


def _hides_others(stored: Stored) -> bool:
    """Return whether a record counts alone where it is the newest."""
    record = decode(stored.value, stored.schema)[1]
    return not isinstance(record, ColumnRange) or record.is_tight or record.is_deleted


def _known_partitions(own: OwnTable) -> frozenset[str]:
    names: set[str] = set()
    for group in groups(own, FILES):
        record = group.find(Keys([ALL_PARTITIONS])).get(ALL_PARTITIONS)
        if isinstance(record, FileList):
            live = (name for name, entry in record.entries.items() if not entry.is_deleted)
            names.update("" if name == "." else name for name in live)
    return frozenset(names)


def groups(own: OwnTable, partition: str) -> Iterator[MetadataFileGroup]:
    """Return the file groups of a partition of the metadata table."""
    for found in own.slices(partition):
        yield MetadataFileGroup(
            own.storage,
            found,
            is_visible=own.view.times.is_committed,
            may_be_torn=lambda _: False,
        )


def all_records(
    bounds: Mapping[str, Bounds], columns: Sequence[str], table_version: int
) -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
    """Return the records of both partitions for files that are given by path."""
    files: dict[str, bytes] = {}
    parts: dict[tuple[str, str], list[ColumnBounds]] = {}
    for path, known in bounds.items():
        partition, _, name = path.rpartition("/")
        for column in columns:
            each = stored_bounds(known[column], table_version)
            files[_file_key(column, partition, name)] = encode_column_stats(
                each, table_version, name=name, column=column
            )
            parts.setdefault((partition, column), []).append(each)
    partitions = {}
    for (partition, column), found in parts.items():
        both = joined(found)
        if both is not None:
            partitions[column_id(column) + partition_id(partition)] = encode_column_stats(
                both,
                table_version,
                name=partition_identifier(partition),
                column=column,
                is_partition=True,
            )
    return files, partitions


def bounds_of_files(
    storage: Storage, paths: Sequence[str], schema: str, columns: Sequence[str]
) -> Mapping[str, Bounds]:
    """Return the bounds of columns in files that are on storage.

    Base files say them in their footers; of a log anything may be true.
    """
    kinds = {name: kind for name, kind in column_kinds(schema).items() if name in columns}

    def of(path: str) -> Bounds:
        if not path.endswith(".parquet"):
            return {name: widest(kind, 1) for name, kind in kinds.items()}
        with storage.open(path) as file, reading(path), readable(path):
            return footer_bounds(pq.ParquetFile(file).metadata, kinds)

    with ThreadPoolExecutor(_READERS) as pool:
        return dict(zip(paths, pool.map(of, paths), strict=True))


def stats_columns(
    schema: str, table_version: int, wanted: Sequence[str], *, with_meta: bool
) -> tuple[str, ...]:
    """Return the columns that statistics are made of: `wanted`, or the first that can have any.

    Raises `ConfigError` for a wanted column that cannot have any.
    """
    kinds = column_kinds(schema)
    able = [
        name
        for name, kind in kinds.items()
        if not name.startswith("_hoodie_") and column_stats_fit(kind.kind, kind.info, table_version)
    ]
    for name in wanted:
        if name not in able:
            raise ConfigError(
                f"column {name} can have no statistics in a table of version {table_version}",
                next_step=f"choose among {', '.join(able)}",
            )
    return (*(META_COLUMNS if with_meta else ()), *(wanted or able[:MOST_COLUMNS]))


def data_files(partition: str, names: Iterable[str]) -> Iterator[str]:
    """Return those of the names that are base files and logs of rows."""
    for name in names:
        log = parse_log(partition, name, 0)
        if parse_base(partition, name, 0) or (log is not None and not log.is_cdc):
            yield name


def _fits(bounds: ColumnBounds, table_version: int) -> bool:
    return column_stats_fit(bounds.kind, bounds.info, table_version)


def _file_key(column: str, partition: str, name: str) -> str:
    return column_id(column) + partition_id(partition) + file_id(name)


def _path(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name
