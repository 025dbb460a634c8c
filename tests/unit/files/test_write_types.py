from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.files.written_table import (
    FIELDS,
    TOKEN,
    WrittenTable,
    nullable,
    row,
)
from tidelake.errors import SchemaError
from tidelake.files.write_group import write_group
from tidelake.files.write_task import CHANGE, Change, LogFormat, LogSettings, WriteKind
from tidelake.model import MergeMode
from tidelake.records import MergeSpec
from tidelake.records.schema import arrow_schema

VERSIONS = (6, 8, 9)


def fixed(name: str, size: int, precision: int, scale: int) -> dict[str, Any]:
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": f"hoodie.t.{name}",
        "size": size,
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }


def place(name: str) -> dict[str, Any]:
    names = {"type": "array", "items": "string"}
    fields = [nullable("x", "int"), nullable("names", names)]
    return {"type": "record", "name": name, "namespace": "hoodie.t", "fields": fields}


EVERY = [
    *FIELDS,
    nullable("flag", "boolean"),
    nullable("small", "int"),
    nullable("single", "float"),
    nullable("double", "double"),
    nullable("raw", "bytes"),
    nullable("day", {"type": "int", "logicalType": "date"}),
    nullable("at", {"type": "long", "logicalType": "timestamp-micros"}),
    nullable("d9", fixed("d9", 4, 9, 2)),
    nullable("d18", fixed("d18", 8, 18, 4)),
    nullable("d38", fixed("d38", 16, 38, 10)),
    nullable("list", {"type": "array", "items": ["null", "string"]}),
    nullable("map", {"type": "map", "values": ["null", "long"]}),
    nullable("place", place("place")),
    nullable("places", {"type": "array", "items": ["null", place("places")]}),
]
FULL: dict[str, Any] = {
    "flag": True,
    "small": -(2**31),
    "single": 0.1,
    "double": -0.0,
    "raw": b"\x00\xff",
    "day": date(1582, 10, 15),
    "at": datetime(2026, 3, 1, 10, 15, 0, 123456, timezone.utc),
    "d9": Decimal("-1234567.89"),
    "d18": Decimal("12345678901234.5678"),
    "d38": Decimal("-1234567890123456789012345678.0123456789"),
    "list": ["a", None, "日本"],
    "map": [("k", 1), ("", None)],
    "place": {"x": 7, "names": ["n", ""]},
    "places": [{"x": None, "names": None}, {"x": 1, "names": []}],
}
EMPTY: dict[str, Any] = {**dict.fromkeys(FULL), "list": [], "map": [], "places": []}


def typed(table: WrittenTable, rows: list[dict[str, Any]]) -> list[pa.RecordBatch]:
    made = pa.Table.from_pylist(rows, arrow_schema(table.spec.schema))
    made = made.append_column("_hoodie_record_key", made.column("id"))
    made = made.append_column(CHANGE, pa.array([int(Change.UPDATE)] * len(rows)))
    return list(made.to_batches())


def put(table: WrittenTable, kind: WriteKind, rows: list[dict[str, Any]]) -> None:
    spec = table.begin()
    table.commit(spec, write_group(typed(table, rows), table.target(kind), TOKEN, spec))


def rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows as Python compares them: a map by its entries, a float32 by its digits."""
    return [{**r, "single": r["single"] and round(r["single"], 6)} for r in rows]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", [None, *LogFormat])
def test_every_type_and_null_comes_back(
    tmp_path: Path, version: int, form: LogFormat | None
) -> None:
    log = LogSettings(format=form or LogFormat.AVRO)
    table = WrittenTable(tmp_path, version=version, mor=form is not None, fields=EVERY, log=log)
    nothing = dict.fromkeys(FULL)
    put(table, WriteKind.CREATE, [row("a", **FULL), row("b", **nothing), row("c", **EMPTY)])
    kind = WriteKind.MERGE if form is None else WriteKind.APPEND
    put(table, kind, [row("b", 2, **FULL), row("d", **nothing), row("e", **FULL)])
    expected = [
        row("a", **FULL),
        row("b", 2, **FULL),
        row("c", **EMPTY),
        row("d", **nothing),
        row("e", **FULL),
    ]
    assert rounded(table.ours()) == expected
    assert rounded(table.theirs()) == expected
    # -0.0 == 0.0, so the sign needs a look of its own.
    assert math.copysign(1, table.ours()[0]["double"]) == -1


def test_decimals_and_times_are_stored_as_hudi_stores_them(tmp_path: Path) -> None:
    millis = nullable("ms", {"type": "long", "logicalType": "timestamp-millis"})
    local = nullable("local", {"type": "long", "logicalType": "local-timestamp-micros"})
    table = WrittenTable(tmp_path, fields=[*EVERY, millis, local])
    moment = datetime(2026, 3, 1, 10, 15, 0, 123000, timezone.utc)
    put(table, WriteKind.CREATE, [row("a", **FULL, ms=moment, local=moment.replace(tzinfo=None))])
    (path,) = tmp_path.glob("city=oslo/*.parquet")
    schema = pq.ParquetFile(path).schema
    found = {schema.column(at).path: schema.column(at) for at in range(len(schema))}
    assert [(found[n].physical_type, found[n].length) for n in ("d9", "d18", "d38")] == [
        ("FIXED_LEN_BYTE_ARRAY", 4),
        ("FIXED_LEN_BYTE_ARRAY", 8),
        ("FIXED_LEN_BYTE_ARRAY", 16),
    ]
    units = {n: str(found[n].logical_type) for n in ("at", "ms", "local")}
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in units["at"]
    assert "isAdjustedToUTC=true, timeUnit=milliseconds" in units["ms"]
    assert "isAdjustedToUTC=false, timeUnit=microseconds" in units["local"]
    assert "list.list.element" in found
    assert table.ours()[0]["ms"] == moment


ORDERINGS = [
    ("int", [1, 5, 4]),
    ("long", [0, 2**40, 7]),
    ("float", [-0.5, 2.5, 2.25]),
    ("double", [-1.0, 2.5, 0.0]),
    ("string", ["a", "é", "z"]),
    ({"type": "int", "logicalType": "date"}, [date(2000, 1, d) for d in (1, 9, 5)]),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        [datetime(2000, 1, d, tzinfo=timezone.utc) for d in (1, 9, 5)],
    ),
    (fixed("ts", 5, 10, 2), [Decimal("-1.00"), Decimal("9.50"), Decimal("5.25")]),
    ("boolean", [False, True, False]),
]


@pytest.mark.parametrize("mor", [False, True])
@pytest.mark.parametrize(("kind", "values"), ORDERINGS)
def test_deletes_and_updates_obey_ordering_values_of_every_type(
    tmp_path: Path, kind: Any, values: list[Any], mor: bool
) -> None:
    fields = [
        FIELDS[0],
        nullable("ts", kind),
        *FIELDS[2:],
        nullable("_hoodie_is_deleted", "boolean"),
    ]
    table = WrittenTable(tmp_path, mor=mor, fields=fields)
    low, high, middle = values
    gone: dict[str, Any] = {"_hoodie_is_deleted": True}
    put(table, WriteKind.CREATE, [row(key, middle, "old") for key in "abcd"])
    put(
        table,
        WriteKind.APPEND if mor else WriteKind.MERGE,
        [
            row("a", low, "stale"),
            row("b", high, "new"),
            row("c", low, **gone),
            row("d", high, **gone),
        ],
    )
    expected = {"a": "old", "b": "new", "c": "old"}
    if low == middle:
        # Ties go to the later record.
        expected = {"a": "stale", "b": "new"}
    assert {r["id"]: r["text"] for r in table.ours()} == expected
    assert {r["id"]: r["text"] for r in table.theirs()} == expected


def test_several_ordering_fields_in_a_delete_block(tmp_path: Path) -> None:
    fields = [*FIELDS, nullable("seq", "string"), nullable("_hoodie_is_deleted", "boolean")]
    merge = MergeSpec(mode=MergeMode.EVENT_TIME, ordering_fields=("ts", "seq"))
    extra = {"hoodie.table.ordering.fields": "ts,seq"}
    table = WrittenTable(tmp_path, mor=True, fields=fields, merge=merge, extra=extra)
    gone: dict[str, Any] = {"_hoodie_is_deleted": True}
    put(table, WriteKind.CREATE, [row(key, 5, "old", seq="m") for key in "abc"])
    deletes = [
        row("a", 5, seq="a", **gone),
        row("b", 5, seq="z", **gone),
        row("c", None, seq=None, **gone),
    ]
    put(table, WriteKind.APPEND, deletes)
    assert [r["id"] for r in table.ours()] == ["a", "c"]


def test_not_a_number_orders_above_every_number(tmp_path: Path) -> None:
    fields = [FIELDS[0], nullable("ts", "double"), *FIELDS[2:]]
    table = WrittenTable(tmp_path, fields=fields)
    put(table, WriteKind.CREATE, [row("a", math.nan, "nan"), row("b", -0.0, "minus zero")])
    put(table, WriteKind.MERGE, [row("a", math.inf, "inf"), row("b", 0.0, "zero")])
    assert {r["id"]: r["text"] for r in table.ours()} == {"a": "nan", "b": "zero"}


def test_rows_are_widened_to_the_types_of_the_table(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path)
    narrow = pa.table(
        {
            "id": pa.array(["a"], pa.large_string()),
            "ts": pa.array([3], pa.int32()),
            "_hoodie_record_key": ["a"],
            CHANGE: pa.array([0], pa.int8()),
        }
    )
    spec = table.begin()
    stats = write_group(narrow.to_batches(), table.target(WriteKind.CREATE), TOKEN, spec)
    table.commit(spec, stats)
    assert table.ours() == [{"id": "a", "ts": 3, "text": None, "city": None}]


def test_a_type_that_cannot_become_the_tables_is_refused(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path)
    with pytest.raises(SchemaError, match="column ts"):
        table.write([{"id": "a", "ts": "x"}])


def test_a_base_file_of_an_earlier_schema_is_brought_to_the_new_one(tmp_path: Path) -> None:
    narrow = [FIELDS[0], nullable("ts", "int"), FIELDS[3]]
    WrittenTable(tmp_path, fields=narrow).write([{"id": "a", "ts": 1, "city": "oslo"}])
    table = WrittenTable(tmp_path)
    table.begin()
    (stat,) = table.write([row("b", 2**40)], WriteKind.MERGE)
    assert table.ours() == [row("a", text=None), row("b", 2**40)]
    assert pq.read_schema(tmp_path / (stat.path or "")).field("ts").type == pa.int64()
