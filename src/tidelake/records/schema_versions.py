"""Where the columns of the table's schema lie in files of its earlier schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelake.formats.schema_history import (
    ArrayType,
    FieldType,
    InternalSchema,
    MapType,
    RecordType,
    SchemaField,
)
from tidelake.records.schema import ELEMENT, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaHistory:
    """The table's schemas by version, oldest first, for tables that rename and drop columns by id.

    `target` is the schema the query answers in.
    """

    versions: tuple[InternalSchema, ...]
    target: InternalSchema

    def sources(self, instant_time: str) -> Mapping[str, Source] | None:
        """Return where columns lie in files that `instant_time` wrote; None: as in `target`."""
        written = self.versions[0] if self.versions else self.target
        for version in self.versions:
            if version.version_id <= int(instant_time):
                written = version
        return None if written == self.target else _fields(self.target.fields, written.fields)


def _fields(
    wanted: tuple[SchemaField, ...], written: tuple[SchemaField, ...]
) -> Mapping[str, Source]:
    by_id = {field.id: field for field in written}
    found = {}
    for field in wanted:
        old = by_id.get(field.id)
        found[field.name] = (
            Source(None) if old is None else Source(old.name, _inner(field.type, old.type))
        )
    return found


def _inner(wanted: FieldType, written: FieldType) -> Mapping[str, Source] | None:
    if isinstance(wanted, RecordType) and isinstance(written, RecordType):
        return _fields(wanted.fields, written.fields)
    if isinstance(wanted, ArrayType) and isinstance(written, ArrayType):
        inner = _inner(wanted.element, written.element)
    elif isinstance(wanted, MapType) and isinstance(written, MapType):
        inner = _inner(wanted.value, written.value)
    else:
        return None
    return None if inner is None else {ELEMENT: Source(ELEMENT, inner)}
