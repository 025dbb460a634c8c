"""Schema history of tables with schema on read: `.hoodie/.schema/*.schemacommit`.

Columns are told apart by id and not by name, so that a rename, a drop or a reorder needs no rewrite
of files. Every file holds all versions so far.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelake.errors import Malformed
from tidelake.formats import jackson

_PRIMITIVE = re.compile(
    r"boolean|int|long|float|double|date|time|time-millis|timestamp|timestamp-millis"
    r"|local-timestamp-millis|local-timestamp-micros|string|uuid|binary"
    r"|fixed\[[0-9]{1,9}\]|decimal(?:\[fixed\]|\[bytes\])?\([0-9]{1,9}, *[0-9]{1,9}\)"
    r"(?:\[[0-9]{1,9}\])?"
)
#: Deeper nesting than this is damage and not a schema.
_DEEPEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordType:
    """A struct."""

    fields: tuple[SchemaField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType:
    """A list; its elements have an id of their own."""

    element_id: int
    element: FieldType
    element_optional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MapType:
    """A map; its keys and values have ids of their own."""

    key_id: int
    key: FieldType
    value_id: int
    value: FieldType
    value_optional: bool


#: A primitive type is its text, such as `long` or `decimal(10, 2)`.
FieldType = str | RecordType | ArrayType | MapType


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaField:
    """One column or member of a struct; `id` stays the same through renames."""

    id: int
    name: str
    optional: bool
    type: FieldType
    doc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalSchema:
    """One version of the table's schema, meta columns included.

    `version_id` is the requested time of the commit that made the version as a number, 0 for the
    one before the first change.
    """

    version_id: int
    max_column_id: int | None
    fields: tuple[SchemaField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaHistory:
    """The table's schemas by version, oldest first, for tables that rename and drop columns by id.

    `target` is the schema the query answers in.
    """

    versions: tuple[InternalSchema, ...]
    target: InternalSchema

    def written_by(self, instant_time: str) -> InternalSchema:
        """Return the schema of the files that `instant_time` wrote."""
        written = self.versions[0] if self.versions else self.target
        for version in self.versions:
            if version.version_id <= int(instant_time):
                written = version
        return written


def decode(data: bytes) -> tuple[InternalSchema, ...]:
    """Return every version in a schemacommit file, oldest first."""
    schemas = jackson.decode(data).get("schemas")
    if not isinstance(schemas, list):
        raise Malformed("a schema history needs a list named schemas")
    found = {schema.version_id: schema for schema in map(_schema, schemas)}
    return tuple(found[version] for version in sorted(found))


def encode(versions: tuple[InternalSchema, ...]) -> bytes:
    """Return the file that holds `versions`, as Hudi lays it out: compact and newest first."""
    raw = {"schemas": [_raw_schema(v) for v in reversed(versions)]}
    return json.dumps(raw, separators=(",", ":"), ensure_ascii=False).encode()


def _schema(raw: object) -> InternalSchema:
    members = _members(raw, "a schema")
    record = _type(members, 0)
    if not isinstance(record, RecordType):
        raise Malformed("a version of the schema is not a record")
    highest = members.get("max_column_id")
    if highest is not None and type(highest) is not int:
        raise Malformed(f"max_column_id is {highest!r} and no number")
    version = members.get("version_id", 0)
    if type(version) is not int:
        raise Malformed(f"version_id is {version!r} and no number")
    return InternalSchema(version_id=version, max_column_id=highest, fields=record.fields)


def _members(raw: object, what: str) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise Malformed(f"{what} should be a JSON object, but is {raw!r:.40}")
    # Hudi 0.11 wrote hyphens where later releases write underscores.
    return {key.replace("-", "_"): value for key, value in raw.items()}


def _type(raw: object, depth: int) -> FieldType:
    if depth > _DEEPEST:
        raise Malformed(f"types are nested deeper than {_DEEPEST}")
    if isinstance(raw, str):
        text = raw.lower()
        if not _PRIMITIVE.fullmatch(text):
            raise Malformed(f"unknown column type {raw!r:.40}")
        return text
    members = _members(raw, "a type")
    kind = members.get("type")
    if kind == "record":
        fields = members.get("fields")
        if not isinstance(fields, list):
            raise Malformed("a record type has no list of fields")
        return RecordType(fields=tuple(_field(field, depth) for field in fields))
    if kind == "array":
        return ArrayType(
            element_id=_taken(members, "element_id", int),
            element=_type(members.get("element"), depth + 1),
            element_optional=_taken(members, "element_optional", bool),
        )
    if kind == "map":
        return MapType(
            key_id=_taken(members, "key_id", int),
            key=_type(members.get("key"), depth + 1),
            value_id=_taken(members, "value_id", int),
            value=_type(members.get("value"), depth + 1),
            value_optional=_taken(members, "value_optional", bool),
        )
    raise Malformed(f"unknown kind of type {kind!r:.40}")


def _field(raw: object, depth: int) -> SchemaField:
    members = _members(raw, "a field")
    return SchemaField(
        id=_taken(members, "id", int),
        name=_taken(members, "name", str),
        optional=_taken(members, "optional", bool),
        type=_type(members.get("type"), depth + 1),
        doc=_taken(members, "doc", str) if members.get("doc") is not None else None,
    )


def _taken(members: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    value = members.get(key)
    if type(value) is not kind:
        raise Malformed(f"{key} should be {kind.__name__}, but is {value!r:.40}")
    return value


def _raw_schema(schema: InternalSchema) -> dict[str, Any]:
    head: dict[str, Any] = {}
    if schema.max_column_id is not None:
        head["max_column_id"] = schema.max_column_id
    return {
        **head,
        "version_id": schema.version_id,
        **_raw_record(schema.fields),
    }


def _raw_record(fields: tuple[SchemaField, ...]) -> dict[str, Any]:
    return {"type": "record", "fields": [_raw_field(field) for field in fields]}


def _raw_field(field: SchemaField) -> dict[str, Any]:
    raw = {
        "id": field.id,
        "name": field.name,
        "optional": field.optional,
        "type": _raw_type(field.type),
    }
    return raw if field.doc is None else {**raw, "doc": field.doc}


def _raw_type(kind: FieldType) -> Any:
    if isinstance(kind, RecordType):
        return _raw_record(kind.fields)
    if isinstance(kind, ArrayType):
        return {
            "type": "array",
            "element_id": kind.element_id,
            "element": _raw_type(kind.element),
            "element_optional": kind.element_optional,
        }
    if isinstance(kind, MapType):
        return {
            "type": "map",
            "key_id": kind.key_id,
            "key": _raw_type(kind.key),
            "value_id": kind.value_id,
            "value": _raw_type(kind.value),
            "value_optional": kind.value_optional,
        }
    return kind
