"""The records of the metadata table: file listings, column ranges, bloom filters, key locations."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from enum import IntEnum
from typing import Any, cast
from uuid import UUID

import xxhash

from tidelake.errors import Malformed
from tidelake.formats import avro_file
from tidelake.formats.column_bounds import (
    UNTYPED_DECIMAL,
    ColumnBounds,
    ValueKind,
    decimal_digits,
)
from tidelake.formats.java_hash import java_string_hash

ALL_PARTITIONS = "__all_partitions__"
_ROOT_PARTITION = "."
_HASH_SEED = 0xFFFFFFFFDABADABA
_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is added where the type has one
_V1_DECIMAL_SCALE = decimal_digits(UNTYPED_DECIMAL)[1]
_EXACT = Context(prec=200)
_NO_INDEX = -1
_DECIMAL_ORDINAL = 10


class RecordType(IntEnum):
    """What a record describes; the numbers are those on disk."""

    PARTITION_LIST = 1
    FILE_LIST = 2
    COLUMN_STATS = 3
    BLOOM_FILTER = 4
    RECORD_INDEX = 5
    PARTITION_STATS = 6
    SECONDARY_INDEX = 7


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file or partition in a listing; a deleted one still cancels an older entry."""

    size_bytes: int
    is_deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    """The files of a partition by name, or the partitions of the table by path."""

    entries: Mapping[str, FileEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRange:
    """The least and the greatest value of one column in one file or partition.

    Both are None when there is none but nulls. `is_known` is False when the values are of a type
    that cannot be told for sure; then nothing may be concluded from them.
    """

    file_name: str
    column: str
    minimum: Any
    maximum: Any
    is_known: bool
    value_count: int | None
    null_count: int | None
    is_deleted: bool
    is_tight: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomEntry:
    """The bloom filter of one base file, as its footer holds it."""

    kind: str
    text: str
    is_deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLocation:
    """The file group that holds a record key."""

    partition: str
    file_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondaryEntry:
    """A pair of secondary key and record key exists; both are in the key."""

    is_deleted: bool


MetadataRecord = FileList | ColumnRange | BloomEntry | RecordLocation | SecondaryEntry


def decode(value: bytes, schema_text: str) -> tuple[str, MetadataRecord]:
    """Take a value apart, with the schema of the file it comes from; return its key beside it.

    In an HFile the key stands outside of the value, and the one in the value is empty.
    """
    record = avro_file.decode_value(value, schema_text)
    try:
        kind = RecordType(record["type"])
        decode_kind, field = _DECODERS[kind]
        content = record[field]
        if content is None:
            raise Malformed(f"a metadata record of type {kind.name} is empty")
        return _text(record["key"]), decode_kind(content)
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        # The schema comes with the file, so a damaged one may name and type the fields otherwise.
        raise (
            cause
            if isinstance(cause, Malformed)
            else Malformed(f"a metadata record is not what its type says: {cause!r}")
        ) from cause


def decode_type(value: bytes, schema_text: str) -> RecordType:
    """Return what kind of record a value holds."""
    try:
        return RecordType(avro_file.decode_value(value, schema_text)["type"])
    except (KeyError, ValueError) as cause:
        raise Malformed(f"a metadata record has no known type: {cause!r}") from cause


def decode_bounds(value: bytes, schema_text: str) -> ColumnBounds | None:
    """Return the bounds in a value of column or partition statistics, as they are stored.

    None stands for a deleted entry, and for values of a kind that is not told for sure.
    """
    try:
        content = avro_file.decode_value(value, schema_text)["ColumnStatsMetadata"]
        if content["isDeleted"]:
            return None
        typed = content.get("valueType")
        kind = _stored_kind(content["minValue"], typed)
        if kind is None:
            return None
        minimum, maximum = (_stored(content[side], kind) for side in ("minValue", "maxValue"))
        return ColumnBounds(
            kind=kind,
            minimum=minimum,
            maximum=maximum,
            value_count=_int(content["valueCount"]),
            null_count=_int(content["nullCount"]),
            packed_bytes=_int(content["totalSize"]),
            plain_bytes=_int(content["totalUncompressedSize"]),
            info=_stored_info(kind, typed),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise (
            cause
            if isinstance(cause, Malformed)
            else Malformed(f"a record of statistics is not what its type says: {cause!r}")
        ) from cause


def _stored_kind(bound: object, typed: Mapping[str, Any] | None) -> ValueKind | None:
    if typed is not None and typed["typeOrdinal"] in set(ValueKind):
        return ValueKind(typed["typeOrdinal"])
    if bound is None:
        return ValueKind.NULL
    if not isinstance(bound, tuple):
        return None
    return _V1_KIND.get(bound[0].rpartition(".")[2])


def _stored_info(kind: ValueKind, typed: Mapping[str, Any] | None) -> str | None:
    if typed is not None:
        return cast("str | None", typed["additionalInfo"])
    return UNTYPED_DECIMAL if kind is ValueKind.DECIMAL else None


def _stored(bound: Any, kind: ValueKind) -> Any:
    if bound is None:
        return None
    value = bound[1]["value"]
    if isinstance(value, Decimal):
        # The decoder followed the logical type that the schema gives.
        return int(value.scaleb(_V1_DECIMAL_SCALE, _EXACT))
    if kind is ValueKind.DECIMAL:
        return int.from_bytes(value, "big", signed=True)
    return value


def _file_list(content: Mapping[str, Mapping[str, Any]]) -> FileList:
    return FileList(
        entries={
            name: FileEntry(_int(entry["size"]), _flag(entry["isDeleted"]))
            for name, entry in content.items()
        }
    )


def _column_range(content: Mapping[str, Any]) -> ColumnRange:
    value_count, null_count = _count(content["valueCount"]), _count(content["nullCount"])
    bounds = [_bound(content[side], content.get("valueType")) for side in ("minValue", "maxValue")]
    if value_count is not None and value_count == null_count:
        # Parquet gives no bounds where all is null, and Hudi then writes zeros.
        bounds = [None, None]
        is_known = True
    else:
        is_known = _UNKNOWN not in bounds and None not in bounds
    minimum, maximum = bounds if is_known else (None, None)
    return ColumnRange(
        file_name=_text(content["fileName"]),
        column=_text(content["columnName"]),
        minimum=minimum,
        maximum=maximum,
        is_known=is_known,
        value_count=value_count,
        null_count=null_count,
        is_deleted=_flag(content["isDeleted"]),
        is_tight=_flag(content.get("isTightBound", False)),
    )


def _bloom_entry(content: Mapping[str, Any]) -> BloomEntry:
    return BloomEntry(
        kind=_text(content["type"]),
        text=content["bloomFilter"].decode("ascii"),
        is_deleted=_flag(content["isDeleted"]),
    )


def _record_location(content: Mapping[str, Any]) -> RecordLocation:
    partition = _text(content["partitionName"])
    if content["fileIdEncoding"] != 0:
        return RecordLocation(partition=partition, file_id=_text(content["fileId"]))
    high, low = _int(content["fileIdHighBits"]), _int(content["fileIdLowBits"])
    file_id = str(UUID(int=(high % 2**64 << 64) | low % 2**64))
    index = _int(content["fileIndex"])
    return RecordLocation(
        partition=partition, file_id=file_id if index == _NO_INDEX else f"{file_id}-{index}"
    )


def _secondary_entry(content: Mapping[str, Any]) -> SecondaryEntry:
    return SecondaryEntry(is_deleted=_flag(content["isDeleted"]))


_DECODERS: Mapping[RecordType, tuple[Callable[[Any], MetadataRecord], str]] = {
    RecordType.PARTITION_LIST: (_file_list, "filesystemMetadata"),
    RecordType.FILE_LIST: (_file_list, "filesystemMetadata"),
    RecordType.COLUMN_STATS: (_column_range, "ColumnStatsMetadata"),
    RecordType.BLOOM_FILTER: (_bloom_entry, "BloomFilterMetadata"),
    RecordType.RECORD_INDEX: (_record_location, "recordIndexMetadata"),
    RecordType.PARTITION_STATS: (_column_range, "ColumnStatsMetadata"),
    RecordType.SECONDARY_INDEX: (_secondary_entry, "SecondaryIndexMetadata"),
}


def _int(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _count(value: object) -> int | None:
    return None if value is None else _int(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


_V1_KIND = {
    "BooleanWrapper": ValueKind.BOOLEAN,
    "IntWrapper": ValueKind.INT,
    "LongWrapper": ValueKind.LONG,
    "FloatWrapper": ValueKind.FLOAT,
    "DoubleWrapper": ValueKind.DOUBLE,
    "BytesWrapper": ValueKind.BYTES,
    "StringWrapper": ValueKind.STRING,
    "DateWrapper": ValueKind.DATE,
    "DecimalWrapper": ValueKind.DECIMAL,
}
#: Stands for a value whose meaning cannot be told for sure.
_UNKNOWN = object()


def _bound(wrapped: object, value_type: Mapping[str, Any] | None) -> Any:
    if wrapped is None:
        return None
    if not isinstance(wrapped, tuple):
        return _UNKNOWN
    name, fields = wrapped
    value = fields.get("value")
    try:
        if value_type is None or value_type["typeOrdinal"] == 0:
            return _v1_value(name.rpartition(".")[2], value)
        return _v2_value(value_type["typeOrdinal"], value, value_type["additionalInfo"])
    except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
        return _UNKNOWN  # such as a date that Python cannot express


def _v1_value(wrapper: str, value: Any) -> Any:
    if wrapper in ("BooleanWrapper", "IntWrapper", "LongWrapper"):
        return value
    if wrapper == "StringWrapper":
        return _string(value)
    if wrapper == "BytesWrapper":
        return _binary(value)
    if wrapper in ("FloatWrapper", "DoubleWrapper"):
        return _number(value)
    if wrapper in ("DateWrapper", "LocalDateWrapper"):
        return _date(value)
    if wrapper == "DecimalWrapper":
        return _decimal(value, _V1_DECIMAL_SCALE)
    if wrapper == "TimestampMicrosWrapper":
        return _timestamp(value, timezone.utc)
    return _UNKNOWN


def _v2_value(ordinal: int, value: Any, info: Any) -> Any:
    fits = isinstance(value, _V2_PHYSICAL.get(ordinal, ()))
    if not fits:
        return _UNKNOWN
    if ordinal == _DECIMAL_ORDINAL:
        return _decimal(value, int(info.split(",")[1]))
    return _V2_MEANING.get(ordinal, _as_it_is)(value)


def _as_it_is(value: Any) -> Any:
    return value


def _string(value: str) -> Any:
    # Java orders strings by UTF-16 units, others by code points; up to here both are the same.
    return value if max(value, default="") < "\ud800" else _UNKNOWN


def _binary(value: bytes) -> Any:
    # Java orders byte buffers by signed bytes, others by unsigned ones.
    return value if value.isascii() else _UNKNOWN


def _number(value: float) -> Any:
    # Engines disagree on where a NaN sorts, so a range with one says nothing.
    return _UNKNOWN if math.isnan(value) else value


def _date(days: int) -> date:
    return _EPOCH_DAY + timedelta(days=days)


def _timestamp(micros: int, zone: timezone | None) -> datetime:
    return (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=zone)


def _decimal(value: bytes | Decimal, scale: int) -> Decimal:
    if isinstance(value, Decimal):
        return value  # the decoder followed the logical type that the schema gives
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT)


#: Type ordinals of version 2 to the Python type of what is stored. Times of day and nanoseconds
#: have no exact Python value, so they are left out.
_V2_PHYSICAL: Mapping[int, type] = {
    2: bool,
    3: int,
    4: int,
    5: float,
    6: float,
    7: str,
    8: bytes,
    9: bytes,
    10: bytes,
    11: str,
    12: int,
    15: int,
    16: int,
    18: int,
    19: int,
}
_V2_MEANING: Mapping[int, Callable[[Any], Any]] = {
    5: _number,
    6: _number,
    7: _string,
    8: _binary,
    9: _binary,
    12: _date,
    15: lambda millis: _timestamp(millis * 1000, timezone.utc),
    16: lambda micros: _timestamp(micros, timezone.utc),
    18: lambda millis: _timestamp(millis * 1000, None),
    19: lambda micros: _timestamp(micros, None),
}


def partition_identifier(partition: str) -> str:
    """Return the name under which listings and hashes know a partition path."""
    return partition or _ROOT_PARTITION


def partition_path(identifier: str) -> str:
    """Return the partition path; the inverse of `partition_identifier`."""
    return "" if identifier == _ROOT_PARTITION else identifier


def column_id(column: str) -> str:
    """Return the part of a key that stands for a column."""
    return _hash64(column)


def partition_id(partition: str) -> str:
    """Return the part of a key that stands for a partition path."""
    return _hash64(partition_identifier(partition))


def file_id(file_name: str) -> str:
    """Return the part of a key that stands for a file name."""
    digest = hashlib.md5(file_name.encode(), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode("ascii")


def _hash64(text: str) -> str:
    return base64.b64encode(xxhash.xxh64_digest(text.encode(), seed=_HASH_SEED)).decode("ascii")


def file_group_of(key: str, file_groups: int) -> int:
    """Return the index of the file group, in the order of file ids, that holds `key`."""
    return abs(java_string_hash(key)) % file_groups
