from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tidelake.errors import SchemaError
from tidelake.records.text import java_float, java_text, key_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1e22, "1.0E22"),
        (-2.5e-7, "-2.5E-7"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_print_as_java_prints_them(value: float, text: str) -> None:
    assert java_float(value) == text


def test_floats_print_their_own_shortest_digits() -> None:
    column = pa.chunked_array([pa.array([0.1, None, 1e10, 123456.789], pa.float32())])
    assert java_text(column).to_pylist() == ["0.1", None, "1.0E10", "123456.79"]


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([1, None], pa.int64(), ["1", None]),
        ([True, False], pa.bool_(), ["true", "false"]),
        ([datetime.date(2024, 2, 29)], pa.date32(), ["2024-02-29"]),
        ([Decimal("12345.67890")], pa.decimal128(10, 5), ["12345.67890"]),
        ([7], pa.timestamp("us", tz="UTC"), ["7"]),
        ([b"\x00\xff"], pa.binary(), ["00ff"]),
    ],
)
def test_values_in_keys(values: list[object], kind: pa.DataType, texts: list[str]) -> None:
    assert key_text(pa.chunked_array([pa.array(values, kind)])).to_pylist() == texts


def test_a_nested_value_has_no_text() -> None:
    with pytest.raises(SchemaError, match="no text form"):
        java_text(pa.chunked_array([pa.array([[1]])]))
