"""Records of the metadata table written; `formats.metadata_record` reads them.

A value follows `record_schema_text` of its table version. Values are put together by hand, because
most of a record is the same in every record of its kind.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from tidelake.errors import Malformed
from tidelake.formats import avro_file
from tidelake.formats.column_bounds import (
    UNTYPED_DECIMAL,
    ColumnBounds,
    Physical,
    ValueKind,
    decimal_digits,
)
from tidelake.formats.metadata_record import (
    FileEntry,
    RecordLocation,
    RecordType,
)

_NULL = b"\0"
#: The branch of an optional field that has a value.
_SET = b"\2"
_FALSE, _TRUE = b"\0", b"\1"
#: Five meta columns without a value, and the key, which stands outside of the value.
_HEAD = _NULL * 5 + b"\0"
_FIRST_SECONDARY = 8
_FIRST_TYPED = 9

#: Branch of the union of wrappers that holds a value: by how it is stored.
_BRANCH: Mapping[ValueKind, int] = {
    ValueKind.BOOLEAN: 1,
    ValueKind.INT: 2,
    ValueKind.DATE: 2,
    ValueKind.TIME_MILLIS: 2,
    ValueKind.LONG: 3,
    ValueKind.TIME_MICROS: 3,
    ValueKind.TIMESTAMP_MILLIS: 3,
    ValueKind.TIMESTAMP_MICROS: 3,
    ValueKind.TIMESTAMP_NANOS: 3,
    ValueKind.LOCAL_TIMESTAMP_MILLIS: 3,
    ValueKind.LOCAL_TIMESTAMP_MICROS: 3,
    ValueKind.LOCAL_TIMESTAMP_NANOS: 3,
    ValueKind.FLOAT: 4,
    ValueKind.DOUBLE: 5,
    ValueKind.BYTES: 6,
    ValueKind.FIXED: 6,
    ValueKind.DECIMAL: 6,
    ValueKind.STRING: 7,
    ValueKind.UUID: 7,
}
#: Before version 9 a record does not say the kind of its values. What Apache Hudi stores them as.
_UNTYPED: Mapping[ValueKind, ValueKind] = {
    ValueKind.BOOLEAN: ValueKind.BOOLEAN,
    ValueKind.INT: ValueKind.INT,
    ValueKind.DATE: ValueKind.DATE,
    ValueKind.LONG: ValueKind.LONG,
    ValueKind.TIMESTAMP_MICROS: ValueKind.LONG,
    ValueKind.LOCAL_TIMESTAMP_MICROS: ValueKind.LONG,
    ValueKind.FLOAT: ValueKind.FLOAT,
    ValueKind.DOUBLE: ValueKind.DOUBLE,
    ValueKind.BYTES: ValueKind.BYTES,
    ValueKind.DECIMAL: ValueKind.DECIMAL,
    ValueKind.STRING: ValueKind.STRING,
}
#: Branches of wrappers that are no longer used from version 9 on.
_UNTYPED_BRANCH = {**_BRANCH, ValueKind.DATE: 8, ValueKind.DECIMAL: 9}


def encode_files(
    entries: Mapping[str, FileEntry], table_version: int, *, is_partition_list: bool = False
) -> bytes:
    """Return the files of a partition, or the partitions of the table, as a value."""
    for name, entry in entries.items():
        if not (entry.is_deleted or entry.size_bytes > 0 or is_partition_list):
            # Apache Hudi could not list any file of the table after that.
            raise ValueError(f"{name} is listed as a file without content")
    kind = RecordType.PARTITION_LIST if is_partition_list else RecordType.FILE_LIST
    parts = [_HEAD, _long(kind), _SET]
    if entries:
        parts.append(_long(len(entries)))
    for name, entry in entries.items():
        parts += (_text(name), _long(entry.size_bytes), _flag(entry.is_deleted))
    others = 4 if table_version >= _FIRST_SECONDARY else 3
    return b"".join((*parts, b"\0", _NULL * others))


def encode_column_stats(
    bounds: ColumnBounds,
    table_version: int,
    *,
    name: str,
    column: str,
    is_partition: bool = False,
    is_tight: bool = True,
) -> bytes:
    """Return the bounds of a column in the file, or in the partition, of that name.

    They must be what `stored_bounds` makes of them. Those of a partition that are tight count
    alone, others together with earlier ones.
    """
    kind = RecordType.PARTITION_STATS if is_partition else RecordType.COLUMN_STATS
    parts = [_HEAD, _long(kind), _NULL, _NULL, _SET, _SET, _text(name), _SET, _text(column)]
    branch = (_BRANCH if table_version >= _FIRST_TYPED else _UNTYPED_BRANCH).get(bounds.kind, 0)
    parts += (_bound(branch, bounds.kind, value) for value in _told(bounds))
    counts = (bounds.value_count, bounds.null_count, bounds.packed_bytes, bounds.plain_bytes)
    parts += (_SET + _long(count) for count in counts)
    parts.append(_FALSE)
    if table_version >= _FIRST_SECONDARY:
        parts.append(_flag(is_partition and is_tight))
    if table_version >= _FIRST_TYPED:
        # Apache says of a log without rows that its columns have no type.
        ordinal = bounds.kind if bounds.value_count else ValueKind.NULL
        info = None if ordinal is ValueKind.NULL else bounds.info
        parts += (_SET, _long(ordinal), _NULL if info is None else _SET + _text(info))
    others = 2 if table_version >= _FIRST_SECONDARY else 1
    return b"".join((*parts, _NULL * others))


def _told(bounds: ColumnBounds) -> tuple[Physical | None, Physical | None]:
    """Return bounds that hold a number that is none as well, though they do not name it.

    Apache Hudi finds nothing at all in a file, or a partition, whose greatest value is such a one.
    """
    least, greatest = bounds.minimum, bounds.maximum
    if not (isinstance(greatest, float) and math.isnan(greatest)):
        return least, greatest
    is_bound = isinstance(least, float) and least < math.inf
    return (least if is_bound else -math.inf), math.inf


def encode_deleted_stats(table_version: int, *, name: str, column: str) -> bytes:
    """Return what cancels the bounds of a column in a file that is gone."""
    parts = [_HEAD, _long(RecordType.COLUMN_STATS), _NULL, _NULL, _SET]
    parts += (_SET, _text(name), _SET, _text(column), _NULL * 6, _TRUE)
    if table_version >= _FIRST_SECONDARY:
        parts.append(_FALSE)
    if table_version >= _FIRST_TYPED:
        parts.append(_NULL)
    others = 2 if table_version >= _FIRST_SECONDARY else 1
    return b"".join((*parts, _NULL * others))


def column_stats_fit(kind: ValueKind, info: str | None, table_version: int) -> bool:
    """Return whether bounds of that kind can be told to readers of that table version."""
    if table_version >= _FIRST_TYPED:
        return kind in _BRANCH
    if kind is not ValueKind.DECIMAL:
        return kind in _UNTYPED
    (precision, scale), (most, places) = decimal_digits(info), decimal_digits(UNTYPED_DECIMAL)
    return scale <= places and precision + places - scale <= most


def stored_bounds(bounds: ColumnBounds, table_version: int) -> ColumnBounds:
    """Return bounds of a kind that `column_stats_fit` as records of a table version hold them."""
    if table_version >= _FIRST_TYPED or bounds.kind is ValueKind.NULL:
        return bounds
    if bounds.kind is not ValueKind.DECIMAL:
        return replace(bounds, kind=_UNTYPED[bounds.kind])
    factor = 10 ** (decimal_digits(UNTYPED_DECIMAL)[1] - decimal_digits(bounds.info)[1])
    return replace(
        bounds,
        minimum=None if bounds.minimum is None else bounds.minimum * factor,
        maximum=None if bounds.maximum is None else bounds.maximum * factor,
        info=UNTYPED_DECIMAL,
    )


def encode_location(location: RecordLocation, instant_ms: int, table_version: int) -> bytes:
    """Return where a record key is, since the instant at `instant_ms`."""
    parts = [_HEAD, _long(RecordType.RECORD_INDEX), _NULL * 3, _SET]
    parts += (_SET, _text(location.partition))
    uuid, index = _uuid_and_index(location.file_id)
    if uuid is None:
        raw = location.file_id
        parts += (_SET, _long(-1), _SET, _long(-1), _SET, _long(-1), _SET, _text(raw))
    else:
        high, low = _signed(uuid.int >> 64), _signed(uuid.int % 2**64)
        parts += (_SET, _long(high), _SET, _long(low), _SET, _long(index), _SET, _text(""))
    parts += (_SET, _long(instant_ms), _long(0 if uuid is not None else 1))
    if table_version >= _FIRST_SECONDARY:
        parts += (_NULL, _NULL)
    return b"".join(parts)


def transcode(value: bytes, written_with: str, schema: str) -> bytes:
    """Return a value under another schema of the same records, older or newer."""
    if written_with == schema:
        return value
    try:
        return avro_file.encode_value(avro_file.decode_value(value, written_with), schema)
    except (ValueError, TypeError, KeyError) as cause:
        if isinstance(cause, Malformed):
            raise
        raise Malformed(f"a metadata record does not fit another schema: {cause!r}") from cause


def _bound(branch: int, kind: ValueKind, value: Physical | None) -> bytes:
    return _NULL if value is None else _long(branch) + _physical(kind, value)


def _physical(kind: ValueKind, value: Physical) -> bytes:
    if kind is ValueKind.BOOLEAN:
        return _flag(value)
    if kind is ValueKind.FLOAT:
        return struct.pack("<f", value)
    if kind is ValueKind.DOUBLE:
        return struct.pack("<d", value)
    if kind in (ValueKind.STRING, ValueKind.UUID):
        return _text(value)
    if kind is ValueKind.DECIMAL:
        size = (value if value >= 0 else ~value).bit_length() // 8 + 1
        return _long(size) + bytes(value.to_bytes(size, "big", signed=True))
    if kind in (ValueKind.BYTES, ValueKind.FIXED):
        return _long(len(value)) + bytes(value)
    return _long(value)


def _uuid_and_index(file_id: str) -> tuple[UUID | None, int]:
    """Take a file id apart as Hudi does: a UUID, and a number behind it or none."""
    text, index = file_id, "-1"
    if len(file_id) > 36:
        text, index = file_id[:36], file_id[37:]
    try:
        uuid, number = UUID(text), int(index)
    except ValueError:
        return None, 0
    spelt = str(uuid) if number == -1 else f"{uuid}-{number}"
    return (uuid, number) if spelt == file_id else (None, 0)


def _signed(bits: int) -> int:
    return bits - 2**64 if bits >= 2**63 else bits


def _flag(value: bool) -> bytes:
    return _TRUE if value else _FALSE


def _text(value: str) -> bytes:
    data = value.encode()
    return _long(len(data)) + data


def _long(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return bytes((rest,))
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
