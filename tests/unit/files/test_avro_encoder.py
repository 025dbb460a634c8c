from __future__ import annotations

import io
import json
import struct
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelake.errors import SchemaError
from tidelake.files import avro_encoder
from tidelake.files.avro_encoder import encode_items, encode_records
from tidelake.files.avro_records import decode_records
from tidelake.formats import delete_block
from tidelake.formats.delete_block import DeleteRecords, OrderingKind
from tidelake.records.schema import arrow_schema

Node = Any


def schema_of(**fields: Node) -> dict[str, Any]:
    named = [{"name": name, "type": node} for name, node in fields.items()]
    return {"type": "record", "name": "r", "namespace": "hoodie.t", "fields": named}


def by_fastavro(schema: Node, rows: list[dict[str, Any]]) -> bytes:
    parsed = fastavro.parse_schema(schema)
    out = io.BytesIO()
    for row in rows:
        datum = io.BytesIO()
        fastavro.schemaless_writer(datum, parsed, row)
        out.write(struct.pack(">i", len(datum.getvalue())) + datum.getvalue())
    return out.getvalue()


def table_of(schema: Node, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, arrow_schema(json.dumps(schema)))


def encoded(schema: Node, rows: list[dict[str, Any]]) -> bytes:
    parts = list(encode_records(table_of(schema, rows), json.dumps(schema)))
    assert sum(count for count, _ in parts) == len(rows)
    return b"".join(data for _, data in parts)


def fixed(size: int, precision: int, scale: int, name: str = "fixed") -> Node:
    return {
        "type": "fixed",
        "name": name,
        "size": size,
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }


def logical(kind: str, word: str, **more: Any) -> Node:
    return {"type": kind, "logicalType": word, **more}


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    # A Decimal of digits and exponent is exact whatever the precision of the context.
    # Of -128 and its like fastavro writes a byte more than it takes; Java and we do not.
    short = st.integers(-most, most).filter(
        lambda n: n >= 0 or n.bit_length() % 8 or n.bit_count() > 1
    )
    return short.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


def fills_its_bytes(number: Decimal) -> bool:
    """Return whether this is the least number of some bytes; fastavro takes a byte more."""
    return any(number.scaleb(3) == -(1 << (8 * size - 1)) for size in range(1, 10))


BYTES_DECIMAL = logical("bytes", "decimal", precision=20, scale=3)
# Neither years that fastavro shifts to the epoch inexactly, nor text that UTF-8 cannot say.
TIMES = st.datetimes(datetime(1902, 1, 1), datetime(2400, 1, 1))  # noqa: DTZ001 - local times
LEAVES: dict[str, tuple[Node, st.SearchStrategy[Any]]] = {
    "boolean": ("boolean", st.booleans()),
    "int": ("int", st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", st.integers(-(2**63), 2**63 - 1)),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "double": ("double", st.floats(allow_nan=False)),
    "string": ("string", st.text(max_size=200)),
    "bytes": ("bytes", st.binary(max_size=200)),
    "date": (logical("int", "date"), st.dates(date(1900, 1, 1), date(2400, 1, 1))),
    "micros": (
        logical("long", "timestamp-micros"),
        TIMES.map(lambda t: t.replace(tzinfo=timezone.utc)),
    ),
    "millis": (
        logical("long", "timestamp-millis"),
        TIMES.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)).map(
            lambda t: t.replace(tzinfo=timezone.utc)
        ),
    ),
    "local": (logical("long", "local-timestamp-micros"), TIMES),
    "decimal9": (fixed(4, 9, 2), decimals(9, 2)),
    "decimal18": (fixed(8, 18, 4), decimals(18, 4)),
    "decimal38": (fixed(16, 38, 10), decimals(38, 10)),
    "decimal bytes": (BYTES_DECIMAL, decimals(20, 3).filter(lambda d: not fills_its_bytes(d))),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, st.sampled_from(["A", "B"])),
}


def three_ways(node: Node) -> Node:
    """Return a schema that holds the type required, nullable, and nullable with null last."""

    def named(name: str) -> Node:
        return {**node, "name": name} if isinstance(node, dict) and "name" in node else node

    return schema_of(
        required=named("first"), nullable=["null", named("second")], last=[named("third"), "null"]
    )


@pytest.mark.parametrize("name", LEAVES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_bytes_are_those_of_a_row_by_row_encoder(name: str, data: st.DataObject) -> None:
    node, values = LEAVES[name]
    some = st.none() | values
    row = st.fixed_dictionaries({"required": values, "nullable": some, "last": some})
    rows = data.draw(st.lists(row, min_size=1, max_size=20))
    assert encoded(three_ways(node), rows) == by_fastavro(three_ways(node), rows)


@pytest.mark.parametrize("size", range(1, 9))
def test_a_decimal_takes_as_few_bytes_as_java_gives_it(size: int) -> None:
    least = Decimal(-(1 << (8 * size - 1))).scaleb(-3)
    data = encoded(schema_of(number=BYTES_DECIMAL), [{"number": least}])
    assert data[4:] == bytes([2 * size, 0x80]) + bytes(size - 1)


POINT = {
    "type": "record",
    "name": "point",
    "fields": [
        {"name": "x", "type": "int"},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
    ],
}
NESTED = schema_of(
    point=["null", POINT],
    points=["null", {"type": "array", "items": "point"}],
    counts=["null", {"type": "map", "values": ["null", "long"]}],
    deep={"type": "array", "items": {"type": "map", "values": {"type": "array", "items": "int"}}},
)
POINTS = st.fixed_dictionaries(
    {
        "x": st.integers(-99, 99),
        "tags": st.none() | st.lists(st.none() | st.text(max_size=5), max_size=3),
    }
)
KEYS = st.text(max_size=5)
NESTED_ROWS = st.fixed_dictionaries(
    {
        "point": st.none() | POINTS,
        "points": st.none() | st.lists(POINTS, max_size=3),
        "counts": st.none() | st.dictionaries(KEYS, st.none() | st.integers(-9, 9), max_size=3),
        "deep": st.lists(
            st.dictionaries(KEYS, st.lists(st.integers(0, 9), max_size=3), max_size=3), max_size=3
        ),
    }
)


def in_arrow(row: dict[str, Any]) -> dict[str, Any]:
    counts = row["counts"]
    return {
        **row,
        "counts": None if counts is None else list(counts.items()),
        "deep": [list(each.items()) for each in row["deep"]],
    }


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(NESTED_ROWS, min_size=1, max_size=12), start=st.integers(0, 3))
def test_nested_values_and_slices_of_them(rows: list[dict[str, Any]], start: int) -> None:
    table = table_of(NESTED, [in_arrow(row) for row in rows]).combine_chunks().slice(start)
    data = b"".join(part for _, part in encode_records(table, json.dumps(NESTED)))
    assert data == by_fastavro(NESTED, rows[start:])


def test_what_is_encoded_decodes_to_the_same_rows() -> None:
    schema = schema_of(id="string", at=["null", logical("long", "timestamp-micros")])
    moment = datetime(2026, 3, 1, 10, 15, 0, 123456, timezone.utc)
    rows = [{"id": f"k{at}", "at": moment + timedelta(at) if at % 3 else None} for at in range(50)]
    found = decode_records(encoded(schema, rows), len(rows), json.dumps(schema))
    assert found.to_pylist() == rows


def test_a_large_table_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_encoder, "_BATCH_BYTES", 100)
    schema = schema_of(id="string")
    rows = [{"id": f"k{at:04}"} for at in range(100)]
    parts = list(encode_records(table_of(schema, rows), json.dumps(schema)))
    assert len(parts) > 5
    assert b"".join(data for _, data in parts) == by_fastavro(schema, rows)


def test_a_column_that_is_missing_is_null() -> None:
    schema = schema_of(id="string", other=["null", "int"])
    parts = list(encode_records(pa.table({"id": ["a"]}), json.dumps(schema)))
    assert parts == [(1, by_fastavro(schema, [{"id": "a", "other": None}]))]


@pytest.mark.parametrize(
    ("schema", "row", "column"),
    [
        (schema_of(id="string"), {"id": None}, "id"),
        (schema_of(point=POINT), {"point": {"x": None, "tags": None}}, "point.x"),
        (
            schema_of(list={"type": "array", "items": "int"}),
            {"list": [1, None]},
            "list.element",
        ),
    ],
)
def test_a_null_where_none_may_be_is_refused(schema: Node, row: Any, column: str) -> None:
    with pytest.raises(SchemaError, match=f"column {column} holds a null"):
        list(encode_records(table_of(schema, [row]), json.dumps(schema)))


def test_a_word_that_is_no_symbol_is_refused() -> None:
    schema = schema_of(word={"type": "enum", "name": "e", "symbols": ["A", "B"]})
    with pytest.raises(SchemaError, match="none of A, B"):
        list(encode_records(table_of(schema, [{"word": "C"}]), json.dumps(schema)))


@pytest.mark.parametrize(
    ("kinds", "values"),
    [
        ([OrderingKind.INT], [(0,), (-7,)]),
        ([OrderingKind.LONG], [(0,), (2**40,)]),
        ([OrderingKind.STRING], [("",), ("zoë",)]),
        ([OrderingKind.DOUBLE], [(0.5,), (-1.0,)]),
        ([OrderingKind.BOOLEAN], [(True,), (False,)]),
        ([OrderingKind.BYTES], [(b"\x00",), (b"",)]),
        ([OrderingKind.DECIMAL], [(Decimal("1.250"),), (Decimal("-3.000"),)]),
        ([OrderingKind.LONG, OrderingKind.STRING], [(1, "a"), (-2, "")]),
    ],
)
def test_delete_records_are_encoded_as_the_codec_does(
    kinds: list[OrderingKind], values: list[tuple[Any, ...]]
) -> None:
    count = len(values)
    columns: dict[str, Any] = {"recordKey": ["k1", "ключ"], "partitionPath": ["p=1", ""]}
    columns |= {f"value_{at}": [row[at] for row in values] for at in range(len(kinds))}
    columns |= {
        name: pa.array([value] * count, pa.int32())
        for name, value in delete_block.record_constants(kinds).items()
    }
    parts = encode_items(pa.table(columns), delete_block.record_schema(kinds))
    single = len(kinds) == 1
    expected = DeleteRecords(
        keys=columns["recordKey"],
        partitions=columns["partitionPath"],
        ordering=[row[0] if single else tuple(zip(kinds, row, strict=True)) for row in values],
        kinds=kinds * count if single else [OrderingKind.ARRAY] * count,
    )
    content = delete_block.join(parts)
    assert content == delete_block.encode(expected)
    assert delete_block.decode(content) == expected
