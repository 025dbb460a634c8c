from __future__ import annotations

import json
from typing import Any

import pytest

from tidelake.errors import SchemaError
from tidelake.write.schema_evolution import (
    evolve,
    field_names,
    refuse_other_past,
    refuse_other_spelling,
)


def schema(*fields: tuple[str, Any], nullable: bool = True) -> str:
    made = [
        {"name": n, "type": ["null", t], "default": None} if nullable else {"name": n, "type": t}
        for n, t in fields
    ]
    node = {"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": made}
    return json.dumps(node)


def types(avro: str) -> dict[str, Any]:
    found = {}
    for field in json.loads(avro)["fields"]:
        kind = field["type"]
        found[field["name"]] = kind[1] if isinstance(kind, list) else kind
    return found


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": "hoodie.t.t_record.d",
        "size": 16,
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }


DATE = {"type": "int", "logicalType": "date"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}


def test_the_same_columns_leave_the_schema_as_it_is_to_the_letter() -> None:
    table = schema(("id", "string"), ("v", "int"))
    found = evolve(table, schema(("v", "int"), ("id", "string")))
    assert found.avro is table
    assert not found.is_evolved


def test_new_columns_come_last_and_may_be_null() -> None:
    found = evolve(schema(("id", "string")), schema(("n", "int"), ("id", "string"), nullable=False))
    assert [f["name"] for f in json.loads(found.avro)["fields"]] == ["id", "n"]
    assert json.loads(found.avro)["fields"][1] == {
        "name": "n",
        "type": ["null", "int"],
        "default": None,
    }


WIDENED = [
    # table     rows        result
    ("int", "long", "long"),
    ("long", "int", "long"),
    ("int", "double", "double"),
    ("float", "double", "double"),
    ("double", "float", "double"),
    ("long", "string", "string"),
    ("string", "int", "string"),
    ("bytes", "string", "bytes"),
    ("string", "bytes", "bytes"),
    (decimal(10, 2), decimal(8, 1), decimal(10, 2)),
    (decimal(10, 2), decimal(12, 2), decimal(12, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("table", "rows", "result"), WIDENED)
def test_the_wider_type_holds_both(table: Any, rows: Any, result: Any) -> None:
    assert types(evolve(schema(("c", table)), schema(("c", rows))).avro) == {"c": result}


REFUSED = [
    ("boolean", "int"),
    (DATE, "int"),
    ("int", DATE),
    (MICROS, LOCAL),
    (decimal(10, 2), decimal(10, 4)),
    (decimal(12, 2), decimal(12, 4)),
    ("double", decimal(10, 2)),
    ("int", {"type": "array", "items": "int"}),
]


@pytest.mark.parametrize(("table", "rows"), REFUSED)
def test_what_no_type_holds_is_refused(table: Any, rows: Any) -> None:
    with pytest.raises(SchemaError, match="column c is"):
        evolve(schema(("c", table)), schema(("c", rows)))


def test_structs_and_lists_grow_inside() -> None:
    def struct(*fields: tuple[str, Any]) -> dict[str, Any]:
        made = [{"name": n, "type": ["null", t], "default": None} for n, t in fields]
        return {"type": "record", "name": "s", "namespace": "hoodie.t.t_record", "fields": made}

    table = schema(("s", struct(("a", "int"), ("b", "string"))), ("l", _list(struct(("x", "int")))))
    rows = schema(("s", struct(("a", "long"), ("c", "int"))), ("l", _list(struct(("y", "int")))))
    found = types(evolve(table, rows).avro)
    assert [f["name"] for f in found["s"]["fields"]] == ["a", "b", "c"]
    assert found["s"]["fields"][0]["type"] == ["null", "long"]
    assert [f["name"] for f in found["l"]["items"][1]["fields"]] == ["x", "y"]


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": ["null", items]}


def test_missing_columns_become_null_unless_the_table_requires_them() -> None:
    table = schema(("id", "string"), ("v", "int"))
    assert evolve(table, schema(("id", "string"))).avro is table
    with pytest.raises(SchemaError, match=r"set.null.for.missing"):
        evolve(table, schema(("id", "string")), fill_missing=False)
    strict = schema(("id", "string"), ("v", "int"), nullable=False)
    with pytest.raises(SchemaError, match="requires a value"):
        evolve(strict, schema(("id", "string")))


def test_missing_columns_leave_when_they_may() -> None:
    table = schema(("id", "string"), ("ts", "long"), ("v", "int"))
    found = evolve(
        table, schema(("id", "string")), drop_missing=True, fixed={"ts": "an ordering column"}
    )
    assert list(types(found.avro)) == ["id", "ts"]
    assert found.is_evolved


def test_a_name_does_not_come_back_with_another_type() -> None:
    table, made = schema(("id", "string")), schema(("id", "string"), ("v", "long"))
    refuse_other_past(table, made, [schema(("id", "string"), ("v", "int"))])
    refuse_other_past(made, made, [schema(("v", "string"))])
    with pytest.raises(SchemaError, match="v is bigint in the rows and was string before it left"):
        refuse_other_past(table, made, [schema(("v", "string"))])


def test_what_rows_are_found_and_ordered_by_keeps_its_type() -> None:
    inner = {
        "type": "record",
        "name": "s",
        "fields": [{"name": "ts", "type": ["null", "int"], "default": None}],
    }
    wider = {**inner, "fields": [{"name": "ts", "type": ["null", "long"], "default": None}]}
    for old, new, path in (
        (("c", "int"), ("c", "long"), "c"),
        (("s", inner), ("s", wider), "s.ts"),
    ):
        with pytest.raises(SchemaError, match=rf"column {path} is int .* bigint .* a key column"):
            evolve(schema(old), schema(new), fixed={path: "a key column"})
        assert evolve(schema(new), schema(old), fixed={path: "a key column"}).avro == schema(new)


def test_nulls_are_counted_where_only_the_rows_allow_them() -> None:
    strict = schema(("id", "string"), ("v", "int"), nullable=False)
    found = evolve(strict, schema(("id", "string"), ("v", "long")))
    assert found.required == ("id", "v")
    assert types(found.avro) == {"id": "string", "v": "long"}


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        (None, schema(("a", "int"), ("A", "int"))),
        (schema(("a", "int")), schema(("A", "int"))),
        (schema(("a", "int")), schema(("a", "int"), ("b", "int"), ("B", "int"))),
    ],
)
def test_names_that_differ_by_case_alone_are_refused(table: str | None, rows: str) -> None:
    with pytest.raises(SchemaError, match="case of their letters"):
        evolve(table, rows)


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(SchemaError, match="two columns named a"):
        evolve(None, schema(("a", "int"), ("a", "int")))


def test_fields_of_structs_have_dotted_names() -> None:
    inner = {
        "type": "record",
        "name": "s",
        "fields": [{"name": "x", "type": ["null", "int"], "default": None}],
    }
    assert field_names(schema(("id", "string"), ("s", inner))) == ["id", "s", "s.x"]


@pytest.mark.parametrize(
    ("table", "rows", "is_alike"),
    [
        ("double", "int", False),
        ("float", "long", False),
        ("double", "float", True),
        ("long", "int", True),
        ("int", "long", True),
        ("string", "double", True),
        ("int", "string", True),
        (DATE, "string", True),
        (DATE, MICROS, False),
        (decimal(10, 2), decimal(8, 2), True),
        (decimal(10, 2), decimal(10, 1), False),
        (decimal(10, 2), "int", False),
    ],
)
def test_a_key_that_would_be_spelled_in_another_way_is_refused(
    table: Any, rows: Any, is_alike: bool
) -> None:
    old, new = schema(("id", table), ("v", "int")), schema(("id", rows), ("v", "double"))
    if is_alike:
        refuse_other_spelling(old, new, ["id", "absent"])
        return
    with pytest.raises(SchemaError, match=r"column id is .* spelled in another way") as refused:
        refuse_other_spelling(old, new, ["id", "absent"])
    assert "cast the column id to" in refused.value.next_step


def test_a_type_may_stand_inside_of_another() -> None:
    """As schemas of other tools have it."""
    wrapped = schema(("v", {"type": {"type": "int"}}))
    assert evolve(wrapped, schema(("v", "int"))).avro is wrapped
