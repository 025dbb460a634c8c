"""The content of a delete block: the keys that are gone, and the ordering values they left with."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import IntEnum
from io import BytesIO
from typing import Any

import fastavro

from tidelake.errors import Malformed
from tidelake.formats._byte_reader import ByteReader

VERSION = 3
_HEAD = struct.Struct(">ii")
_DECIMAL_SCALE = 15
_DECIMAL = {"logicalType": "decimal", "precision": 38, "scale": _DECIMAL_SCALE}
_EXACT = Context(prec=100)
_NAMESPACE = "org.apache.hudi.avro.model"


class OrderingKind(IntEnum):
    """The Java type of an ordering value; the numbers are the branches of the union on disk."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    ARRAY = 12


#: Dates are days and times and timestamps microseconds since the epoch; an array is a tuple of
#: `(kind, value)` pairs.
OrderingValue = object


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """Deleted keys as parallel columns.

    An ordering value of kind INT and value 0 is Hudi's "none given": the delete wins whatever is
    there. A LONG 0 is a value like any other.
    """

    keys: Sequence[str]
    partitions: Sequence[str | None]
    ordering: Sequence[OrderingValue]
    kinds: Sequence[OrderingKind]

    def __post_init__(self) -> None:
        if len({len(self.keys), len(self.partitions), len(self.ordering), len(self.kinds)}) != 1:
            raise ValueError("the columns of delete records differ in length")

    def __len__(self) -> int:
        return len(self.keys)


def _wrapper(name: str, value_type: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "value", "type": value_type}]}


_WRAPPERS = {
    OrderingKind.BOOLEAN: _wrapper("BooleanWrapper", "boolean"),
    OrderingKind.INT: _wrapper("IntWrapper", "int"),
    OrderingKind.LONG: _wrapper("LongWrapper", "long"),
    OrderingKind.FLOAT: _wrapper("FloatWrapper", "float"),
    OrderingKind.DOUBLE: _wrapper("DoubleWrapper", "double"),
    OrderingKind.BYTES: _wrapper("BytesWrapper", "bytes"),
    OrderingKind.STRING: _wrapper("StringWrapper", "string"),
    OrderingKind.DATE: _wrapper("DateWrapper", "int"),
    OrderingKind.DECIMAL: _wrapper("DecimalWrapper", "bytes"),
    OrderingKind.TIME_MICROS: _wrapper("TimeMicrosWrapper", "long"),
    OrderingKind.TIMESTAMP_MICROS: _wrapper("TimestampMicrosWrapper", "long"),
}
_NAMES = {kind: f"{_NAMESPACE}.{schema['name']}" for kind, schema in _WRAPPERS.items()}
_ARRAY_NAME = f"{_NAMESPACE}.ArrayWrapper"
_KINDS = {
    **{name: kind for kind, name in _NAMES.items()},
    # Inside an array a date may come in this wrapper, which is no branch outside of one.
    f"{_NAMESPACE}.LocalDateWrapper": OrderingKind.DATE,
}
_ARRAY = {
    "type": "record",
    "name": "ArrayWrapper",
    "fields": [
        {
            "name": "wrappedValues",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": [
                        "null",
                        *(str(schema["name"]) for schema in _WRAPPERS.values()),
                        _wrapper("LocalDateWrapper", "int"),
                    ],
                },
            ],
        }
    ],
}
_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "HoodieDeleteRecordList",
        "namespace": _NAMESPACE,
        "fields": [
            {
                "name": "deleteRecordList",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "HoodieDeleteRecord",
                        "fields": [
                            {"name": "recordKey", "type": ["null", "string"]},
                            {"name": "partitionPath", "type": ["null", "string"]},
                            {"name": "orderingVal", "type": ["null", *_WRAPPERS.values(), _ARRAY]},
                        ],
                    },
                },
            }
        ],
    }
)


def decode(content: bytes | memoryview) -> DeleteRecords:
    """Take the content of a delete block apart."""
    reader = ByteReader(content, "the delete block")
    version = reader.int32()
    if version in (1, 2):
        raise Malformed(
            f"delete block version {version} is a Kryo stream of Hudi before 0.14, which tidelake "
            "does not read; compact the table with the release that wrote it"
        )
    if version != VERSION:
        raise Malformed(f"delete block version {version} is unknown; it should be {VERSION}")
    body = BytesIO(reader.take(reader.int32()))
    try:
        datum: Any = fastavro.schemaless_reader(body, _SCHEMA, None, return_record_name=True)
        records = datum["deleteRecordList"]
        pairs = [_unwrap(record["orderingVal"]) for record in records]
    except Exception as cause:
        # fastavro lets through nearly anything when the bytes are not what the schema says.
        raise Malformed(f"the delete block holds no list of delete records: {cause}") from cause
    if body.read(1):
        raise Malformed("the delete block goes on after its list of delete records")
    keys = [record["recordKey"] for record in records]
    if None in keys:
        raise Malformed("a delete record has no record key")
    return DeleteRecords(
        keys=keys,
        partitions=[record["partitionPath"] for record in records],
        ordering=[value for _, value in pairs],
        kinds=[kind for kind, _ in pairs],
    )


_NO_ORDERING = (OrderingKind.NULL, None)


def _unwrap(wrapped: tuple[str, Mapping[str, Any]] | None) -> tuple[OrderingKind, OrderingValue]:
    if wrapped is None:
        return _NO_ORDERING
    name, fields = wrapped
    if name == _ARRAY_NAME:
        return OrderingKind.ARRAY, tuple(map(_unwrap, fields["wrappedValues"] or ()))
    kind, value = _KINDS[name], fields["value"]
    if kind is OrderingKind.DECIMAL:
        return kind, Decimal(int.from_bytes(value, "big", signed=True)).scaleb(
            -_DECIMAL_SCALE, _EXACT
        )
    return kind, value


def encode(records: DeleteRecords) -> bytes:
    """Return the content of a delete block, version 3."""
    body = BytesIO()
    rows = [
        {"recordKey": key, "partitionPath": partition, "orderingVal": _wrap(kind, value)}
        for key, partition, value, kind in zip(
            records.keys, records.partitions, records.ordering, records.kinds, strict=True
        )
    ]
    fastavro.schemaless_writer(body, _SCHEMA, {"deleteRecordList": rows})
    data = body.getvalue()
    return _HEAD.pack(VERSION, len(data)) + data


def record_schema(kinds: Sequence[OrderingKind]) -> str:
    """Return an Avro schema whose datums have the bytes of delete records, for encoders of columns.

    Its fields are `recordKey`, `partitionPath` and, for the ordering fields of `kinds`, a constant
    and a value each: `kind_0` (see `record_constants`), `value_0`, `kind_1` and so on.
    """
    text: Any = ["null", "string"]
    fields = [{"name": "recordKey", "type": text}, {"name": "partitionPath", "type": text}]
    if len(kinds) != 1:
        fields += [{"name": name, "type": "int"} for name in ("array", "present", "count")]
    for at, kind in enumerate(kinds):
        value = _WRAPPERS[kind]["fields"][0]["type"]
        if kind is OrderingKind.DECIMAL:
            value = {**_DECIMAL, "type": value}
        fields += [{"name": f"kind_{at}", "type": "int"}, {"name": f"value_{at}", "type": value}]
    if len(kinds) != 1:
        fields.append({"name": "end", "type": "int"})
    return json.dumps({"type": "record", "name": "HoodieDeleteRecord", "fields": fields})


def record_constants(kinds: Sequence[OrderingKind]) -> Mapping[str, int]:
    """Return the fields of `record_schema` that are the same in every record."""
    # The number of a union's branch, and of the elements of an array, is encoded like an int.
    found = {f"kind_{at}": int(kind) for at, kind in enumerate(kinds)}
    if len(kinds) != 1:
        found |= {"array": int(OrderingKind.ARRAY), "present": 1, "count": len(kinds), "end": 0}
    return found


def join(parts: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the content of a delete block, version 3, that holds runs of encoded records."""
    body = BytesIO()
    for count, data in parts:
        fastavro.schemaless_writer(body, "long", count)
        body.write(data)
    fastavro.schemaless_writer(body, "long", 0)
    return _HEAD.pack(VERSION, len(body.getvalue())) + body.getvalue()


def _wrap(kind: OrderingKind, value: Any) -> tuple[str, dict[str, Any]] | None:
    if kind is OrderingKind.NULL:
        return None
    if kind is OrderingKind.ARRAY:
        return _ARRAY_NAME, {"wrappedValues": [_wrap(*pair) for pair in value]}
    if kind is OrderingKind.DECIMAL:
        unscaled = int(value.scaleb(_DECIMAL_SCALE, _EXACT))
        size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        value = unscaled.to_bytes(size, "big", signed=True)
    return _NAMES[kind], {"value": value}
