"""Write one Parquet base file: rows in batches, meta columns, and Hudi's footer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelake.errors import ConfigError
from tidelake.files.column_stats import bounded_kinds, footer_bounds, nan_columns
from tidelake.files.new_file import NewFile, in_partition
from tidelake.files.write_task import WriteSpec, WriteToken
from tidelake.formats import parquet_footer
from tidelake.formats.bloom_filter import BloomFilter
from tidelake.formats.column_bounds import ColumnBounds
from tidelake.formats.commit_metadata import NO_PREVIOUS_COMMIT, RuntimeStats, WriteStat
from tidelake.formats.file_name import format_base
from tidelake.formats.marker_name import MarkerKind
from tidelake.formats.table_schema import stored_schema
from tidelake.records.meta_columns import CONSTANT, constant, sequence_numbers, with_meta_columns
from tidelake.records.required import require_values
from tidelake.records.schema import (
    COMMIT_TIME,
    FILE_NAME,
    META_COLUMNS,
    PARTITION_PATH,
    RECORD_KEY,
    SEQUENCE_NUMBER,
)
from tidelake.storage import Storage

#: Rows are held back until they make a row group of this many bytes in memory.
_ROW_GROUP_BYTES = 64 << 20
_CODECS = {
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "zstd": "zstd",
}


def base_schema(spec: WriteSpec, dictionaries: Collection[str] = ()) -> pa.Schema:
    """Return the columns of the table's base files, as they are handed to the Parquet writer.

    The texts of `dictionaries` come with few different values.
    """
    schema = stored_schema(with_meta_columns(spec.schema, spec.dropped_columns))
    few = {COMMIT_TIME, PARTITION_PATH, FILE_NAME, *dictionaries}
    return pa.schema(
        [
            pa.field(f.name, CONSTANT) if f.name in few and pa.types.is_string(f.type) else f
            for f in schema
        ]
    )


def _options(spec: WriteSpec, schema: pa.Schema, nans: Collection[str] = ()) -> dict[str, Any]:
    """Return the arguments of pyarrow's writer; raise `ConfigError` for an unknown codec.

    The bounds that Arrow puts into a footer pass over numbers that are none, such as `nans` have;
    Spark takes these for the greatest, and would not look for them in a row group with bounds.
    """
    settings = spec.parquet
    codec = _CODECS.get(settings.codec.lower())
    if codec is None:
        raise ConfigError(
            f"hoodie.parquet.compression.codec={settings.codec} is none of {', '.join(_CODECS)}",
            next_step="choose one of these; Apache Hudi reads them all",
        )
    # A dictionary of values that do not repeat is made for nothing.
    unique = {RECORD_KEY, SEQUENCE_NUMBER, *spec.keys.fields}
    leaves = _leaves(schema)
    repeated = [path for path in leaves if path.partition(".")[0] not in unique]
    unbounded = {*nans, *_nested_floats(schema)}
    return {
        "compression": codec,
        "compression_level": 1 if codec == "zstd" else None,
        "use_dictionary": repeated if settings.dictionary else False,
        "data_page_size": settings.page_size_bytes,
        "store_schema": False,
        "write_statistics": [path for path in leaves if path not in unbounded] or False,
    }


@lru_cache(maxsize=64)
def _nested_floats(schema: pa.Schema) -> list[str]:
    """Return the numbers inside of other columns, at which nobody looks one by one."""
    parquet = pq.ParquetWriter(pa.BufferOutputStream(), schema, store_schema=False)
    parquet.close()
    made = parquet.writer.metadata.schema
    columns = (made.column(at) for at in range(len(made)))
    return [c.path for c in columns if "." in c.path and c.physical_type in ("FLOAT", "DOUBLE")]


@lru_cache(maxsize=64)
def _floats(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if pa.types.is_floating(field.type)]


@lru_cache(maxsize=64)
def _leaves(schema: pa.Schema) -> list[str]:
    # Names of nested columns are Parquet's, with the levels that lists and maps add.
    parquet = pq.ParquetWriter(pa.BufferOutputStream(), schema, store_schema=False)
    parquet.close()
    made = parquet.writer.metadata.schema
    return [made.column(at).path for at in range(len(made))]


def parquet_bytes(rows: pa.Table, spec: WriteSpec) -> memoryview:
    """Return rows that hold the table's columns, meta columns included, as a Parquet file."""
    schema = base_schema(spec)
    columns = [_as_stored(rows.column(field.name), field.type) for field in schema]
    sink = pa.BufferOutputStream()
    table = pa.Table.from_arrays(columns, schema=schema)
    options = _options(spec, schema, nan_columns(table, _floats(schema)))
    with pq.ParquetWriter(sink, schema, **options) as parquet:
        parquet.write_table(table)
        parquet.add_key_value_metadata(_schema_entries(spec))
    return memoryview(sink.getvalue())


def _schema_entries(spec: WriteSpec) -> dict[str, str]:
    return {
        parquet_footer.AVRO_SCHEMA: with_meta_columns(spec.schema, spec.dropped_columns),
        parquet_footer.WRITER_MODEL: "avro",
    }


class BaseFileWriter:
    """A base file in the making.

    With `size_limit_bytes` the file says when it is full. Closing without `finish` leaves it to the
    rollback.
    """

    def __init__(
        self,
        storage: Storage,
        spec: WriteSpec,
        token: WriteToken,
        *,
        partition: str,
        file_id: str,
        kind: MarkerKind,
        size_limit_bytes: int | None = None,
        dictionaries: Collection[str] = (),
    ) -> None:
        """Put the marker and open the file."""
        self.name = format_base(
            file_id=file_id,
            write_token=token.format(),
            instant_time=spec.instant_time,
            extension="parquet",
        )
        self._spec = spec
        self._token = token
        self._partition = partition
        self._file_id = file_id
        self._kind = kind
        self._limit = size_limit_bytes
        self._schema = base_schema(spec, dictionaries)
        self.row_count = 0
        self._bounded = bounded_kinds(spec)
        self._nans: set[str] = set()
        self._new_keys: list[pa.ChunkedArray] = []
        self._keys: list[pa.ChunkedArray] = []
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._flushed_bytes = 0
        self._unbounded: frozenset[str] = frozenset()
        """Columns of which the footer has no bounds."""
        self._parquet: pq.ParquetWriter | None = None
        _options(spec, self._schema)  # what is wrong with them shows before there is a file
        self._file = NewFile(storage, spec, in_partition(partition, self.name), kind)

    @property
    def is_full(self) -> bool:
        """Return whether the file has reached its size limit."""
        return self._limit is not None and self._flushed_bytes > 0 and self._room_bytes() <= 0

    def rows_to_flush(self, row_bytes: int) -> int:
        """Return how many rows of `row_bytes` go in before the file looks at its size again."""
        return max(1, (self._flush_at() - self._held_bytes) // max(1, row_bytes))

    def write_new(self, rows: pa.Table) -> None:
        """Append rows that this write brings; of the meta columns they need only the record key."""
        require_values(rows, self._spec.schema)
        if self._spec.record_index is not None:
            self._new_keys.append(rows.column(RECORD_KEY))
        numbers = self.row_count + np.arange(rows.num_rows, dtype=np.int64)
        self._write(stamped(rows, numbers, self._spec, self._token, self._partition))

    def write_stamped(self, rows: pa.Table) -> None:
        """Append rows whose meta columns hold what they should, save for the file name."""
        self._write(rows)

    def _write(self, rows: pa.Table) -> None:
        name = None
        if self._spec.populate_meta_fields:
            self._keys.append(rows.column(RECORD_KEY))
        if self._spec.populate_meta_fields or self._kind is MarkerKind.MERGE:
            name = self.name
        columns = [
            constant(name, rows.num_rows)
            if field.name == FILE_NAME
            else _as_stored(rows.column(field.name), field.type)
            for field in self._schema
        ]
        self._held.append(pa.Table.from_arrays(columns, schema=self._schema))
        self._nans |= nan_columns(self._held[-1], _floats(self._schema))
        self._held_bytes += self._held[-1].nbytes
        self.row_count += rows.num_rows
        if self._held_bytes >= self._flush_at():
            self._flush()

    def _flush_at(self) -> int:
        most = min(_ROW_GROUP_BYTES, self._spec.parquet.block_size_bytes)
        return most if self._limit is None else max(1, min(most, self._room_bytes()))

    def _room_bytes(self) -> int:
        """Return how many bytes in memory still fit, by the ratio of what was written so far."""
        assert self._limit is not None
        written = self._file.sink.tell()
        if not self._flushed_bytes:
            return self._limit
        ratio = max(written / self._flushed_bytes, 0.01)
        # A last row group of next to nothing is not worth the while.
        rest = self._limit - written
        return int(rest / ratio) if rest > self._limit // 20 else 0

    def _flush(self) -> None:
        if not self._held:
            return
        table = pa.concat_tables(self._held).unify_dictionaries()
        parquet = self._parquet or self._open()
        with self._file.writing():
            parquet.write_table(table, row_group_size=max(1, table.num_rows))
        self._flushed_bytes += self._held_bytes
        self._held, self._held_bytes = [], 0

    def _open(self) -> pq.ParquetWriter:
        """Begin the file, once the rows of its first row group say which columns have bounds."""
        self._unbounded = frozenset(self._nans)
        options = _options(self._spec, self._schema, self._unbounded)
        with self._file.writing():
            self._parquet = pq.ParquetWriter(self._file.sink, self._schema, **options)
        return self._parquet

    def _again(self) -> pq.ParquetWriter:
        """Write what was written once more, without the bounds of all columns that have none."""
        assert self._parquet is not None
        with self._file.writing():
            self._parquet.close()
        written = pq.ParquetFile(self._file.begin_again())
        parquet = self._open()
        for at in range(written.num_row_groups):
            rows = written.read_row_group(at)
            columns = [_as_stored(rows.column(f.name), f.type) for f in self._schema]
            table = pa.Table.from_arrays(columns, schema=self._schema)
            with self._file.writing():
                parquet.write_table(table, row_group_size=max(1, table.num_rows))
        return parquet

    def finish(
        self,
        *,
        inserts: int,
        updates: int = 0,
        deletes: int = 0,
        replaces: tuple[str, str] | None = None,
        changes: Mapping[str, int] | None = None,
    ) -> WriteStat:
        """Write the footer and return what Hudi records of the file.

        `replaces` are instant and name of the base file that this one is the next version of, and
        `changes` the change log beside it.
        """
        self._flush()
        parquet = self._parquet or self._open()
        if not self._nans <= self._unbounded:
            parquet = self._again()
        parquet.add_key_value_metadata(self._footer())
        with self._file.writing():
            parquet.close()
        size_bytes = self._file.finish()
        instant, name = replaces or (NO_PREVIOUS_COMMIT, None)
        return WriteStat(
            file_id=self._file_id,
            path=self._file.path,
            partition_path=self._partition,
            prev_commit=instant,
            prev_base_file=name,
            cdc_stats=changes,
            num_writes=self.row_count,
            num_inserts=inserts,
            num_update_writes=updates,
            num_deletes=deletes,
            total_write_bytes=size_bytes,
            file_size_in_bytes=size_bytes,
            column_bounds=self._bounds(parquet),
            new_keys=together(self._new_keys),
            **NO_LOG_STATS,
        )

    def _bounds(self, parquet: pq.ParquetWriter) -> Mapping[str, ColumnBounds] | None:
        if not self._bounded:
            return None
        return footer_bounds(parquet.writer.metadata, self._bounded, nans=self._nans)

    def _footer(self) -> Mapping[str, str]:
        entries = _schema_entries(self._spec)
        bloom = self._spec.parquet.bloom
        if bloom is None or not self._spec.populate_meta_fields:
            return entries
        keys = pa.chunked_array([c for k in self._keys for c in k.chunks], pa.string())
        built = BloomFilter.build(
            keys.combine_chunks(),
            kind=bloom.kind,
            entries=bloom.entries,
            false_positives=bloom.false_positives,
            max_entries=bloom.max_entries,
        )
        least_greatest = pc.min_max(keys).as_py()
        span = (least_greatest["min"], least_greatest["max"]) if len(keys) else None
        return {**entries, **parquet_footer.key_entries(built, span)}

    def discard(self) -> None:
        """Take the file away, unfinished as it is."""
        self.close()
        self._file.discard()

    def close(self) -> None:
        """Let go of the file."""
        # An unfinished Parquet writer would try to end its file once nobody holds it.
        if self._parquet is not None:
            with suppress(OSError, pa.ArrowException):
                self._parquet.close()
        self._file.close()


def together(keys: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray | None:
    """Return several columns of keys as one, None when there are none."""
    chunks = [chunk for part in keys for chunk in part.chunks]
    return pa.chunked_array(chunks, pa.string()) if chunks else None


def stamped(
    rows: pa.Table, numbers: Any, spec: WriteSpec, token: WriteToken, partition: str
) -> pa.Table:
    """Return `rows`, which are `numbers` in their file, with the meta columns of this write."""
    count = rows.num_rows
    filled = spec.populate_meta_fields
    values = {
        COMMIT_TIME: constant(spec.instant_time if filled else None, count),
        SEQUENCE_NUMBER: sequence_numbers(spec.instant_time, token.task, numbers)
        if filled
        else pa.nulls(count, pa.string()),
        RECORD_KEY: rows.column(RECORD_KEY) if filled else pa.nulls(count, pa.string()),
        PARTITION_PATH: constant(partition if filled else None, count),
    }
    user = [name for name in rows.column_names if name not in META_COLUMNS]
    return pa.table({**values, **{name: rows.column(name) for name in user}})


def _as_stored(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if pa.types.is_dictionary(kind):
        return column.dictionary_encode().cast(kind)
    return column.cast(kind, safe=False)


#: The counters that speak of logs and compaction, in the stat of a file that has to do with none.
NO_LOG_STATS: Mapping[str, Any] = {
    "total_write_errors": 0,
    "total_log_records": 0,
    "total_log_files_compacted": 0,
    "total_log_size_compacted": 0,
    "total_updated_records_compacted": 0,
    "total_log_blocks": 0,
    "total_corrupt_log_block": 0,
    "total_rollback_blocks": 0,
    "total_log_read_time_ms": 0,
    "num_updates": 0,
    "runtime_stats": RuntimeStats(total_scan_time=0, total_create_time=0, total_upsert_time=0),
}
