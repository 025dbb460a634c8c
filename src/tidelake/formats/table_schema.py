"""The Avro schema of a table's columns, and the Arrow types of their values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tidelake.errors import Malformed

_UTC_MICROS = pa.timestamp("us", tz="UTC")
_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): _UTC_MICROS,
    ("long", "timestamp-micros"): _UTC_MICROS,
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
#: Unions of two numbers that Spark reads as the wider one.
_WIDER = {
    frozenset({"int", "long"}): pa.int64(),
    frozenset({"float", "double"}): pa.float64(),
}
_MAX_PRECISION = 38


@dataclass(frozen=True, slots=True)
class AvroField:
    """One field of an Avro record: its Arrow type, and the default that a missing value takes."""

    name: str
    type: pa.DataType
    default: object = None


@dataclass(slots=True)
class _Names:
    """The named types met so far; a name stands for None while its definition is being read."""

    known: dict[str, pa.DataType | None] = field(default_factory=dict)
    as_stored: bool = False

    def bind(self, node: Mapping[str, Any], namespace: str, value: pa.DataType | None) -> str:
        full, inner = full_name(node, namespace)
        self.known[full] = value
        return inner


def full_name(node: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """Return the full name of a named Avro type, and the namespace of what it contains."""
    name = str(node.get("name", ""))
    if "." not in name:
        inner = str(node.get("namespace") or namespace)
        name = f"{inner}.{name}" if inner else name
    return name, name.rpartition(".")[0]


def parse_avro(text: str) -> dict[str, Any]:
    """Return the JSON of an Avro record schema, or raise `Malformed`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise Malformed(f"the Avro schema is no JSON: {cause}") from cause
    if not isinstance(found, dict) or found.get("type") != "record":
        raise Malformed("the Avro schema is not that of a record")
    return found


def avro_fields(text: str, *, as_stored: bool = False) -> list[AvroField]:
    """Return the fields of an Avro record schema, or raise `Malformed`.

    Types are those of Spark; with `as_stored` they are those of a Parquet file, which keeps
    milliseconds and the width of fixed bytes.
    """
    return list(_avro_fields(text, as_stored))


@lru_cache(maxsize=128)
def _avro_fields(text: str, as_stored: bool) -> tuple[AvroField, ...]:
    node = parse_avro(text)
    names = _Names(as_stored=as_stored)
    try:
        inner = names.bind(node, "", None)
        found = tuple(
            AvroField(f["name"], _arrow_type(f["type"], names, inner), f.get("default"))
            for f in node["fields"]
        )
        pa.schema([pa.field(f.name, f.type) for f in found])  # raises for a name that is no text
    except Malformed:
        raise
    except (
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
        OverflowError,
        RecursionError,
    ) as cause:
        raise Malformed(f"the Avro schema is not valid: {cause}") from cause
    return found


def column_names(text: str) -> list[str]:
    """Return the names of the fields of an Avro record schema, or raise `Malformed`."""
    return [f.name for f in avro_fields(text)]


@lru_cache(maxsize=64)
def stored_schema(text: str) -> pa.Schema:
    """Return the Arrow schema of a Parquet file with the columns of an Avro record schema."""
    return pa.schema([pa.field(f.name, f.type) for f in avro_fields(text, as_stored=True)])


def _arrow_type(node: Any, names: _Names, namespace: str) -> pa.DataType:
    if isinstance(node, list):
        return _union(node, names, namespace)
    if isinstance(node, str):
        if node in _PRIMITIVES:
            return _PRIMITIVES[node]
        for name in (node, f"{namespace}.{node}"):
            if name in names.known:
                found = names.known[name]
                if found is None:
                    raise Malformed(f"type {name} contains itself, which no column type can say")
                return found
        raise Malformed(f"type {node} is not defined")
    kind = node["type"]
    if kind in ("record", "error"):
        inner = names.bind(node, namespace, None)
        made = pa.struct(
            [pa.field(f["name"], _arrow_type(f["type"], names, inner)) for f in node["fields"]]
        )
        names.bind(node, namespace, made)
        return made
    if kind == "array":
        return list_of(_arrow_type(node["items"], names, namespace))
    if kind == "map":
        return pa.map_(pa.string(), _arrow_type(node["values"], names, namespace))
    if kind == "enum":
        names.bind(node, namespace, pa.string())
        return pa.string()
    if node.get("logicalType") == "decimal" and kind in ("bytes", "fixed"):
        made = _decimal(node)
    elif kind == "fixed":
        made = pa.binary(_size(node)) if names.as_stored else pa.binary()
    elif isinstance(kind, str) and (kind, node.get("logicalType")) in _LOGICAL:
        found = _LOGICAL[kind, node["logicalType"]]
        if names.as_stored and node["logicalType"].endswith("-millis"):
            return pa.timestamp("ms", tz=found.tz)
        return found
    else:
        return _arrow_type(kind, names, namespace)
    if kind == "fixed":
        names.bind(node, namespace, made)
    return made


def list_of(element: pa.DataType) -> pa.DataType:
    """Return the list type as Spark names its parts."""
    return pa.list_(pa.field("element", element))


def _size(node: Mapping[str, Any]) -> int:
    size_bytes = int(node["size"])
    if size_bytes < 0:
        raise Malformed(f"a fixed type has {size_bytes} bytes")
    return size_bytes


def _decimal(node: Mapping[str, Any]) -> pa.DataType:
    precision, scale = int(node["precision"]), int(node.get("scale", 0))
    if not 1 <= precision <= _MAX_PRECISION or not 0 <= scale <= precision:
        raise Malformed(f"decimal({precision},{scale}) is outside of what Spark can hold")
    return pa.decimal128(precision, scale)


def _union(branches: list[Any], names: _Names, namespace: str) -> pa.DataType:
    some = [branch for branch in branches if branch != "null"]
    if not some:
        return pa.null()
    if len(some) == 1:
        return _arrow_type(some[0], names, namespace)
    if all(isinstance(branch, str) for branch in some) and frozenset(some) in _WIDER:
        return _WIDER[frozenset(some)]
    raise Malformed(f"a union of {len(some)} types is no column type")
