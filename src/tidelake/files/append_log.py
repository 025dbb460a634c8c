"""Rows into log files: data blocks, then delete blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidelake.errors import SchemaError
from tidelake.files.avro_encoder import encode_items, encode_records
from tidelake.files.base_file import BaseFile
from tidelake.files.base_writer import NO_LOG_STATS, parquet_bytes, stamped, together
from tidelake.files.column_stats import bounded_kinds, joined_columns, row_bounds, widest
from tidelake.files.incoming import (
    Incoming,
    all_incoming,
    distinct,
    each_incoming,
    joined,
    lean,
    read_spec,
)
from tidelake.files.layout import Layout, as_series
from tidelake.files.new_file import NewFile, in_partition
from tidelake.files.read_slice import read_slice
from tidelake.files.task import SliceTask
from tidelake.files.write_task import Change, GroupTarget, LogFormat, WriteSpec, WriteToken
from tidelake.formats import delete_block, record_positions
from tidelake.formats.column_bounds import ColumnBounds
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.delete_block import OrderingKind
from tidelake.formats.file_name import format_log
from tidelake.formats.log_block import BlockKind, HeaderKey, avro_block, encode_block
from tidelake.formats.marker_name import MarkerKind
from tidelake.model.table_format import TableFormat
from tidelake.records._polars import polars as pl
from tidelake.records.merge import Rows
from tidelake.records.meta_columns import constant, with_meta_columns
from tidelake.records.required import require_values
from tidelake.records.schema import FILE_NAME, RECORD_KEY
from tidelake.storage import Storage

#: Where the milliseconds of an instant time end.
_TIME_OF_DAY_END = 17


def append_log(
    storage: Storage,
    batches: Iterable[pa.RecordBatch],
    target: GroupTarget,
    token: WriteToken,
    spec: WriteSpec,
) -> list[WriteStat]:
    """Write the rows to log files of the target's latest slice, one stat a file.

    With `combine` the rows are held and each key is written once; else they are held up to the
    size of a block. No file is made for no row. Partial rows go to blocks that have only the
    columns which these rows bring.
    """
    layout = Layout.of(read_spec(spec))
    log = _Log(storage, target, token, spec, layout)
    try:
        known = _Keys(storage, target, spec)
        if spec.combine:
            new = all_incoming(batches, layout, spec.column_sets)
            if new is not None:
                known.refuse_duplicates(new)
                log.add(lean(known.completed(distinct(new, layout))))
        else:
            for new in each_incoming(batches, layout, spec.column_sets):
                known.refuse_duplicates(new)
                log.add(lean(known.completed(new)))
        return log.finish()
    finally:
        log.close()


@dataclass(slots=True)
class _Keys:
    """The keys that the target's latest slice has, read when a partial row may be new."""

    storage: Storage
    target: GroupTarget
    spec: WriteSpec
    _found: pl.Series | None = None
    _twice: pl.Series | None = None

    def completed(self, new: Incoming) -> Incoming:
        """Return the rows, partial ones whose key is new as whole rows.

        A partial record that meets no other is more than Apache Hudi 1.2 can read, and one that
        comes after a delete would get values of the row that was deleted there.
        """
        if not self.spec.completes_new or not new.absent:
            return new
        # Rows of keys that are known bring no path, and need no look.
        is_open = ~new.absent.get(FILE_NAME, np.zeros(len(new), np.bool_))
        is_open &= np.logical_or.reduce(list(new.absent.values()))
        if not is_open.any():
            return new
        keys = as_series(new.rows.column(RECORD_KEY))
        is_new = is_open & ~keys.is_in(self._keys().implode()).to_numpy()
        change = np.where(is_new, int(Change.INSERT), new.change)
        absent = {name: flags & ~is_new for name, flags in new.absent.items()}
        return replace(new, change=change, absent=absent)

    def refuse_duplicates(self, new: Incoming) -> None:
        """Raise `SchemaError` for rows read from the table whose key the base file has twice.

        A log knows rows by their keys, and readers look for one row of a key in the base file.
        """
        target = self.target
        if new.became is None or target.base_path is None:
            return
        if self._twice is None:
            task = SliceTask(
                partition=target.partition,
                file_id=target.file_id,
                base_path=target.base_path,
                base_instant=target.base_instant,
            )
            reading = replace(read_spec(self.spec), columns=(RECORD_KEY,))
            file = BaseFile(self.storage, task, reading)
            keys = as_series(file.read(Layout.of(reading).keys).column(RECORD_KEY))
            self._twice = keys.filter(keys.is_duplicated()).unique()
        own = as_series(new.rows.column(RECORD_KEY))
        clash = own.filter(own.is_in(self._twice.implode()))
        if len(clash):
            raise SchemaError(
                f"key {clash[0]!r} is there several times in {target.base_path}, and a log does "
                "not tell its rows apart",
                next_step="overwrite the partition with the rows that are to stay "
                "(Table.insert_overwrite); nothing was written",
            )

    def _keys(self) -> pl.Series:
        if self._found is None:
            target = self.target
            task = SliceTask(
                partition=target.partition,
                file_id=target.file_id,
                base_path=target.base_path,
                base_instant=target.base_instant,
                log_paths=tuple(in_partition(target.partition, n) for n in target.log_names),
            )
            reading = replace(read_spec(self.spec), columns=(RECORD_KEY,))
            parts = [as_series(batch.column(0)) for batch in read_slice(task, reading)]
            self._found = pl.concat([pl.Series([], dtype=pl.String), *parts])
        return self._found


@dataclass(slots=True)
class _Held:
    """Rows that wait for a block, all without the same columns, and how that block is written."""

    spec: WriteSpec
    rows: list[Incoming] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def schema(self) -> str:
        """Return the Avro schema of the block."""
        return with_meta_columns(self.spec.schema, self.spec.dropped_columns)


class _Log:
    """The log files of one append."""

    def __init__(
        self,
        storage: Storage,
        target: GroupTarget,
        token: WriteToken,
        spec: WriteSpec,
        layout: Layout,
    ) -> None:
        self._storage = storage
        self._target = target
        self._token = token
        self._spec = spec
        self._layout = layout
        self._schema = with_meta_columns(spec.schema, spec.dropped_columns)
        self._rows_before = 0
        self._data: dict[tuple[str, ...], _Held] = {}
        self._deletes: list[Incoming] = []
        self._file: NewFile | None = None
        self._counts = Counter[str]()
        self._stats: list[WriteStat] = []
        self._bounded = bounded_kinds(spec)
        self._bounds: list[Mapping[str, ColumnBounds]] = []
        self._new_keys: list[pa.ChunkedArray] = []

    def add(self, new: Incoming) -> None:
        """Take rows; a block is written once there are enough."""
        if new.is_delete.any():
            self._deletes.append(new.take(np.flatnonzero(new.is_delete)))
            new = new.take(np.flatnonzero(~new.is_delete))
        for absent, part in _by_columns(new):
            held = self._held(absent)
            require_values(part.rows, held.schema if absent else self._spec.schema)
            held.rows.append(part)
            held.size_bytes += part.rows.nbytes
            if held.size_bytes >= self._spec.log.max_block_size_bytes:
                self._flush_data(absent)

    def _held(self, absent: tuple[str, ...]) -> _Held:
        if absent not in self._data:
            version = self._spec.table_version
            if absent and not TableFormat(version).has_partial_blocks:
                raise ValueError(f"a table of version {version} takes no partial rows")
            without = (*self._spec.dropped_columns, *absent)
            self._data[absent] = _Held(replace(self._spec, dropped_columns=without))
        return self._data[absent]

    def finish(self) -> list[WriteStat]:
        """Write what is held and return the stats."""
        for absent in list(self._data):
            self._flush_data(absent)
        self._flush_deletes()
        self._finish_file()
        return self._stats

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def _flush_data(self, absent: tuple[str, ...]) -> None:
        held = self._data.pop(absent)
        new, positions = self._by_position(joined(held.rows))
        numbers = 1 + self._rows_before + np.arange(len(new), dtype=np.int64)
        self._rows_before += len(new)
        rows = stamped(new.rows, numbers, self._spec, self._token, self._target.partition)
        name = self._target.file_id if self._spec.populate_meta_fields else None
        rows = rows.append_column(FILE_NAME, constant(name, len(new)))
        headers = self._headers(positions, held.schema)
        if absent:
            headers[HeaderKey.IS_PARTIAL] = "true"
        if self._spec.log.format is LogFormat.PARQUET:
            block = encode_block(BlockKind.PARQUET_DATA, headers, parquet_bytes(rows, held.spec))
        else:
            block = encode_block(BlockKind.AVRO_DATA, headers, _avro(rows, held.schema))
        self._write(block)
        if self._spec.record_index is not None:
            self._new_keys.append(new.rows.column(RECORD_KEY))
        if self._bounded:
            # A column that the rows leave as it is may hold anything after the merge.
            kept = {n: widest(k, len(new)) for n, k in self._bounded.items() if n in absent}
            given = {n: k for n, k in self._bounded.items() if n not in kept}
            self._bounds.append({**kept, **row_bounds(rows, given)})
        updates = int((new.change == Change.UPDATE).sum())
        self._counts.update(writes=len(new), updates=updates, inserts=len(new) - updates)

    def _flush_deletes(self) -> None:
        if not self._deletes:
            return
        new = joined(self._deletes)
        self._deletes = []
        by_arrival = new.by_arrival if new.ordering else np.ones(len(new), np.bool_)
        # Hudi would mix them, but hudi-rs reads no block with ordering values of two types.
        for chosen, is_ordered in ((by_arrival, False), (~by_arrival, True)):
            if chosen.any():
                part, positions = self._by_position(new.take(np.flatnonzero(chosen)))
                content = delete_block.join(self._delete_records(part, is_ordered=is_ordered))
                headers = self._headers(positions, self._schema)
                self._write(encode_block(BlockKind.DELETE, headers, content))
                self._counts.update(deletes=len(part))

    def _headers(self, positions: Rows | None, schema: str) -> dict[int, str]:
        found: dict[int, str] = {
            HeaderKey.INSTANT_TIME: self._spec.instant_time,
            HeaderKey.SCHEMA: schema,
        }
        if positions is not None:
            assert self._target.base_instant is not None
            found[HeaderKey.RECORD_POSITIONS] = record_positions.encode(positions)
            found[HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS] = self._target.base_instant
        return found

    def _by_position(self, new: Incoming) -> tuple[Incoming, Rows | None]:
        """Return the rows sorted by their positions in the base file, if all have one of their own.

        Readers give the i-th smallest position to the i-th record of the block.
        """
        if (
            not self._spec.positions
            or not TableFormat(self._spec.table_version).has_own_logs
            or self._target.base_instant is None
            or new.position is None
            or new.position.null_count
        ):
            return new, None
        positions = new.position.to_numpy().astype(np.int64)
        order = np.argsort(positions, kind="stable")
        ascending = positions[order]
        if (ascending[1:] == ascending[:-1]).any():
            return new, None
        return new.take(order), ascending

    def _delete_records(self, new: Incoming, *, is_ordered: bool) -> Iterable[tuple[int, bytes]]:
        columns = [(OrderingKind.INT, pa.array(np.zeros(len(new), np.int32)))]
        if is_ordered:
            columns = [_ordering_column(values) for values in new.ordering]
        kinds = [kind for kind, _ in columns]
        given = {
            "recordKey": new.rows.column(RECORD_KEY),
            "partitionPath": constant(self._target.partition, len(new)),
            **{f"value_{at}": values for at, (_, values) in enumerate(columns)},
            **{
                name: pa.repeat(pa.scalar(value, pa.int32()), len(new))
                for name, value in delete_block.record_constants(kinds).items()
            },
        }
        return encode_items(pa.table(given), delete_block.record_schema(kinds))

    def _write(self, block: bytes) -> None:
        if (
            self._file is not None
            and self._file.sink.tell() + len(block) > self._spec.log.max_file_size_bytes
        ):
            self._finish_file()
        if self._file is None:
            path = in_partition(self._target.partition, self._name())
            kind = MarkerKind.of_log(self._spec.table_version)
            self._file = NewFile(self._storage, self._spec, path, kind)
        with self._file.writing():
            self._file.sink.write(block)

    @property
    def _version(self) -> int:
        return self._target.log_version + len(self._stats)

    @property
    def _is_by_slice(self) -> bool:
        """Return whether logs are named after their slice, and not after their own instant."""
        return not TableFormat(self._spec.table_version).has_own_logs

    def _name(self) -> str:
        instant = self._spec.instant_time
        token = self._token
        if self._is_by_slice:
            # Another writer may choose the same version of the same slice, and its tasks may have
            # the same numbers; the time of an instant is its own.
            token = replace(token, stage=int(instant[8:_TIME_OF_DAY_END]))
            instant = self._target.slice_instant or instant
        return format_log(
            file_id=self._target.file_id,
            instant_time=instant,
            version=self._version,
            write_token=token.format(),
        )

    def _finish_file(self) -> None:
        if self._file is None:
            return
        size_bytes = self._file.finish()
        target, counts = self._target, self._counts
        name = self._file.path.rpartition("/")[2]
        own = [stat.path.rpartition("/")[2] for stat in self._stats if stat.path is not None]
        instant, base_file = self._spec.instant_time, ""
        log_files: tuple[str, ...] = (name,)
        if self._is_by_slice or self._spec.cdc is not None:
            # Readers of changes find the rows before this write by these.
            instant = target.slice_instant or instant
            base_file = (target.base_path or "").rpartition("/")[2]
            log_files = (*target.log_names, *own, name)
        self._stats.append(
            WriteStat(
                file_id=target.file_id,
                path=self._file.path,
                partition_path=target.partition,
                prev_commit=instant,
                num_writes=counts["writes"],
                num_inserts=counts["inserts"],
                num_update_writes=counts["updates"],
                num_deletes=counts["deletes"],
                total_write_bytes=size_bytes,
                file_size_in_bytes=size_bytes,
                log_version=self._version,
                log_offset=0,
                base_file=base_file,
                log_files=log_files,
                column_bounds=joined_columns(self._bounds, self._bounded)
                if self._bounded
                else None,
                new_keys=together(self._new_keys),
                **NO_LOG_STATS,
            )
        )
        self._file, self._counts, self._bounds, self._new_keys = None, Counter(), [], []


def _avro(rows: pa.Table, schema: str) -> bytes:
    parts = list(encode_records(rows, schema))
    return avro_block(sum(count for count, _ in parts), [data for _, data in parts])


def _by_columns(new: Incoming) -> Iterator[tuple[tuple[str, ...], Incoming]]:
    """Return the rows apart by the columns that they do not bring."""
    if not len(new):
        return
    names = [name for name, flags in new.absent.items() if flags.any()]
    if not names:
        yield (), new
        return
    flags = np.stack([new.absent[name] for name in names], axis=1)
    patterns, which = np.unique(flags, axis=0, return_inverse=True)
    for at, pattern in enumerate(patterns):
        absent = tuple(name for name, gone in zip(names, pattern, strict=True) if gone)
        yield absent, new.take(np.flatnonzero(which.reshape(-1) == at))


def _ordering_column(values: pl.Series) -> tuple[OrderingKind, pa.Array]:
    """Return ordering values as the Java type that Hudi compares them in.

    Of dates and times that is the plain number: Spark's readers hold them so, and a value of
    another class would be an error there. A row without a value has Hudi's default, zero.
    """
    dtype = values.dtype
    if dtype == pl.Date:
        values = values.cast(pl.Int32)
    elif isinstance(dtype, pl.Datetime):
        values = values.cast(pl.Int64)
    kind = _KIND_OF[values.dtype.base_type().__name__]
    return kind, values.fill_null(_ZERO.get(kind, 0)).to_arrow(compat_level=pl.CompatLevel.oldest())


#: By the names of polars types, which is not imported for them alone.
_KIND_OF: Mapping[str, OrderingKind] = {
    "Boolean": OrderingKind.BOOLEAN,
    "Int32": OrderingKind.INT,
    "Int64": OrderingKind.LONG,
    "Float32": OrderingKind.FLOAT,
    "Float64": OrderingKind.DOUBLE,
    "String": OrderingKind.STRING,
    "Binary": OrderingKind.BYTES,
    "Decimal": OrderingKind.DECIMAL,
}
_ZERO: Mapping[OrderingKind, object] = {
    OrderingKind.BOOLEAN: False,
    OrderingKind.STRING: "",
    OrderingKind.BYTES: b"",
}
