from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidelake.errors import Malformed, SchemaError
from tidelake.formats.table_schema import avro_fields, column_names, list_of
from tidelake.records.schema import (
    ELEMENT,
    META_COLUMNS,
    Source,
    arrow_schema,
    conform,
    constant_column,
)

UTC = pa.timestamp("us", tz="UTC")


def record(*fields: tuple[str, Any]) -> str:
    return json.dumps(
        {
            "type": "record",
            "name": "t",
            "namespace": "ns",
            "fields": [{"name": name, "type": kind} for name, kind in fields],
        }
    )


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ("int", pa.int32()),
        (["null", "long"], pa.int64()),
        (["long", "null"], pa.int64()),
        (["null", "int", "long"], pa.int64()),
        (["float", "double"], pa.float64()),
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "long", "logicalType": "timestamp-millis"}, UTC),
        ({"type": "long", "logicalType": "timestamp-micros"}, UTC),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "time-micros"}, pa.int64()),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
        ({"type": "fixed", "name": "f", "size": 3}, pa.binary()),
        (
            {
                "type": "fixed",
                "name": "f",
                "size": 5,
                "logicalType": "decimal",
                "precision": 10,
                "scale": 2,
            },
            pa.decimal128(10, 2),
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38},
            pa.decimal128(38, 0),
        ),
        ({"type": "array", "items": ["null", "int"]}, list_of(pa.int32())),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int32())),
        (
            {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]},
            pa.struct([("a", pa.int32())]),
        ),
    ],
)
def test_avro_types_in_arrow(avro: object, arrow: pa.DataType) -> None:
    assert arrow_schema(record(("c", avro))).field("c").type == arrow


def test_named_types_are_found_by_short_and_full_name() -> None:
    fixed = {"type": "fixed", "name": "f", "size": 2}
    schema = arrow_schema(record(("a", fixed), ("b", ["null", "f"]), ("c", "ns.f")))
    assert [field.type for field in schema] == [pa.binary()] * 3


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 100_000,
        '"int"',
        '{"type": "record", "name": "t"}',
        record(("a", "nowhere")),
        record(("a", ["null", "int", "string"])),
        record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 99})),
        record(("a", {"type": "record", "name": "r", "fields": [{"name": "x", "type": "r"}]})),
        record(("a", {"type": "array"})),
        *(record(("a", "int")).replace('"a"', name) for name in ("null", "1", "[]", "{}")),
        record(("\ud800", "int")),
        record(("a", {"type": "record", "name": "r", "fields": [{"name": 1, "type": "int"}]})),
    ],
)
def test_a_broken_schema_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        arrow_schema(text)


def test_columns_are_chosen_in_order_and_may_be_meta_columns() -> None:
    text = record(("a", "int"), ("b", "string"))
    assert arrow_schema(text, ["b", "_hoodie_commit_time"]).names == ["b", "_hoodie_commit_time"]
    assert arrow_schema(text, meta=True).names == [*META_COLUMNS, "a", "b"]
    assert column_names(text) == ["a", "b"]


def test_an_unknown_column_is_named_with_the_known_ones() -> None:
    with pytest.raises(SchemaError, match="no column c") as caught:
        arrow_schema(record(("a", "int")), ["c"])
    assert "a" in caught.value.next_step


def test_defaults_are_kept() -> None:
    text = json.dumps(
        {"type": "record", "name": "t", "fields": [{"name": "a", "type": "int", "default": 5}]}
    )
    assert avro_fields(text)[0].default == 5


@pytest.mark.parametrize(
    ("value", "old", "new", "wanted"),
    [
        (7, pa.int32(), pa.int64(), 7),
        (7, pa.int32(), pa.float64(), 7.0),
        (7, pa.int64(), pa.string(), "7"),
        (0.1, pa.float32(), pa.float64(), 0.1),
        (1e10, pa.float32(), pa.string(), "1.0E10"),
        (0.5, pa.float64(), pa.string(), "0.5"),
        ("ab", pa.string(), pa.binary(), b"ab"),
        (b"ab", pa.binary(), pa.string(), "ab"),
        ("ab", pa.large_string(), pa.string(), "ab"),
        (Decimal("1.50"), pa.decimal128(5, 2), pa.decimal128(10, 3), Decimal("1.500")),
        (7, pa.int32(), pa.decimal128(12, 2), Decimal("7.00")),
        ("2024-02-29", pa.string(), pa.date32(), __import__("datetime").date(2024, 2, 29)),
    ],
)
def test_types_widen_as_in_hudi(
    value: object, old: pa.DataType, new: pa.DataType, wanted: object
) -> None:
    table = pa.table({"c": pa.array([value, None], old)})
    assert conform(table, pa.schema([("c", new)])).column("c").to_pylist() == [wanted, None]


def test_a_type_that_cannot_become_the_other_is_named() -> None:
    with pytest.raises(SchemaError, match="column c is string"):
        conform(pa.table({"c": ["x"]}), pa.schema([("c", pa.int32())]))
    with pytest.raises(SchemaError, match="column c is int64"):
        conform(pa.table({"c": [1]}), pa.schema([("c", list_of(pa.int64()))]))


def nested() -> pa.Table:
    two_level = pa.list_(pa.field("array", pa.int32(), nullable=False))
    whole = pa.table(
        {
            "l": pa.array([[9], [1, 2], None, [], [3]], two_level),
            "m": pa.array(
                [[], [("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int32())
            ),
            "s": pa.array(
                [None, {"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 4, "b": None}]
            ),
        }
    )
    return whole.slice(1)  # Offsets that do not start at zero are where nested casts go wrong.


def test_nested_columns_widen_inside() -> None:
    target = pa.schema(
        [
            ("l", list_of(pa.int64())),
            ("m", pa.map_(pa.string(), pa.float64())),
            ("s", pa.struct([("b", pa.string()), ("c", pa.int32()), ("a", pa.string())])),
            ("new", pa.int32()),
        ]
    )
    made = conform(nested(), target)
    made.validate(full=True)
    assert made.schema == target
    assert made.to_pylist() == [
        {"l": [1, 2], "m": [("a", 1.0)], "s": {"b": "x", "c": None, "a": "1"}, "new": None},
        {"l": None, "m": None, "s": None, "new": None},
        {"l": [], "m": [], "s": {"b": "y", "c": None, "a": None}, "new": None},
        {"l": [3], "m": [("b", None)], "s": {"b": None, "c": None, "a": "4"}, "new": None},
    ]


def test_sources_rename_and_drop_columns() -> None:
    rows = pa.table({"old": [{"x": 1}], "gone": [5], "list": [[{"x": 2}]]})
    inner = pa.struct([("z", pa.int64())])
    target = pa.schema([("new", inner), ("gone", pa.int64()), ("list", list_of(inner))])
    renamed = {"z": Source("x")}
    made = conform(
        rows,
        target,
        {
            "new": Source("old", renamed),
            "gone": Source(None),
            "list": Source("list", {ELEMENT: Source(ELEMENT, renamed)}),
        },
    )
    assert made.to_pylist() == [{"new": {"z": 1}, "gone": None, "list": [{"z": 2}]}]


def test_a_partition_value_fills_its_column() -> None:
    assert constant_column("7", pa.int32(), 3).to_pylist() == [7, 7, 7]
    assert constant_column(None, pa.int32(), 2).to_pylist() == [None, None]


@pytest.mark.parametrize("size", [1 << 40, -5, "9" * 5000, "x"])
def test_a_fixed_type_that_no_file_holds_is_malformed(size: object) -> None:
    with pytest.raises(Malformed):
        avro_fields(record(("a", {"type": "fixed", "name": "f", "size": size})), as_stored=True)
