"""Spellings of a point in time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from tidelake.errors import ConfigError
from tidelake.read.times import to_instant

EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("given", "instant"),
    [
        ("20260301101500123", "20260301101500123"),
        ("20260301101500", "20260301101500999"),
        ("2026-03-01", "20260301000000000"),
        ("2026-03-01 10:15:00", "20260301101500000"),
        ("2026-03-01T10:15:00.12", "20260301101500120"),
        ("2026-03-01T10:15:00.123456Z", "20260301101500123"),
        ("2026-03-01 10:15:00+02:00", "20260301081500000"),
        (1772360100123, "20260301101500123"),
        ("1772360100123", "20260301101500123"),
        (datetime(2026, 3, 1, 12, 15, tzinfo=EAST), "20260301101500000"),
        ("000", "000"),
    ],
)
def test_every_spelling_comes_to_the_same_digits(given: str | int | datetime, instant: str) -> None:
    assert to_instant(given) == instant


def test_epoch_and_zoned_times_are_shown_on_the_timeline_s_clock() -> None:
    assert to_instant("1772360100123", EAST) == "20260301121500123"
    assert to_instant("2026-03-01T10:15:00Z", EAST) == "20260301121500000"


@pytest.mark.parametrize("given", ["yesterday", "2026-13-01", "2026-03-01 25:00:00", "", "-5"])
def test_what_is_no_time_is_refused_with_examples(given: str) -> None:
    with pytest.raises(ConfigError, match="not a point in time") as refused:
        to_instant(given)
    assert "2026-03-01" in refused.value.next_step
