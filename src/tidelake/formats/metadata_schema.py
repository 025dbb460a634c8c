"""The Avro schema of metadata table records, field by field and in Hudi's spelling.

The JSON text is, byte for byte, what Apache Hudi writes for that table version: 0.14 and 0.15 for
version 6, 1.0 for version 8 and 1.1 and later for version 9. Each is the one before, and more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from tidelake.formats.avro_schemas import NAMESPACE

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string", "avro.java.string": "String"}
_META_COLUMNS = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
_REQUIRED = object()
#: The wrappers that a bound may be in: name, word in its description, and Avro type.
_WRAPPERS: Sequence[tuple[str, str, Any]] = (
    ("Boolean", "boolean", "boolean"),
    ("Int", "int", "int"),
    ("Long", "long", "long"),
    ("Float", "float", "float"),
    ("Double", "double", "double"),
    ("Bytes", "bytes", "bytes"),
    ("String", "string", _TEXT),
    ("Date", "Date logical", "int"),
    (
        "Decimal",
        "Decimal logical",
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    ),
    ("TimeMicros", "Time-micros logical", {"type": "long", "logicalType": "time-micros"}),
    ("TimestampMicros", "Timestamp-micros logical", "long"),
    ("LocalDate", "Local Date", "int"),
)
_BITS = (
    "Refers to {} 64 bits if the fileId is based on UUID format. \n"
    "A UUID based fileId is stored as 3 pieces in RLI (fileIdHighBits, fileIdLowBits and "
    "fileIndex). \nFileID format is {{UUID}}-{{fileIndex}}."
)
_INDEX = (
    "Index representing file index which is used to re-construct UUID based fileID. Applicable "
    "when the fileId is based on UUID format. \nA UUID based fileId is stored as 3 pieces in RLI "
    "(fileIdHighBits, fileIdLowBits and fileIndex). \nFileID format is {UUID}-{fileIndex}."
)
_ENCODING = (
    "Represents fileId encoding. Possible values are 0 and 1. O represents UUID based fileID, and "
    "1 represents raw string format of the fileId. \nWhen the encoding is 0, reader can deduce "
    "fileID from fileIdLowBits, {} and fileIndex."
)
_VALUE = (
    "{} value in the range. Based on user data table schema, we can convert {} to appropriate type"
)


@cache
def record_schema_text(table_version: int, *, with_meta_columns: bool = True) -> str:
    """Return the schema of records of a metadata table of that version, as JSON text.

    Files hold Hudi's five meta columns in front, commit metadata leaves them out.
    """
    meta = [_optional(f"_hoodie_{name}", "string", doc="") for name in _META_COLUMNS]
    schema = {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "namespace": NAMESPACE,
        "doc": "A record saved within the Metadata Table",
        "fields": [*(meta if with_meta_columns else ()), *_fields(table_version)],
    }
    return json.dumps(schema, separators=(",", ":"))


def _fields(table_version: int) -> list[Schema]:
    files = _record(
        "HoodieMetadataFileInfo",
        _field("size", "long", doc="Size of the file"),
        _field("isDeleted", "boolean", doc="True if this file has been deleted"),
    )
    index = "Metadata Index {} in the {}"
    found = [
        _field("key", _TEXT),
        _field("type", "int", doc="Type of the metadata record"),
        _field(
            "filesystemMetadata",
            ["null", {"type": "map", "values": files, "avro.java.string": "String"}],
            doc="Contains information about partitions and files within the dataset",
        ),
        _optional(
            "BloomFilterMetadata",
            _bloom_filter(),
            doc=index.format("of bloom filters for all data files", "user table"),
        ),
        _optional(
            "ColumnStatsMetadata",
            _column_stats(table_version),
            doc=index.format("of column statistics for all data files", "user table"),
        ),
        _optional(
            "recordIndexMetadata",
            _record_index(table_version),
            doc=index.format(
                "that contains information about record keys and their location", "dataset"
            ),
        ),
    ]
    if table_version >= 8:
        entry = _field("isDeleted", "boolean", doc="True if this entry has been deleted")
        about = "that contains information about secondary keys and the corresponding record keys"
        found.append(
            _optional(
                "SecondaryIndexMetadata",
                _record("HoodieSecondaryIndexInfo", entry),
                doc=index.format(about, "dataset"),
            )
        )
    return found


def _bloom_filter() -> Schema:
    created = "Instant timestamp when this metadata was created/updated"
    return _record(
        "HoodieMetadataBloomFilter",
        _field("type", _TEXT, doc="Bloom filter type code"),
        _field("timestamp", _TEXT, doc=created),
        _field("bloomFilter", "bytes", doc="Bloom filter binary byte array"),
        _field("isDeleted", "boolean", doc="Bloom filter entry valid/deleted flag"),
        doc="Data file bloom filter details",
    )


def _column_stats(table_version: int) -> Schema:
    applies = "{} name for which this column statistics applies"
    known = _WRAPPERS if table_version >= 8 else _WRAPPERS[:-1]
    wrappers = [_wrapper(*wrapper) for wrapper in known]
    names = [wrapper["name"] for wrapper in wrappers]
    if table_version >= 9:
        wrappers.append(_array(names))
        names = [*names, "ArrayWrapper"]
    least = _field("minValue", ["null", *wrappers], None, doc=_VALUE.format("Minimum", "this"))
    greatest = _field("maxValue", ["null", *names], None, doc=_VALUE.format("Maximum", "it"))
    fields = [
        _optional("fileName", _TEXT, doc=applies.format("File")),
        _optional("columnName", _TEXT, doc=applies.format("Column")),
        least,
        greatest,
        _optional("valueCount", "long", doc="Total count of values"),
        _optional("nullCount", "long", doc="Total count of null values"),
        _optional("totalSize", "long", doc="Total storage size on disk"),
        _optional("totalUncompressedSize", "long", doc="Total uncompressed storage size on disk"),
        _field("isDeleted", "boolean", doc="Column range entry valid/deleted flag"),
    ]
    if table_version >= 8:
        tight = "Whether the min/max range of a column is tight bound or not"
        fields.append(_field("isTightBound", "boolean", False, doc=tight))
    if table_version >= 9:
        about = "Value type information containing enum ordinal and optional additional information"
        fields.append(_optional("valueType", _value_type(), doc=about))
    return _record("HoodieMetadataColumnStats", *fields, doc="Data file column statistics")


def _wrapper(name: str, word: str, kind: Any) -> Schema:
    about = f"A record wrapping {word} type to be able to be used it w/in Avro's Union"
    return _record(f"{name}Wrapper", _field("value", kind), doc=about)


def _array(names: Sequence[str]) -> Schema:
    about = "An array where each element is one of the supported wrapper types."
    items = {"type": "array", "items": ["null", *names]}
    return _record(
        "ArrayWrapper",
        _optional("wrappedValues", items, doc=about),
        doc="A record containing a list of wrapped values.",
    )


def _value_type() -> Schema:
    about = "Optional additional information about the value type"
    return _record(
        "HoodieValueTypeInfo",
        _field("typeOrdinal", "int", doc="Enum type ordinal representing the value type"),
        _optional("additionalInfo", _TEXT, doc=about),
    )


def _record_index(table_version: int) -> Schema:
    raw = (
        "Represents fileId of the location where record belongs to. When the encoding is 1, fileID "
        "is stored in raw string format."
    )
    added = "Epoch time in millisecond representing the commit time at which record was added"
    # What stands here for version 6 is a slip that Hudi mended later.
    encoding = _ENCODING.format("fileIdHighBits" if table_version >= 8 else "fileIdLowBits")
    belongs = "Refers to the partition name the record belongs to"
    fields = [
        _optional("partitionName", _TEXT, doc=belongs),
        _optional("fileIdHighBits", "long", doc=_BITS.format("high")),
        _optional("fileIdLowBits", "long", doc=_BITS.format("low")),
        _optional("fileIndex", "int", doc=_INDEX),
        _optional("fileId", _TEXT, doc=raw),
        _optional("instantTime", "long", doc=added),
        _field("fileIdEncoding", "int", 0, doc=encoding),
    ]
    if table_version >= 8:
        place = (
            "Represents position of record within a file group for easier access. It will be used "
            "for index lookup."
        )
        fields.append(_optional("position", "long", doc=place))
    return _record("HoodieRecordIndexInfo", *fields)


def _record(name: str, *fields: Schema, doc: str | None = None) -> Schema:
    about = {} if doc is None else {"doc": doc}
    return {"type": "record", "name": name, **about, "fields": list(fields)}


def _field(name: str, kind: Any, default: Any = _REQUIRED, *, doc: str | None = None) -> Schema:
    about = {} if doc is None else {"doc": doc}
    preset = {} if default is _REQUIRED else {"default": default}
    return {"name": name, "type": kind, **about, **preset}


def _optional(name: str, kind: Any, *, doc: str) -> Schema:
    return _field(name, ["null", kind], None, doc=doc)
