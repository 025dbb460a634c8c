from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from tidelake.model.instant_digits import instant_digits, shown_moment


def test_a_moment_is_shown_by_its_own_clock() -> None:
    noon = datetime(2026, 3, 1, 12, 0, 0, 7_999, tzinfo=timezone(timedelta(hours=9)))
    assert instant_digits(noon) == "20260301120000007"
    assert instant_digits(noon.astimezone(timezone.utc)) == "20260301030000007"


@pytest.mark.parametrize(
    ("digits", "milliseconds"),
    [("20260301120000007", 7), ("20260301120000", 0), ("202603011200000079", 7)],
)
def test_digits_of_any_precision_are_a_moment(digits: str, milliseconds: int) -> None:
    assert shown_moment(digits) == datetime(2026, 3, 1, 12) + timedelta(  # noqa: DTZ001 - no zone
        milliseconds=milliseconds
    )


@pytest.mark.parametrize("digits", ["", "00000000000000000", "2026", "20261301000000000", "x"])
def test_digits_that_no_clock_shows_are_a_value_error(digits: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        shown_moment(digits)
