"""Bounds of columns: footers and rows say the same, and never less than the values."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timezone
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelake.files.column_stats import (
    column_kinds,
    footer_bounds,
    joined_columns,
    nan_columns,
    no_rows,
    row_bounds,
    widest,
)
from tidelake.formats.column_bounds import ColumnBounds, ValueKind
from tidelake.formats.table_schema import stored_schema

FIELDS: dict[str, Any] = {
    "c_bool": "boolean",
    "c_int": "int",
    "c_long": "long",
    "c_float": "float",
    "c_double": "double",
    "c_str": "string",
    "c_bin": "bytes",
    "c_date": {"type": "int", "logicalType": "date"},
    "c_micros": {"type": "long", "logicalType": "timestamp-micros"},
    "c_millis": {"type": "long", "logicalType": "timestamp-millis"},
    "c_local": {"type": "long", "logicalType": "local-timestamp-micros"},
    "c_dec": {
        "type": "fixed",
        "name": "small",
        "size": 4,
        "logicalType": "decimal",
        "precision": 9,
        "scale": 2,
    },
    "c_big": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
    "c_list": {"type": "array", "items": "int"},
}
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": n, "type": ["null", t]} for n, t in FIELDS.items()],
    }
)
MOMENT = datetime(2026, 3, 1, 10, 15, 0, 123000, tzinfo=timezone.utc)
ROWS = [
    {
        "c_bool": True,
        "c_int": -7,
        "c_long": 2**40,
        "c_float": 0.5,
        "c_double": -1e300,
        "c_str": "строка",
        "c_bin": b"\xff\x00",
        "c_date": date(1969, 12, 31),
        "c_micros": MOMENT,
        "c_millis": MOMENT,
        "c_local": MOMENT.replace(tzinfo=None),
        "c_dec": Decimal("-12.50"),
        "c_big": Decimal("1234567890123456789012345678.0123456789"),
        "c_list": [1],
    },
    {
        "c_bool": False,
        "c_int": 9,
        "c_long": -1,
        "c_float": 1.5,
        "c_double": 3.0,
        "c_str": "a",
        "c_bin": b"a",
        "c_date": date(2026, 1, 1),
        "c_micros": datetime(1960, 1, 1, tzinfo=timezone.utc),
        "c_millis": datetime(1960, 1, 1, tzinfo=timezone.utc),
        "c_local": datetime(1960, 1, 1),  # noqa: DTZ001 - that is what the type means
        "c_dec": Decimal("0.01"),
        "c_big": Decimal("-0.5000000000"),
        "c_list": None,
    },
    dict.fromkeys(FIELDS),
]
KINDS = {name: kind for name, kind in column_kinds(SCHEMA).items() if name in FIELDS}


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, stored_schema(SCHEMA))


def footer(rows: pa.Table, **options: Any) -> pq.FileMetaData:
    file = BytesIO()
    pq.write_table(rows, file, **options)
    return pq.ParquetFile(file).metadata


def values(bounds: ColumnBounds) -> tuple[Any, ...]:
    return (
        bounds.kind,
        bounds.info,
        bounds.minimum,
        bounds.maximum,
        bounds.value_count,
        bounds.null_count,
    )


def test_every_type_but_nested_ones_has_bounds() -> None:
    assert set(FIELDS) - set(KINDS) == {"c_list"}
    assert KINDS["c_dec"].info == "9,2"
    assert column_kinds(SCHEMA)["_hoodie_record_key"].kind is ValueKind.STRING


def test_rows_and_footers_say_the_same() -> None:
    rows = table(ROWS)
    by_rows = row_bounds(rows, KINDS)
    by_footer = footer_bounds(footer(rows, row_group_size=2), KINDS, nans=())
    for name in KINDS:
        assert values(by_footer[name]) == values(by_rows[name]), name
        assert by_footer[name].packed_bytes > 0
    assert values(by_rows["c_dec"]) == (ValueKind.DECIMAL, "9,2", -1250, 1, 3, 1)
    assert values(by_rows["c_date"])[2:4] == (-1, 20454)
    assert by_rows["c_millis"].maximum == int(MOMENT.timestamp() * 1000)
    assert by_rows["c_micros"].maximum == round(MOMENT.timestamp() * 1000) * 1000
    assert by_rows["c_str"].minimum == "a"


def test_numbers_that_are_none_are_inside_of_the_bounds() -> None:
    rows = table([{**ROWS[0], "c_double": math.nan}, *ROWS[1:]])
    assert nan_columns(rows, ["c_float", "c_double"]) == {"c_double"}
    found = [
        row_bounds(rows, KINDS)["c_double"],
        footer_bounds(footer(rows), KINDS, nans={"c_double"})["c_double"],
        footer_bounds(footer(rows), KINDS)["c_double"],
    ]
    for bounds in found:
        assert bounds.minimum == 3.0
        assert math.isnan(float(bounds.maximum or 0))
    nothing_else = table([{**ROWS[0], "c_double": math.nan}])
    assert math.isnan(float(row_bounds(nothing_else, KINDS)["c_double"].minimum or 0))


def test_a_text_too_long_for_a_footer_is_inside_of_the_bounds() -> None:
    long = "z" * 10_000
    rows = table([{**ROWS[0], "c_str": long}, *ROWS[1:]])
    bounds = footer_bounds(footer(rows), KINDS, nans=())["c_str"]
    assert bounds.minimum is not None
    assert bounds.minimum <= "a" < long <= (bounds.maximum or "")


def test_a_footer_without_statistics_says_nothing() -> None:
    found = footer_bounds(footer(table(ROWS), write_statistics=False), KINDS, nans=())
    assert found["c_int"] == widest(KINDS["c_int"], 3)
    assert found["c_int"].minimum == -(2**31)


def test_only_nulls_have_no_bounds() -> None:
    rows = table([dict.fromkeys(FIELDS)] * 2)
    for found in (row_bounds(rows, KINDS), footer_bounds(footer(rows), KINDS, nans=())):
        assert values(found["c_big"]) == (ValueKind.DECIMAL, "38,10", None, None, 2, 2)


def test_blocks_of_a_log_are_joined() -> None:
    parts = [row_bounds(table([row]), KINDS) for row in ROWS]
    together = joined_columns(parts, KINDS)
    wanted = row_bounds(table(ROWS), KINDS)
    assert {n: values(b) for n, b in together.items()} == {n: values(b) for n, b in wanted.items()}
    assert joined_columns([], KINDS) == no_rows(KINDS)


@pytest.mark.parametrize(
    ("name", "per_day"),
    [
        ("c_date", 1),
        ("c_millis", 86_400_000),
        ("c_micros", 86_400_000_000),
        ("c_local", 86_400_000_000),
    ],
)
def test_the_widest_dates_and_times_are_ones_that_people_have(name: str, per_day: int) -> None:
    most = widest(KINDS[name], 5)
    first, last = (date(year, 1, 1) - date(1970, 1, 1) for year in (1, 9999))
    assert most.minimum == first.days * per_day
    assert most.maximum == (last.days + 365) * per_day - 1


@pytest.mark.parametrize("name", KINDS)
def test_the_widest_bounds_hold_for_every_value(name: str) -> None:
    most = widest(KINDS[name], 5)
    exact = row_bounds(table(ROWS), KINDS)[name]
    assert joined_columns([{name: most}, {name: exact}], {name: KINDS[name]})[name].minimum == (
        most.minimum
    )
    assert 0 < most.null_count < most.value_count


def test_a_column_that_rows_lack_is_unknown() -> None:
    rows = table(ROWS).drop_columns(["c_int"])
    assert row_bounds(rows, KINDS)["c_int"] == widest(KINDS["c_int"], 3)
