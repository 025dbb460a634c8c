"""Where the columns of the table's schema lie in files of its earlier schemas."""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.formats.schema_history import (
    ArrayType,
    FieldType,
    MapType,
    RecordType,
    SchemaField,
    SchemaHistory,
)
from tidelake.records.schema import ELEMENT, Source


def column_sources(history: SchemaHistory, instant_time: str) -> Mapping[str, Source] | None:
    """Return where columns lie in files that `instant_time` wrote; None: as in the target."""
    written = history.written_by(instant_time)
    if written == history.target:
        return None
    return _fields(history.target.fields, written.fields)


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
