"""How rows look in a terminal; no session is needed for that."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

import pytest
from pyspark.sql import Row

from tidelake.cli import rows


class Frame:
    """A DataFrame of one column, as far as `render` looks."""

    columns = ("value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def collect(self) -> list[Row]:
        return [Row(value=self._value)]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        ("two\nlines", "two lines"),
        (Decimal("1.50"), "1.50"),
        (bytearray(b"\x00\xff"), "0x00ff"),
        (Row(name="ann", age=None, of=Row(x=[1, 2])), '{"name":"ann","of":{"x":[1,2]}}'),
        ([Row(x=1), None], '[{"x":1},null]'),
        ({"k": Row(x=Decimal("2.5"))}, '{"k":{"x":2.5}}'),
        ([bytearray(b"ab")], '["YWI="]'),
    ],
)
def test_nested_values_are_shown_as_json(value: object, shown: str) -> None:
    assert rows.render(cast("Any", Frame(value)), 0)[1] == shown
