from __future__ import annotations

import datetime
import io
import json
import random  # noqa: TID251 - seeded
import struct
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tidelake.errors import Malformed
from tidelake.files.avro_records import decode_records


def schema_of(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "t",
        "namespace": "ns",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }


def encoded(schema: dict[str, Any], records: list[dict[str, Any]]) -> bytes:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    out = b""
    for record in records:
        datum = io.BytesIO()
        fastavro.schemaless_writer(datum, parsed, record)
        out += struct.pack(">i", len(datum.getvalue())) + datum.getvalue()
    return out


def decoded(schema: dict[str, Any], records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    table = decode_records(encoded(schema, records), len(records), json.dumps(schema))
    table.validate(full=True)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


FIXED = {
    "type": "fixed",
    "name": "dec",
    "size": 5,
    "logicalType": "decimal",
    "precision": 10,
    "scale": 3,
}
INNER = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": ["null", "int"]}]}


@pytest.mark.parametrize(
    ("kind", "values", "wanted"),
    [
        (["null", "int"], [1, None], None),
        (["int", "null"], [1, None], None),
        ("string", ["", "日本"], None),
        (["null", "bytes"], [b"\x00\xff", None], None),
        (["null", FIXED], [Decimal("1.234"), None], None),
        (["null", {"type": "array", "items": ["null", "int"]}], [[1, None], None, []], None),
        (["null", INNER], [{"x": None}, None], None),
        (["null", {"type": "map", "values": "int"}], [{"a": 1}, None], [[("a", 1)], None]),
        (["null", {"type": "map", "values": INNER}], [{"a": {"x": 1}}], [[("a", {"x": 1})]]),
        (["null", {"type": "enum", "name": "e", "symbols": ["A", "B"]}], ["B", None], None),
        (["null", "int", "long"], [1, 1 << 40, None], None),
        ("null", [None], None),
    ],
)
def test_values_come_back(kind: object, values: list[Any], wanted: list[Any] | None) -> None:
    schema = schema_of(("key", "string"), ("v", kind))
    rows = decoded(schema, [{"key": f"k{i}", "v": v} for i, v in enumerate(values)])
    assert [row["v"] for row in rows] == (values if wanted is None else wanted)
    assert [row["key"] for row in rows] == [f"k{i}" for i in range(len(values))]


def test_references_to_named_types_are_followed() -> None:
    schema = schema_of(("a", ["null", FIXED]), ("b", ["null", "ns.dec"]), ("c", "dec"))
    record = {"a": None, "b": Decimal("2.500"), "c": Decimal("-1.000")}
    assert decoded(schema, [record]) == [record]


def test_a_schema_that_polars_cannot_decode_keeps_its_other_types() -> None:
    when = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
    schema = schema_of(
        ("e", ["null", {"type": "enum", "name": "e", "symbols": ["A", "B"]}]),
        ("m", {"type": "map", "values": {"type": "map", "values": "int"}}),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("t", {"type": "long", "logicalType": "time-micros"}),
    )
    record = {"e": "B", "m": {"a": {"b": 1}}, "at": when, "t": datetime.time(0, 0, 1)}
    assert decoded(schema, [record]) == [
        {"e": "B", "m": [("a", [("b", 1)])], "at": when, "t": 1_000_000}
    ]


def test_columns_narrow_the_result_in_the_order_of_the_writer() -> None:
    schema = schema_of(("a", "int"), ("b", "int"), ("c", "int"))
    body = encoded(schema, [{"a": 1, "b": 2, "c": 3}])
    table = decode_records(body, 1, json.dumps(schema), ["c", "a", "unknown"])
    assert table.to_pylist() == [{"a": 1, "c": 3}]


def test_no_records() -> None:
    table = decode_records(b"", 0, json.dumps(schema_of(("a", "int"))))
    assert table.schema == pa.schema([("a", pa.int32())])
    assert table.num_rows == 0


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_count_is_malformed(count: int) -> None:
    schema = schema_of(("a", "string"))
    body = encoded(schema, [{"a": "x"}, {"a": "y"}])
    with pytest.raises(Malformed):
        decode_records(body, count, json.dumps(schema))


def test_a_length_that_lies_is_malformed_even_when_the_bytes_decode() -> None:
    schema = schema_of(("a", "int"))
    body = bytearray(encoded(schema, [{"a": 1}, {"a": 2}]))
    body[3] += 1
    with pytest.raises(Malformed, match="add up"):
        decode_records(bytes(body), 2, json.dumps(schema))


@pytest.mark.parametrize("kind", [["null", "string"], ["null", "int", "long"]])
def test_damaged_bytes_are_malformed_or_decode_to_as_many_records(kind: object) -> None:
    schema = schema_of(
        ("a", kind), ("b", {"type": "array", "items": "long"}), ("c", ["null", "string"])
    )
    value: Any = "text" if "string" in str(kind) else 7
    records = [{"a": value, "b": [1, 2, 3], "c": None}] * 5
    whole = encoded(schema, records)
    rng = random.Random(7)
    for _ in range(300):
        body = bytearray(whole)
        body[rng.randrange(len(body))] = rng.randrange(256)
        try:
            table = decode_records(bytes(body), 5, json.dumps(schema))
        except Malformed:
            continue
        assert table.num_rows == 5


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": "null"},
        {"type": "map", "values": "null"},
        {"type": "record", "name": "r", "fields": []},
    ],
)
def test_types_whose_values_take_no_bytes_are_malformed(kind: object) -> None:
    with pytest.raises(Malformed):
        decode_records(b"\0\0\0\0", 1, json.dumps(schema_of(("a", kind))))
