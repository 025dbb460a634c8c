"""Spark types as the Avro types that Hudi stores them as."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.errors import SchemaError

_PRIMITIVES: dict[type[T.DataType], Any] = {
    T.BooleanType: "boolean",
    T.ByteType: "int",
    T.ShortType: "int",
    T.IntegerType: "int",
    T.LongType: "long",
    T.FloatType: "float",
    T.DoubleType: "double",
    T.StringType: "string",
    T.CharType: "string",
    T.VarcharType: "string",
    T.BinaryType: "bytes",
    T.DateType: {"type": "int", "logicalType": "date"},
    T.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    T.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """The columns of a DataFrame, as a write asks for them."""

    schema: T.StructType

    @classmethod
    def of_any_rows(cls, schema: T.StructType) -> FrameColumns:
        """Return the columns of a DataFrame for rows of which any value may be null."""
        return cls(T.StructType([T.StructField(f.name, f.dataType) for f in schema.fields]))

    @property
    def names(self) -> Sequence[str]:
        """Return the names of the columns."""
        return self.schema.names

    def only(self, names: Sequence[str]) -> FrameColumns:
        """Return those of the columns that have one of `names`."""
        return FrameColumns(T.StructType([f for f in self.schema.fields if f.name in names]))

    def renamed(self, names: Mapping[str, str]) -> FrameColumns:
        """Return those of the columns that `names` has, under the names that it gives them."""
        fields = self.schema.fields
        own = [T.StructField(names[f.name], f.dataType) for f in fields if f.name in names]
        return FrameColumns(T.StructType(own))

    def avro_schema(self, table_name: str) -> str:
        """Return the schema that a table of these columns has; raise as `avro_schema` does."""
        return avro_schema(self.schema, table_name)


def avro_schema(schema: T.StructType, table_name: str) -> str:
    """Return the Avro schema that Hudi gives a table of these columns.

    Raises `SchemaError` for a type that Hudi does not store and a name that Avro does not take.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "__", table_name)
    name = name if _NAME.fullmatch(name) else f"__{name}"
    node = _record(schema, f"{name}_record", f"hoodie.{name}", "")
    return json.dumps(node, separators=(",", ":"))


def _record(schema: T.StructType, name: str, namespace: str, path: str) -> dict[str, Any]:
    inner = f"{namespace}.{name}"
    fields = []
    for field in schema.fields:
        if not _NAME.fullmatch(field.name):
            raise SchemaError(
                f"Hudi cannot store a column named {f'{path}{field.name}'!r}: its names consist of "
                "letters, digits and underscores and do not begin with a digit",
                next_step=f'rename it, such as df.withColumnRenamed("{field.name}", ...)',
            )
        at = f"{path}{field.name}"
        made = _type(field.dataType, field.name, inner, at)
        if field.nullable:
            fields.append({"name": field.name, "type": ["null", made], "default": None})
        else:
            fields.append({"name": field.name, "type": made})
    return {"type": "record", "name": name, "namespace": namespace, "fields": fields}


def _type(kind: T.DataType, name: str, namespace: str, path: str) -> Any:
    if type(kind) in _PRIMITIVES:
        return _PRIMITIVES[type(kind)]
    if isinstance(kind, T.DecimalType):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": fixed_size(kind.precision),
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if isinstance(kind, T.ArrayType):
        items = _type(kind.elementType, name, namespace, f"{path}[]")
        return {"type": "array", "items": ["null", items] if kind.containsNull else items}
    if isinstance(kind, T.MapType):
        if not isinstance(kind.keyType, T.StringType):
            raise SchemaError(
                f"column {path} is a map whose keys are {kind.keyType.simpleString()}, and Hudi "
                "stores maps with string keys",
                next_step="cast the keys to string, or store an array of structs",
            )
        values = _type(kind.valueType, name, namespace, f"{path}{{}}")
        return {"type": "map", "values": ["null", values] if kind.valueContainsNull else values}
    if isinstance(kind, T.StructType):
        return _record(kind, name, namespace, f"{path}.")
    raise SchemaError(
        f"column {path} is of type {kind.simpleString()}, which Hudi does not store",
        next_step="cast the column to another type, such as string, or leave it out",
    )


def fixed_size(precision: int) -> int:
    """Return the bytes that hold every decimal of so many digits."""
    size = 1
    while 2 ** (8 * size - 1) <= 10**precision:
        size += 1
    return size
