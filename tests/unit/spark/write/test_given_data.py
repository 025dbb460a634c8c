"""Rows of other libraries, made ready for Spark; none of this needs a session."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tidelake.errors import SchemaError
from tidelake.spark.write.given_data import to_arrow

STORED = pa.schema(
    [
        ("id", pa.int32()),
        ("fare", pa.float64()),
        ("price", pa.decimal128(6, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("wall", pa.timestamp("us")),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
        ("who", pa.struct([("name", pa.string()), ("age", pa.int32())])),
    ]
)
#: Two hours ahead of UTC at that time of the year.
ZONE = "Europe/Oslo"
NOON = datetime(2026, 7, 1, 12)  # noqa: DTZ001 - a time of which no zone is said
NOON_IN_OSLO = datetime(2026, 7, 1, 10, tzinfo=timezone.utc)


def test_dicts_take_the_types_of_the_table() -> None:
    rows = [
        {"id": 1, "fare": 2, "price": Decimal("3.1"), "at": NOON, "day": date(2026, 7, 1)},
        {"id": 2, "tags": ["a", None], "who": {"name": "ann", "age": 7}},
    ]
    found = to_arrow(rows, STORED, zone=ZONE)
    assert found.schema == pa.schema([STORED.field(name) for name in found.column_names])
    assert found.column_names == ["id", "fare", "price", "at", "day", "tags", "who"]
    assert found.to_pylist()[0] == {
        "id": 1,
        "fare": 2.0,
        "price": Decimal("3.10"),
        "at": NOON_IN_OSLO,
        "day": date(2026, 7, 1),
        "tags": None,
        "who": None,
    }
    assert found.to_pylist()[1]["who"] == {"name": "ann", "age": 7}


def test_times_without_a_zone_stay_so_where_the_table_stores_them_so() -> None:
    arrow = pa.table({"wall": pa.array([NOON], pa.timestamp("ns"))})
    for given in ([{"wall": NOON}], pd.DataFrame({"wall": [NOON]}), arrow):
        found = to_arrow(given, STORED, zone=ZONE)
        assert found.schema.field("wall").type == pa.timestamp("us")
        assert found.to_pylist() == [{"wall": NOON}]


@pytest.mark.parametrize(
    "given",
    [
        [{"at": NOON}],
        pd.DataFrame({"at": [NOON]}),
        pl.DataFrame({"at": [NOON]}),
        pa.table({"at": pa.array([NOON], pa.timestamp("ms"))}),
    ],
    ids=["dicts", "pandas", "polars", "arrow"],
)
@pytest.mark.parametrize("stored", [STORED, None], ids=["stored", "new"])
def test_times_without_a_zone_are_of_the_session(given: Any, stored: pa.Schema | None) -> None:
    found = to_arrow(given, stored, zone=ZONE)
    assert found.to_pylist() == [{"at": NOON_IN_OSLO}]
    assert found.schema.field("at").type == pa.timestamp("us", tz="UTC")


def test_pandas_takes_the_types_of_the_table_and_loses_its_index() -> None:
    given = pd.DataFrame({"id": [1.0, None], "fare": [1, 2]}, index=["x", "y"])
    found = to_arrow(given, STORED, zone=ZONE)
    assert found.schema == pa.schema([("id", pa.int32()), ("fare", pa.float64())])
    assert found.to_pylist() == [{"id": 1, "fare": 1.0}, {"id": None, "fare": 2.0}]


def test_arrow_and_polars_say_their_types_themselves() -> None:
    assert to_arrow(pa.table({"id": [1]}), STORED, zone=ZONE).schema.field("id").type == pa.int64()
    for given in (pl.DataFrame({"id": [1]}), pl.LazyFrame({"id": [1]})):
        found = to_arrow(given, STORED, zone=ZONE)
        assert found.schema.field("id").type == pa.int64()


def test_types_that_spark_lacks_become_the_nearest_that_it_has() -> None:
    given = pa.table(
        {
            "small": pa.array([255], pa.uint8()),
            "large": pa.array([2**64 - 1], pa.uint64()),
            "word": pa.array(["a"]).dictionary_encode(),
            "text": pa.array(["b"], pa.large_string()),
            "list": pa.array([[1]], pa.large_list(pa.uint16())),
            "struct": pa.array([{"x": 1}], pa.struct([("x", pa.uint32())])),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.uint8())),
        }
    )
    found = to_arrow(given.to_batches()[0], None, zone="UTC")
    assert found.schema.types == [
        pa.int16(),
        pa.decimal128(20, 0),
        pa.string(),
        pa.string(),
        pa.list_(pa.int32()),
        pa.struct([("x", pa.int64())]),
        pa.map_(pa.string(), pa.int16()),
    ]
    assert found.to_pylist() == given.to_pylist()


def test_nested_times_are_told_apart_as_well() -> None:
    kind = pa.struct([("wall", pa.timestamp("us")), ("at", pa.timestamp("us", tz="UTC"))])
    stored = pa.schema([("of", pa.list_(kind)), ("by", pa.map_(pa.string(), kind))])
    row = {"wall": NOON, "at": NOON}
    found = to_arrow([{"of": [row], "by": {"k": row}}], stored, zone=ZONE).to_pylist()
    wanted = {"wall": NOON, "at": NOON_IN_OSLO}
    assert found == [{"of": [wanted], "by": [("k", wanted)]}]


def test_no_rows_have_the_columns_of_the_table() -> None:
    assert to_arrow([], STORED, zone=ZONE).schema == STORED
    with pytest.raises(SchemaError, match="empty list"):
        to_arrow([], None, zone=ZONE)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([{"id": "x"}], "column id has values that do not fit the type int32"),
        ([{"id": 2**40}], "column id has values that do not fit the type int32"),
        ([{"new": 1}, {"new": "x"}], "column new has values that do not fit one type"),
        (pd.DataFrame({"id": [1.5]}), "column id has values that do not fit the type int32"),
        ([{"id": 1, "new": None}], "column new is null in every row"),
        ({"id": [1]}, "rows are given as builtins.dict"),
        ([1, 2], "rows are given as builtins.list"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_next_step(given: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem) as told:
        to_arrow(given, STORED, zone=ZONE)
    assert told.value.next_step
