from __future__ import annotations

from datetime import timedelta, timezone

import pytest

from tidelake.cli import text


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(7, "7 ms"), (1500, "1.5 s"), (90_000, "1.5 min"), (36_000_000, "10 h"), (86400000, "1.0 d")],
)
def test_spans_name_one_unit(milliseconds: int, shown: str) -> None:
    assert text.span(milliseconds) == shown


def test_an_instant_is_read_in_the_zone_of_the_table() -> None:
    assert text.instant_ms("19700101000001234") == 1234
    assert text.instant_ms("19700101010001234", timezone(timedelta(hours=1))) == 1234


def test_seconds_alone_and_suffixes_of_the_metadata_table_are_understood() -> None:
    assert text.instant_ms("19700101000001") == 1000
    assert text.instant_ms("19700101000001234010") == 1234


@pytest.mark.parametrize("odd", ["00000000000000010", "", "not a time"])
def test_what_no_clock_shows_has_no_time(odd: str) -> None:
    assert text.instant_ms(odd) is None


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert text.columns(["NAME", "BYTES"], [["a", "1"], ["longer", "12345"]], right=["BYTES"]) == [
        "NAME    BYTES",
        "a           1",
        "longer  12345",
    ]
