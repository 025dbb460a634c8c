from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.formats.partition_path import (
    escape,
    format_path,
    nested,
    parse_path,
    unescape,
    unreadable,
)


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


ODD = ["a//b", "a/", "a/.", "a/./b", "a/../b", "/", "a\\b", "a\nb", "\0", "x" * 256, "a%2Fb"]


@pytest.mark.parametrize("hive", [False, True])
@pytest.mark.parametrize("value", [*ODD, "__HIVE_DEFAULT_PARTITION__"])
def test_a_value_that_no_listing_gives_back_is_refused(value: str, hive: bool) -> None:
    path = format_path(("p",), (value,), hive_style=hive, url_encode=False)
    assert unreadable(("p",), (value,), path, hive_style=hive, url_encode=False)


@pytest.mark.parametrize("value", [".", "..", ".hoodie", ".hoodie/timeline", ".a", "./a"])
def test_a_hidden_folder_is_refused_where_nothing_stands_before_the_value(value: str) -> None:
    for hive, encode in [(False, False), (False, True)]:
        path = format_path(("p",), (value,), hive_style=hive, url_encode=encode)
        assert unreadable(("p",), (value,), path, hive_style=hive, url_encode=encode)


@pytest.mark.parametrize(
    "value", [None, "", "a", "a b", "a/b", "a.b", "default", "100%", "é:=", " "]
)
def test_other_values_are_taken(value: str | None) -> None:
    for hive in (False, True):
        path = format_path(("p",), (value,), hive_style=hive, url_encode=False)
        assert unreadable(("p",), (value,), path, hive_style=hive, url_encode=False) is None


@pytest.mark.parametrize("value", [v for v in ODD if len(v) < 256])
def test_what_is_encoded_is_taken_behind_the_name_of_its_field(value: str) -> None:
    path = format_path(("p",), (value,), hive_style=True, url_encode=True)
    assert unreadable(("p",), (value,), path, hive_style=True, url_encode=True) is None
    assert parse_path(path, ("p",), hive_style=True, url_encode=True) == (value,)


def test_a_value_that_reads_like_two_fields_is_refused() -> None:
    values = ("x/q=1", "2")
    path = format_path(("p", "q"), values, hive_style=True, url_encode=False)
    assert unreadable(("p", "q"), values, path, hive_style=True, url_encode=False)


def test_a_partition_inside_of_another_is_noticed() -> None:
    assert nested(["a", "b/c", "a/b/c"]) == ("a", "a/b/c")
    assert nested(["a", "ab", "b/c", "b/d"]) is None
