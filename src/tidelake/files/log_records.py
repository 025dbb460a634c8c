"""The log files of a slice, decoded to the records that a merge works on."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelake.errors import Malformed, reading
from tidelake.files.avro_records import decode_records
from tidelake.files.layout import Layout, as_series
from tidelake.files.own_place import refuse_blocks_of_another
from tidelake.files.task import ReadSpec, SliceTask
from tidelake.formats import delete_block, record_positions
from tidelake.formats._inflation import most_inflated
from tidelake.formats.delete_block import DeleteRecords, OrderingKind
from tidelake.formats.hfile import HFile
from tidelake.formats.log_block import (
    BlockKind,
    LogBlock,
    decode_blocks,
    join_avro_blocks,
    split_avro_block,
    valid_blocks,
)
from tidelake.records._polars import polars as pl
from tidelake.records.merge import Flags, LogRecords, Ordering, concat_ordering
from tidelake.records.schema import (
    IS_DELETED,
    META_COLUMNS,
    OPERATION,
    RECORD_KEY,
    Source,
    conform,
    field_column,
)
from tidelake.records.schema_versions import column_sources
from tidelake.records.text import java_text
from tidelake.storage import Storage

_log = logging.getLogger(__name__)

_DELETE_OPERATIONS = ("D", "-U")
#: What the values of a column in a Parquet block may need at any ratio; others may need more.
_MOST_DECODED_BYTES = 1 << 30
_OF_ANY_LENGTH = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
#: What blocks that are decoded together have at most.
_RUN_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """A block that counts, and where it lies; its content may have been left on storage."""

    path: str
    block: LogBlock
    size_bytes: int

    def load(self, storage: Storage) -> LogBlock:
        """Return the block with its content."""
        if len(self.block.content):
            return self.block
        data = storage.read_range(self.path, self.block.offset, self.size_bytes)
        found = decode_blocks(data)
        if len(found) != 1 or found[0].headers != self.block.headers:
            raise Malformed(f"the block at offset {self.block.offset} changed while it was read")
        return found[0]


@dataclass(frozen=True, slots=True)
class Share:
    """The keys whose hash falls to `index` of `of` parts."""

    index: int = 0
    of: int = 1

    def holds(self, keys: pl.Series) -> pl.Series:
        """Return, for each key, whether it belongs to the share."""
        return keys.hash() % self.of == self.index


@dataclass(frozen=True, slots=True)
class _Part:
    """The records of one block."""

    keys: pl.Series
    is_delete: Flags
    by_arrival: Flags
    ordering: Ordering
    rows: pa.Table | None
    absent: frozenset[str] = frozenset()
    is_partial: bool = False

    def only(self, chosen: Flags) -> _Part:
        mask = pl.Series(chosen)
        return _Part(
            self.keys.filter(mask),
            self.is_delete[chosen],
            self.by_arrival[chosen],
            tuple(values.filter(mask) for values in self.ordering),
            None if self.rows is None else self.rows.filter(pa.array(chosen)),
            self.absent,
            self.is_partial,
        )


def scan_logs(storage: Storage, task: SliceTask, spec: ReadSpec) -> list[PlacedBlock]:
    """Return the data and delete blocks of a slice's logs, in merge order, that the query applies.

    What a crash leaves is passed over, as in Hudi; but a log of exactly the size that was committed
    holds blocks only, or `CorruptFileError` is raised. Once the blocks hold more than the budget,
    contents are left on storage and loaded one by one.
    """
    placed: dict[int, PlacedBlock] = {}
    blocks: list[LogBlock] = []
    held_bytes = 0
    for path, committed in zip_longest(task.log_paths, task.committed_log_bytes):
        with reading(path):
            data = storage.read(path)
            _tell_if_short(path, len(data), committed)
            held_bytes += len(data)
            found = decode_blocks(data)
            if spec.names_places:
                refuse_blocks_of_another(path, found)
            for block, following in zip_longest(found, found[1:]):
                end = following.offset if following else len(data)
                if block.kind is BlockKind.CORRUPT:
                    if len(data) == committed:
                        raise Malformed(
                            f"no block stands at offset {block.offset}, although the file has the "
                            f"{committed} bytes that its commit wrote: {block.damage}"
                        )
                else:
                    # Asking names the file of a block that has neither instant nor known command.
                    _ = block.instant_time, block.is_rollback
                    kept = block
                    if held_bytes > spec.log_budget_bytes:
                        kept = replace(block, content=b"")
                    placed[id(kept)] = PlacedBlock(path, kept, end - block.offset)
                    blocks.append(kept)
    applied = valid_blocks(
        blocks,
        latest_instant=spec.blocks.latest_instant,
        is_visible=lambda t: t in task.archived_instants or spec.blocks.is_visible(t),
        in_range=spec.blocks.in_range,
    )
    return [placed[id(block)] for block in applied]


def _tell_if_short(path: str, size_bytes: int, committed: int | None) -> None:
    """Say that what a commit wrote is gone: the answer lacks it, as Hudi's does."""
    if committed is not None and size_bytes < committed:
        _log.warning(
            "%s has %d bytes, and its commit wrote %d: rows of that write may be missing; "
            "`tidelake check TABLE` names such files",
            path,
            size_bytes,
            committed,
        )


def positions_of(blocks: Sequence[PlacedBlock], base_instant: str | None) -> bool:
    """Return whether every block says which rows of the base file its records belong to."""
    return (
        base_instant is not None
        and bool(blocks)
        and all(
            placed.block.record_positions is not None
            and placed.block.base_instant_of_positions == base_instant
            for placed in blocks
        )
    )


def decode_log(
    storage: Storage,
    blocks: Sequence[PlacedBlock],
    spec: ReadSpec,
    layout: Layout,
    *,
    by_position: bool = False,
    share: Share | None = None,
) -> LogRecords:
    """Decode the blocks to records in merge order.

    With `by_position` records go by the base row that the block headers name, else by record key.
    """
    parts = []
    is_alone = by_position or spec.history is not None
    for run in _runs(storage, blocks, most_bytes=0 if is_alone else _RUN_BYTES):
        for part in _decode_run(run, spec, layout, by_position=by_position):
            if share is not None and share.of > 1:
                kept = part.only(share.holds(part.keys).to_numpy())
            else:
                kept = part
            if len(kept.keys):
                parts.append(kept)
    return _join(parts, layout)


#: Blocks of one schema, each with the path of its file.
_Run = list[tuple[str, LogBlock]]


def _runs(storage: Storage, blocks: Sequence[PlacedBlock], *, most_bytes: int) -> Iterator[_Run]:
    """Yield the blocks with their content; small ones behind each other that are alike together.

    Many writers leave many small blocks, each of which takes longer to set about than to decode.
    """
    run: _Run = []
    size = 0
    for placed in blocks:
        with reading(placed.path):
            block = placed.load(storage)
        size += len(block.content)
        if run and (size > most_bytes or not _are_alike(run[-1][1], block)):
            yield run
            run, size = [], len(block.content)
        run.append((placed.path, block))
    if run:
        yield run


def _are_alike(one: LogBlock, other: LogBlock) -> bool:
    return (
        one.kind is other.kind is BlockKind.AVRO_DATA
        and one.schema == other.schema
        and one.is_partial == other.is_partial
    )


def _decode_run(run: _Run, spec: ReadSpec, layout: Layout, *, by_position: bool) -> Sequence[_Part]:
    if len(run) > 1:
        # What is wrong with one of them is told below, with its path.
        with suppress(Malformed):
            together = join_avro_blocks([block for _, block in run])
            return [_decode_block(together, spec, layout, by_position=by_position)]
    parts = []
    for path, block in run:
        with reading(path):
            parts.append(_decode_block(block, spec, layout, by_position=by_position))
    return parts


def _join(parts: Sequence[_Part], layout: Layout) -> LogRecords:
    tables = [part.rows for part in parts if part.rows is not None]
    rows = pa.concat_tables(tables).combine_chunks() if tables else layout.rows.empty_table()
    at = 0
    row = []
    absent = {name: np.zeros(rows.num_rows, np.bool_) for part in parts for name in part.absent}
    is_partial = np.zeros(rows.num_rows, np.bool_)
    for part in parts:
        if part.rows is None:
            row.append(np.full(len(part.keys), -1, np.int64))
            continue
        end = at + len(part.keys)
        row.append(np.arange(at, end, dtype=np.int64))
        for name in part.absent:
            absent[name][at:end] = True
        is_partial[at:end] = part.is_partial
        at = end
    return LogRecords(
        keys=pl.concat([part.keys for part in parts]) if parts else pl.Series([], dtype=pl.String),
        is_delete=_joined([part.is_delete for part in parts]),
        by_arrival=_joined([part.by_arrival for part in parts]),
        ordering=concat_ordering([part.ordering for part in parts])
        if parts
        else layout.ordering_of(layout.ordering.empty_table()),
        row=np.concatenate(row) if row else np.zeros(0, np.int64),
        rows=rows,
        absent=absent,
        defaults=layout.defaults,
        is_partial=is_partial,
    )


def _joined(parts: Sequence[Flags]) -> Flags:
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def _decode_block(block: LogBlock, spec: ReadSpec, layout: Layout, *, by_position: bool) -> _Part:
    if block.kind is BlockKind.DELETE:
        part = _decode_deletes(block, spec, layout)
    else:
        part = _decode_data(block, spec, layout)
    if not by_position:
        return part
    positions = record_positions.decode(block.record_positions or "", at_most=len(part.keys))
    if len(positions) != len(part.keys):
        raise Malformed(f"{len(positions)} record positions for {len(part.keys)} records")
    return replace(part, keys=pl.Series(positions.astype(np.int64)))


def _decode_data(block: LogBlock, spec: ReadSpec, layout: Layout) -> _Part:
    sources = None if spec.history is None else column_sources(spec.history, block.instant_time)
    wanted = layout.with_rows(layout.keys, layout.ordering, layout.deletes)
    raw = raw_records(block, _names_in_file(wanted, sources))
    table = conform(raw, wanted, sources)
    keys = table.column(RECORD_KEY) if spec.populate_meta_fields else spec.keys.keys(table)
    if keys.null_count:
        raise Malformed(f"{keys.null_count} records of the block have no record key")
    is_delete = deleted(table, layout)
    ordering = layout.ordering_of(table)
    absent: frozenset[str] = frozenset()
    if block.is_partial:
        present = set(raw.column_names)
        absent = frozenset(
            f.name for f in layout.rows if _name_in_file(f.name, sources) not in present
        )
    return _Part(
        as_series(keys),
        is_delete,
        is_delete & without_ordering(ordering),
        ordering,
        table.select(layout.rows.names),
        absent,
        block.is_partial,
    )


def raw_records(block: LogBlock, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the records of a data block in the types of its writer; `columns` narrows them."""
    if block.kind is BlockKind.PARQUET_DATA:
        return _parquet_records(block, columns)
    if block.kind is BlockKind.HFILE_DATA:
        return _hfile_records(block, columns)
    if block.schema is None:
        raise Malformed(f"the block at offset {block.offset} has no schema")
    _, count, body = split_avro_block(block.content)
    return decode_records(body, count, block.schema, columns)


def _parquet_records(block: LogBlock, columns: Sequence[str] | None) -> pa.Table:
    try:
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(block.content)))
        names = file.schema_arrow.names
        chosen = names if columns is None else [name for name in names if name in set(columns)]
        limit = _MOST_DECODED_BYTES + most_inflated(len(block.content))
        shared = _repeated(file.metadata, limit)
        if shared:
            source = pa.BufferReader(pa.py_buffer(block.content))
            file = pq.ParquetFile(source, read_dictionary=shared)
        return _plain(file.read(columns=chosen, use_threads=False), limit)
    except Malformed:
        raise
    except Exception as cause:
        raise Malformed(f"the Parquet block cannot be read: {cause}") from cause


def _repeated(metadata: pq.FileMetaData, limit: int) -> list[str]:
    """Return the columns whose dictionaries may stand for more than `limit` bytes of values."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    chunks = (group.column(at) for group in groups for at in range(group.num_columns))
    return [
        chunk.path_in_schema
        for chunk in chunks
        if chunk.has_dictionary_page and chunk.total_uncompressed_size * chunk.num_values > limit
    ]


def _plain(table: pa.Table, limit: int) -> pa.Table:
    """Return the columns without dictionaries; raise `Malformed` when they need too much memory."""
    for at, column in enumerate(table.columns):
        if not pa.types.is_dictionary(column.type):
            continue
        size_bytes = sum(map(_decoded_bytes, column.chunks))
        if size_bytes > limit:
            raise Malformed(
                f"the column {table.column_names[at]} of the Parquet block unfolds to "
                f"{size_bytes:,} bytes"
            )
        plain = [chunk.dictionary_decode() for chunk in column.chunks]
        field = table.field(at).with_type(column.type.value_type)
        table = table.set_column(at, field, pa.chunked_array(plain, field.type))
    return table


def _decoded_bytes(chunk: pa.DictionaryArray) -> int:
    if not any(fits(chunk.type.value_type) for fits in _OF_ANY_LENGTH):
        return 0  # values of a fixed size: there are as many as rows
    lengths = pc.binary_length(chunk.dictionary).take(chunk.indices)
    return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)


def _hfile_records(block: LogBlock, columns: Sequence[str] | None) -> pa.Table:
    file = HFile.of_bytes(block.content)
    cells = list(file.scan())
    body = b"".join(struct.pack(">i", len(value)) + value for _, value in cells)
    table = decode_records(body, len(cells), block.schema or file.schema, columns)
    at = table.schema.get_field_index(RECORD_KEY)
    if at >= 0 and table.column(at).null_count:
        try:
            texts = [key.decode() for key, _ in cells]
        except UnicodeDecodeError as cause:
            raise Malformed("a key of the HFile block is no UTF-8 text") from cause
        keys = pa.chunked_array([pa.array(texts, pa.string())])
        table = table.set_column(at, RECORD_KEY, pc.coalesce(table.column(at), keys))
    return table


def deleted(table: pa.Table, layout: Layout) -> Flags:
    """Return which rows say of themselves that they are deletes."""
    # Made here: the first array of a process makes Arrow import pandas.
    operations = pa.array(_DELETE_OPERATIONS)
    flags = pc.is_in(table.column(OPERATION), value_set=operations)
    if IS_DELETED in layout.deletes.names:
        marked = table.column(IS_DELETED).cast(pa.bool_())
        flags = pc.or_(flags, pc.fill_null(marked, False))
    name, marker = layout.merge.delete_field, layout.merge.delete_marker
    if name is not None and marker is not None and name.partition(".")[0] in layout.deletes.names:
        text = java_text(field_column(table, name))
        if layout.merge.delete_marker_any_case:
            text, marker = pc.utf8_lower(text), marker.lower()
        flags = pc.or_(flags, pc.fill_null(pc.equal(text, marker), False))
    found: Flags = flags.to_numpy().astype(np.bool_)
    return found


def without_ordering(ordering: Ordering) -> Flags:
    """Return which ordering values are Hudi's default: none at all, or the 32-bit zero."""
    if len(ordering) != 1:
        return np.zeros(len(ordering[0]) if ordering else 1, np.bool_)
    values = ordering[0]
    default = values.is_null()
    if values.dtype == pl.Int32:
        default |= (values == 0).fill_null(False)
    return default.to_numpy()


def _decode_deletes(block: LogBlock, spec: ReadSpec, layout: Layout) -> _Part:
    records = delete_block.decode(block.content)
    keys = records.keys if spec.populate_meta_fields else spec.keys.normal(records.keys)
    ordering, by_arrival = _delete_ordering(records, layout)
    return _Part(
        pl.Series(keys, dtype=pl.String),
        np.ones(len(records), np.bool_),
        by_arrival,
        ordering,
        None,
    )


def _delete_ordering(records: DeleteRecords, layout: Layout) -> tuple[Ordering, Flags]:
    by_arrival = np.fromiter(
        (
            kind is OrderingKind.NULL or (kind is OrderingKind.INT and value == 0)
            for kind, value in zip(records.kinds, records.ordering, strict=True)
        ),
        np.bool_,
        len(records),
    )
    types = [values.dtype for values in layout.ordering_of(layout.ordering.empty_table())]
    if by_arrival.all():
        # The usual case: deletes by key, which know nothing of ordering values.
        return tuple(pl.repeat(None, len(records), dtype=t, eager=True) for t in types), by_arrival
    wanted = len(layout.ordering_fields)
    pairs: list[Sequence[_Pair]] = []
    for kind, value in zip(records.kinds, records.ordering, strict=True):
        given = value if isinstance(value, tuple) else ((kind, value),)
        pairs.append(given if len(given) == wanted else [_NO_VALUE] * wanted)
    ordering = tuple(
        _ordering_series([pair[at] for pair in pairs], dtype) for at, dtype in enumerate(types)
    )
    for values in ordering:
        # A value of another type than the table's cannot be compared; Hudi lets such a delete win.
        by_arrival |= values.is_null().to_numpy()
    return ordering, by_arrival


_Pair = tuple[OrderingKind, object]
_NO_VALUE: _Pair = (OrderingKind.NULL, None)


def _ordering_series(pairs: Sequence[_Pair], dtype: pl.DataType) -> pl.Series:
    kinds = _KINDS_OF.get(dtype.base_type().__name__, _NUMBERS)
    values = [value if kind in kinds else None for kind, value in pairs]
    if dtype.is_temporal():
        made: pl.Series = pl.Series(values, dtype=pl.Int64).cast(dtype)
    elif dtype.is_numeric() and not isinstance(dtype, pl.Decimal):
        made = pl.Series(values, strict=False).cast(dtype, strict=False)
    else:
        made = pl.Series(values, dtype=dtype, strict=False)
    return made


_NUMBERS = (OrderingKind.INT, OrderingKind.LONG, OrderingKind.FLOAT, OrderingKind.DOUBLE)
#: By the names of polars types, which is not imported for them alone.
_KINDS_OF: Mapping[str, tuple[OrderingKind, ...]] = {
    "Boolean": (OrderingKind.BOOLEAN,),
    "String": (OrderingKind.STRING,),
    "Binary": (OrderingKind.BYTES,),
    "Decimal": (OrderingKind.DECIMAL,),
    "Date": (OrderingKind.DATE, OrderingKind.INT),
    "Datetime": (OrderingKind.TIMESTAMP_MICROS, OrderingKind.LONG),
}


def _name_in_file(name: str, sources: Mapping[str, Source] | None) -> str | None:
    if sources is None or name in META_COLUMNS or name not in sources:
        return name
    return sources[name].name


def _names_in_file(wanted: pa.Schema, sources: Mapping[str, Source] | None) -> list[str]:
    names = (_name_in_file(name, sources) for name in wanted.names)
    return [name for name in names if name is not None]
