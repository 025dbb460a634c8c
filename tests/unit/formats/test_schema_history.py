from __future__ import annotations

import json

import pytest

from tests.golden.timelines import files_ending
from tidelake.errors import Malformed
from tidelake.formats import schema_history
from tidelake.formats.schema_history import (
    ArrayType,
    InternalSchema,
    MapType,
    RecordType,
    SchemaField,
)

TABLES = ["v6_cow_schema_on_read", "v9_cow_schema_on_read", "v9_mor_schema_on_read"]


@pytest.mark.parametrize("table", TABLES)
def test_files_of_hudi_come_back_byte_for_byte(table: str) -> None:
    for raw in files_ending(table, ".schemacommit"):
        assert schema_history.encode(schema_history.decode(raw)) == raw


def test_versions_come_oldest_first_and_keep_ids_through_renames() -> None:
    versions = schema_history.decode(files_ending("v6_cow_schema_on_read", ".schemacommit")[-1])
    assert [v.version_id for v in versions] == sorted(v.version_id for v in versions)
    names = [{f.id: f.name for f in v.fields}.get(6) for v in versions]
    assert names == ["name", "title", "title", "title", "title"]
    types = [{f.id: f.type for f in v.fields}.get(8) for v in versions]
    assert types == ["int", "int", "long", "long", "long"]
    assert [7 in {f.id for f in v.fields} for v in versions] == [True, True, True, False, False]


NESTED = InternalSchema(
    version_id=20260301101500123,
    max_column_id=9,
    fields=(
        SchemaField(id=0, name="id", optional=False, type="decimal(10, 2)", doc="the key"),
        SchemaField(
            id=1,
            name="points",
            optional=True,
            type=ArrayType(
                element_id=2,
                element=RecordType(
                    fields=(SchemaField(id=3, name="x", optional=True, type="fixed[16]"),)
                ),
                element_optional=True,
            ),
        ),
        SchemaField(
            id=4,
            name="tags",
            optional=True,
            type=MapType(
                key_id=5, key="string", value_id=6, value="timestamp", value_optional=False
            ),
        ),
    ),
)


def test_nested_types_survive_the_round_trip() -> None:
    assert schema_history.decode(schema_history.encode((NESTED,))) == (NESTED,)


def test_hyphens_of_early_releases_are_read() -> None:
    raw = schema_history.encode((NESTED,))
    for word in (b"version_id", b"element_id", b"key_id", b"value_id"):
        raw = raw.replace(word, word.replace(b"_", b"-"))
    assert schema_history.decode(raw) == (NESTED,)


def deep(levels: int) -> object:
    kind: object = "int"
    for _ in range(levels):
        kind = {"type": "array", "element_id": 1, "element": kind, "element_optional": True}
    return kind


def field_of(kind: object) -> bytes:
    field = {"id": 0, "name": "a", "optional": True, "type": kind}
    return json.dumps({"schemas": [{"type": "record", "fields": [field]}]}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"schemas": 3}',
        b'{"schemas": ["int"]}',
        b'{"schemas": [{"type": "array"}]}',
        b'{"schemas": [{"type": "record", "version_id": "x", "fields": []}]}',
        field_of("money"),
        field_of(None),
        field_of({"type": "array", "element_id": True, "element": "int"}),
        field_of(deep(200)),
    ],
)
def test_damage_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        schema_history.decode(data)
