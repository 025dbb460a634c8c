"""Spellings of a point in time."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from tidelake.errors import ConfigError
from tidelake.state.point_in_time import to_instant

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
        (1772360100, "20260301101500000"),
        ("1772360100123456", "20260301101500123"),
        ("1772360100123456789", "20260301101500123"),
        ("2026-03-01T10:15", "20260301101500000"),
        ("2026-03-01 10:15Z", "20260301101500000"),
        (datetime(2026, 3, 1, 12, 15, tzinfo=EAST), "20260301101500000"),
        ("000", "000"),
    ],
)
def test_every_spelling_comes_to_the_same_digits(given: str | int | datetime, instant: str) -> None:
    assert to_instant(given) == instant


def test_epoch_and_zoned_times_are_shown_on_the_timeline_s_clock() -> None:
    assert to_instant("1772360100123", EAST) == "20260301121500123"
    assert to_instant("2026-03-01T10:15:00Z", EAST) == "20260301121500000"


@pytest.mark.parametrize(
    "given",
    [
        "yesterday",
        "2026-13-01",
        "2026-03-01 25:00:00",
        "",
        "-5",
        "9999-12-31 23:59:59-12:00",
        "0001-01-01 00:00:00+14:00",
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))),
    ],
)
def test_what_is_no_time_is_refused_with_examples(given: str | datetime) -> None:
    with pytest.raises(ConfigError, match="not a point in time") as refused:
        to_instant(given)
    assert "2026-03-01" in refused.value.next_step


@pytest.fixture
def sydney(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Australia/Sydney")
    clock.tzset()
    yield
    monkeypatch.undo()
    clock.tzset()


@pytest.mark.usefixtures("sydney")
@pytest.mark.parametrize(
    ("given", "instant"),
    [
        ("2026-07-01T00:00:00Z", "20260701100000000"),
        ("2026-12-01T00:00:00Z", "20261201110000000"),
        (1782864000, "20260701100000000"),
        (datetime(2026, 12, 1, tzinfo=timezone.utc), "20261201110000000"),
        ("2026-07-01 10:00:00", "20260701100000000"),
    ],
)
def test_a_moment_has_its_own_offset_on_a_clock_that_changes(
    given: str | int | datetime, instant: str
) -> None:
    assert to_instant(given, None) == instant
