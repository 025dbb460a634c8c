"""The bounds of columns in one file: from the footer of a base file, or from the rows of a log.

They must never be too narrow, because readers leave out files by them. Where a bound is not known
it is the widest that the type has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelake.files.write_task import WriteSpec
from tidelake.formats.column_bounds import ColumnBounds, Physical, ValueKind, joined
from tidelake.formats.table_schema import parse_avro
from tidelake.records.schema import META_COLUMNS

_EXACT = Context(prec=100)
_PLAIN = {
    "boolean": ValueKind.BOOLEAN,
    "int": ValueKind.INT,
    "long": ValueKind.LONG,
    "float": ValueKind.FLOAT,
    "double": ValueKind.DOUBLE,
    "string": ValueKind.STRING,
    "bytes": ValueKind.BYTES,
    "fixed": ValueKind.FIXED,
}
_LOGICAL = {
    ("string", "uuid"): ValueKind.UUID,
    ("int", "date"): ValueKind.DATE,
    ("int", "time-millis"): ValueKind.TIME_MILLIS,
    ("long", "time-micros"): ValueKind.TIME_MICROS,
    ("long", "timestamp-millis"): ValueKind.TIMESTAMP_MILLIS,
    ("long", "timestamp-micros"): ValueKind.TIMESTAMP_MICROS,
    ("long", "timestamp-nanos"): ValueKind.TIMESTAMP_NANOS,
    ("long", "local-timestamp-millis"): ValueKind.LOCAL_TIMESTAMP_MILLIS,
    ("long", "local-timestamp-micros"): ValueKind.LOCAL_TIMESTAMP_MICROS,
    ("long", "local-timestamp-nanos"): ValueKind.LOCAL_TIMESTAMP_NANOS,
}
_UNITS = {
    ValueKind.TIMESTAMP_MILLIS: "ms",
    ValueKind.LOCAL_TIMESTAMP_MILLIS: "ms",
    ValueKind.TIMESTAMP_MICROS: "us",
    ValueKind.LOCAL_TIMESTAMP_MICROS: "us",
    ValueKind.TIMESTAMP_NANOS: "ns",
    ValueKind.LOCAL_TIMESTAMP_NANOS: "ns",
}
_INTS = frozenset({ValueKind.INT, ValueKind.TIME_MILLIS})
_FLOATS = frozenset({ValueKind.FLOAT, ValueKind.DOUBLE})
_TEXTS = frozenset({ValueKind.STRING, ValueKind.UUID})
_BINARIES = frozenset({ValueKind.BYTES, ValueKind.FIXED})
#: First and last day of the years 1 to 9999, as days since 1970. Apache Hudi fails on bounds that
#: are much wider, or finds nothing between them.
_DAYS = (-719_162, 2_932_896)
_PER_DAY = {
    ValueKind.DATE: 1,
    ValueKind.TIMESTAMP_MILLIS: 86_400_000,
    ValueKind.LOCAL_TIMESTAMP_MILLIS: 86_400_000,
    ValueKind.TIMESTAMP_MICROS: 86_400_000_000,
    ValueKind.LOCAL_TIMESTAMP_MICROS: 86_400_000_000,
}
#: Nothing that is text sorts behind it.
_LAST_TEXT = "\U0010ffff"
_LAST_BYTES = b"\xff" * 64


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """What the values of a column are; `info` are precision and scale of a decimal."""

    kind: ValueKind
    info: str | None = None


@lru_cache(maxsize=64)
def column_kinds(schema: str) -> Mapping[str, ColumnKind]:
    """Return the top-level columns of an Avro schema that have bounds, meta columns included."""
    found = {name: ColumnKind(ValueKind.STRING) for name in META_COLUMNS}
    named: dict[str, Any] = {}
    for field in parse_avro(schema)["fields"]:
        kind = _kind_of(field["type"], named)
        if kind is not None:
            found[field["name"]] = kind
    return found


def bounded_kinds(spec: WriteSpec) -> Mapping[str, ColumnKind]:
    """Return the columns of which a write tells the bounds."""
    known = column_kinds(spec.schema)
    return {name: known[name] for name in spec.bounded_columns if name in known}


def _kind_of(node: Any, named: dict[str, Any]) -> ColumnKind | None:
    if isinstance(node, list):
        branches = [branch for branch in node if branch != "null"]
        return _kind_of(branches[0], named) if len(branches) == 1 else None
    if isinstance(node, str):
        node = named.get(node, {"type": node})
    if isinstance(node.get("type"), (dict, list)):
        return _kind_of(node["type"], named)
    if node["type"] == "fixed":
        named[node["name"]] = node
    word = node.get("logicalType")
    if word == "decimal":
        return ColumnKind(ValueKind.DECIMAL, f"{node['precision']},{node.get('scale', 0)}")
    kind = _LOGICAL.get((node["type"], word)) or _PLAIN.get(node["type"])
    return None if kind is None else ColumnKind(kind)


def widest(kind: ColumnKind, rows: int) -> ColumnBounds:
    """Return bounds that hold for any values in `rows` rows, null or not.

    Dates and times are taken to be of the years that Spark has them for, 1 to 9999.
    """
    least, greatest = _extremes(kind)
    return ColumnBounds(
        kind=kind.kind,
        info=kind.info,
        minimum=least,
        maximum=greatest,
        value_count=2 * max(1, rows),
        null_count=max(1, rows),
    )


def _extremes(kind: ColumnKind) -> tuple[Physical, Physical]:
    if kind.kind is ValueKind.BOOLEAN:
        return False, True
    if kind.kind in _FLOATS:
        return -math.inf, math.nan
    if kind.kind in _TEXTS:
        return "", _LAST_TEXT
    if kind.kind in _BINARIES:
        return b"", _LAST_BYTES
    if kind.kind is ValueKind.DECIMAL:
        most = 10 ** int((kind.info or "38").partition(",")[0]) - 1
        return -most, most
    if kind.kind in _PER_DAY:
        first, last = _DAYS
        return first * _PER_DAY[kind.kind], (last + 1) * _PER_DAY[kind.kind] - 1
    bits = 31 if kind.kind in _INTS else 63
    return -(2**bits), 2**bits - 1


def footer_bounds(
    footer: pq.FileMetaData, kinds: Mapping[str, ColumnKind], *, nans: Iterable[str] | None = None
) -> Mapping[str, ColumnBounds]:
    """Return the bounds of the columns in `kinds` from the footer of a base file.

    Footers do not tell of numbers that are none: `nans` are the columns that have such, None where
    nobody knows.
    """
    odd = None if nans is None else frozenset(nans)
    chunks: dict[str, list[ColumnBounds]] = {}
    for at in range(footer.num_row_groups):
        group = footer.row_group(at)
        for number in range(group.num_columns):
            chunk = group.column(number)
            kind = kinds.get(chunk.path_in_schema)
            if kind is not None:
                has_nans = odd is None or chunk.path_in_schema in odd
                bounds = _chunk_bounds(chunk, kind, has_nans=has_nans)
                chunks.setdefault(chunk.path_in_schema, []).append(bounds)
    rows = footer.num_rows
    return {
        name: joined(chunks.get(name, ())) or (widest(kind, rows) if rows else _nothing(kind))
        for name, kind in kinds.items()
    }


def _chunk_bounds(chunk: Any, kind: ColumnKind, *, has_nans: bool) -> ColumnBounds:
    stats = chunk.statistics
    count = chunk.num_values
    nulls = None if stats is None or not stats.has_null_count else stats.null_count
    if nulls is None:
        return widest(kind, count)
    least = greatest = None
    if nulls < count:
        least, greatest = _extremes(kind)
        if stats.has_min_max:
            least = _from_footer(stats.min_raw, kind)
            greatest = _from_footer(stats.max_raw, kind)
        if kind.kind in _FLOATS and has_nans:
            greatest = math.nan
    return ColumnBounds(
        kind=kind.kind,
        info=kind.info,
        minimum=least,
        maximum=greatest,
        value_count=count,
        null_count=nulls,
        packed_bytes=chunk.total_compressed_size,
        plain_bytes=chunk.total_uncompressed_size,
    )


def _from_footer(raw: Any, kind: ColumnKind) -> Physical:
    if kind.kind is ValueKind.DECIMAL and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    if kind.kind in _TEXTS and isinstance(raw, bytes):
        return raw.decode()
    return raw


def row_bounds(rows: pa.Table, kinds: Mapping[str, ColumnKind]) -> Mapping[str, ColumnBounds]:
    """Return the bounds of the columns in `kinds` over rows; a column that they lack is unknown."""
    return {
        name: _column_bounds(rows.column(name), kind)
        if name in rows.column_names
        else widest(kind, rows.num_rows)
        for name, kind in kinds.items()
    }


def no_rows(kinds: Mapping[str, ColumnKind]) -> Mapping[str, ColumnBounds]:
    """Return the bounds in a file without rows, such as a log of deletes."""
    return {name: _nothing(kind) for name, kind in kinds.items()}


def joined_columns(
    parts: Sequence[Mapping[str, ColumnBounds]], kinds: Mapping[str, ColumnKind]
) -> Mapping[str, ColumnBounds]:
    """Return what holds for the rows of several blocks."""
    return {
        name: joined([part[name] for part in parts]) or _nothing(kind)
        for name, kind in kinds.items()
    }


def nan_columns(rows: pa.Table, floats: Iterable[str]) -> set[str]:
    """Return those of the columns `floats` that hold numbers that are none."""
    return {name for name in floats if pc.any(pc.is_nan(rows.column(name))).as_py()}


def _nothing(kind: ColumnKind) -> ColumnBounds:
    return ColumnBounds(
        kind=kind.kind, info=kind.info, minimum=None, maximum=None, value_count=0, null_count=0
    )


def _column_bounds(column: pa.ChunkedArray, kind: ColumnKind) -> ColumnBounds:
    count, nulls = len(column), column.null_count
    least: Any = None
    greatest: Any = None
    if nulls < count:
        plain = _comparable(column, kind)
        found = pc.min_max(plain).as_py()
        least, greatest = found["min"], found["max"]
        if kind.kind in _FLOATS and pc.any(pc.is_nan(plain)).as_py():
            greatest = math.nan
            least = math.nan if pc.all(pc.is_nan(plain)).as_py() else least
        if kind.kind is ValueKind.DECIMAL:
            scale = int((kind.info or ",0").partition(",")[2])
            least, greatest = (int(v.scaleb(scale, _EXACT)) for v in (least, greatest))
    return ColumnBounds(
        kind=kind.kind,
        info=kind.info,
        minimum=least,
        maximum=greatest,
        value_count=count,
        null_count=nulls,
    )


def _comparable(column: pa.ChunkedArray, kind: ColumnKind) -> pa.ChunkedArray:
    """Return a column of the numbers or texts that are stored."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    unit = _UNITS.get(kind.kind)
    if unit is not None and pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp(unit, column.type.tz), safe=False).cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_time(column.type):
        column = column.cast(pa.int64() if column.type.bit_width == 64 else pa.int32())
    elif pa.types.is_fixed_size_binary(column.type) and kind.kind in _BINARIES:
        column = column.cast(pa.binary())
    return column
