from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.formats.partition_path import escape, format_path, parse_path, unescape


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("us/east", "us%2Feast"),
        ("a=b:c%d", "a%3Db%3Ac%25d"),
        ("2026-03-01 10:00", "2026-03-01 10%3A00"),
        ("é+&,|<>~.}", "é+&,|<>~.}"),
        ("\x01\x7f\"#'*?\\{[]^", "%01%7F%22%23%27%2A%3F%5C%7B%5B%5D%5E"),
    ],
)
def test_values_are_escaped_as_hive_does(value: str, text: str) -> None:
    assert escape(value) == text
    assert unescape(text) == value


def test_a_stray_percent_sign_stands_for_itself() -> None:
    assert unescape("100%") == "100%"
    assert unescape("%zz%4") == "%zz%4"


@given(st.text())
def test_escaping_can_be_undone(value: str) -> None:
    assert unescape(escape(value)) == value
    assert "/" not in escape(value)


PATHS = [
    # fields       values                  hive   encode path
    (("city",), ("oslo",), True, False, "city=oslo"),
    (("city",), ("oslo",), False, False, "oslo"),
    (("a", "b"), ("1", "x y"), True, False, "a=1/b=x y"),
    (("a", "b"), ("1/2", None), True, True, "a=1%2F2/b=__HIVE_DEFAULT_PARTITION__"),
    (("day",), ("2026/03/01",), False, False, "2026/03/01"),
    ((), (), False, False, ""),
]


@pytest.mark.parametrize(("fields", "values", "hive", "encode", "path"), PATHS)
def test_paths_come_together_and_apart(
    fields: tuple[str, ...], values: tuple[str | None, ...], hive: bool, encode: bool, path: str
) -> None:
    assert format_path(fields, values, hive_style=hive, url_encode=encode) == path
    assert parse_path(path, fields, hive_style=hive, url_encode=encode) == values


def test_an_empty_value_and_the_old_default_partition_are_null() -> None:
    path = format_path(("a",), ("",), hive_style=False, url_encode=False)
    assert parse_path(path, ("a",), hive_style=False, url_encode=False) == (None,)
    assert parse_path("default", ("a",), hive_style=False, url_encode=False) == (None,)


@pytest.mark.parametrize(
    ("path", "fields"), [("a=1", ("b",)), ("a=1/b=2/c=3", ("a", "b")), ("a=1", ("a", "b"))]
)
def test_a_path_of_another_shape_is_told(path: str, fields: tuple[str, ...]) -> None:
    assert parse_path(path, fields, hive_style=True, url_encode=False) is None
