"""Arrow types as the JSON in which Spark writes its own, for places where no Spark is at hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidelake.errors import SchemaError

_PLAIN: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}
_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def struct_json(schema: pa.Schema) -> dict[str, Any]:
    """Return what `StructType.fromJson` takes for a schema; Spark stores its values as these types.

    Raises `SchemaError` for a type that Spark does not have.
    """
    return _struct(schema)


def sql_name(kind: str | dict[str, Any]) -> str:
    """Return the name of a type in Spark SQL, from its JSON."""
    if isinstance(kind, str):
        return _SQL_NAMES.get(kind, kind)
    if kind["type"] == "struct":
        fields = (f"{field['name']}:{sql_name(field['type'])}" for field in kind["fields"])
        return f"struct<{','.join(fields)}>"
    if kind["type"] == "map":
        return f"map<{sql_name(kind['keyType'])},{sql_name(kind['valueType'])}>"
    return f"array<{sql_name(kind['elementType'])}>"


def _struct(fields: pa.Schema | pa.StructType) -> dict[str, Any]:
    return {"type": "struct", "fields": [_field(field) for field in fields]}


def _field(field: pa.Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": _type(field.type),
        "nullable": field.nullable,
        "metadata": {},
    }


def _type(arrow: pa.DataType) -> str | dict[str, Any]:
    if arrow in _PLAIN:
        return _PLAIN[arrow]
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return "timestamp" if arrow.tz else "timestamp_ntz"
    if pa.types.is_fixed_size_binary(arrow):
        return "binary"
    if pa.types.is_struct(arrow):
        return _struct(arrow)
    if pa.types.is_map(arrow):
        return {
            "type": "map",
            "keyType": _type(arrow.key_type),
            "valueType": _type(arrow.item_type),
            "valueContainsNull": arrow.item_field.nullable,
        }
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        element = arrow.value_field
        return {
            "type": "array",
            "elementType": _type(element.type),
            "containsNull": element.nullable,
        }
    raise SchemaError(
        f"Spark has no type for values stored as {arrow}",
        next_step="leave the column out with columns=[...]",
    )
