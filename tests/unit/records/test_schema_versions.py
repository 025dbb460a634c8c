from __future__ import annotations

from tidelake.formats.schema_history import (
    ArrayType,
    FieldType,
    InternalSchema,
    MapType,
    RecordType,
    SchemaField,
    SchemaHistory,
)
from tidelake.records.schema import ELEMENT, Source
from tidelake.records.schema_versions import column_sources


def column(at: int, name: str, kind: FieldType = "string") -> SchemaField:
    return SchemaField(id=at, name=name, optional=True, type=kind)


def version(at: int, *fields: SchemaField) -> InternalSchema:
    return InternalSchema(version_id=at, max_column_id=None, fields=fields)


FIRST = version(0, column(1, "id"), column(2, "note"), column(3, "price"))
RENAMED = version(20260101000000000, column(1, "id"), column(2, "remark"), column(3, "price"))
#: The dropped column's name is taken again by another column.
REUSED = version(20260102000000000, column(1, "id"), column(2, "remark"), column(4, "price"))
HISTORY = SchemaHistory(versions=(FIRST, RENAMED, REUSED), target=REUSED)


def test_a_file_is_read_by_the_schema_of_its_time() -> None:
    assert column_sources(HISTORY, "20251231000000000") == {
        "id": Source("id"),
        "remark": Source("note"),
        "price": Source(None),
    }
    assert column_sources(HISTORY, "20260101000000000") == {
        "id": Source("id"),
        "remark": Source("remark"),
        "price": Source(None),
    }


def test_a_file_of_the_newest_schema_needs_no_mapping() -> None:
    assert column_sources(HISTORY, "20260103000000000") is None


def test_renames_inside_structs_lists_and_maps() -> None:
    old_inner = RecordType(fields=(column(7, "x"),))
    new_inner = RecordType(fields=(column(7, "z"),))

    def schema(at: int, inner: RecordType) -> InternalSchema:
        return version(
            at,
            column(1, "s", inner),
            column(2, "l", ArrayType(element_id=3, element=inner, element_optional=True)),
            column(
                4,
                "m",
                MapType(key_id=5, key="string", value_id=6, value=inner, value_optional=True),
            ),
        )

    old, new = schema(0, old_inner), schema(5, new_inner)
    renamed = {"z": Source("x")}
    assert column_sources(SchemaHistory(versions=(old, new), target=new), "1") == {
        "s": Source("s", renamed),
        "l": Source("l", {ELEMENT: Source(ELEMENT, renamed)}),
        "m": Source("m", {ELEMENT: Source(ELEMENT, renamed)}),
    }
