from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
from typing_extensions import override

from tidelake.config import TableConfig
from tidelake.errors import ClockAheadError, UnsupportedTableError
from tidelake.model import Action, Instant, State
from tidelake.testing import ManualClock
from tidelake.timeline import Timeline
from tidelake.txn import InstantTimes, TableSpec
from tidelake.txn.protocol.create_table import table_properties

NOON = int(datetime(2026, 3, 1, 12, 0, 0, 7000, tzinfo=timezone.utc).timestamp() * 1000)


def config(table_version: int = 9, **properties: str) -> TableConfig:
    spec = TableSpec(name="t", schema="{}", table_version=table_version)
    named = {key.replace("__", "."): value for key, value in properties.items()}
    return TableConfig.from_properties({**table_properties(spec), **named})


def timeline(*times: str) -> Timeline:
    return Timeline(
        instants=tuple(
            Instant(
                requested_time=time.partition("_")[0],
                action=Action.COMMIT,
                state=State.COMPLETED,
                completion_time=time.partition("_")[2] or time,
            )
            for time in times
        )
    )


def test_times_follow_the_clock() -> None:
    clock = ManualClock(NOON)
    times = InstantTimes(clock, config(), timeline())
    assert times.next() == "20260301120000007"
    clock.sleep_ms(1500)
    assert times.next() == "20260301120001507"


def test_a_clock_that_stands_still_or_goes_back_gives_later_times_all_the_same() -> None:
    clock = ManualClock(NOON)
    times = InstantTimes(clock, config(), timeline())
    first = times.next()
    clock.sleep_ms(-3_600_000)
    second, third = times.next(), times.next()
    assert first < second < third
    assert second == "20260301120000008"


@pytest.mark.parametrize(
    ("there", "following"),
    [
        ("20260301120000007", "20260301120000008"),
        ("20260301115959000_20260301120000999", "20260301120001000"),
        ("20271231235959999", "20280101000000000"),
        ("20260301120000", "20260301120001000"),
        ("20260301120000123004", "20260301120000124"),
        ("00000000000001", "20260301120000007"),
    ],
)
def test_times_are_later_than_everything_on_the_timeline(there: str, following: str) -> None:
    assert InstantTimes(ManualClock(NOON), config(), timeline(there)).next() == following


def test_layout_1_goes_by_requested_times() -> None:
    """Its completion times are modification times, which may be of another zone than the names."""
    times = InstantTimes(
        ManualClock(NOON), config(6), timeline("20260301110000000_20260301190000000")
    )
    assert times.next() == "20260301120000007"


def test_an_instant_that_is_no_time_is_named() -> None:
    times = InstantTimes(ManualClock(NOON), config(), timeline("99999999999999999"))
    with pytest.raises(UnsupportedTableError, match="99999999999999999"):
        times.next()


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("zone", ["Asia/Tokyo"], indirect=True)
def test_the_zone_is_the_tables() -> None:
    local = config(hoodie__table__timeline__timezone="LOCAL")
    assert InstantTimes(ManualClock(NOON), config(), timeline()).next() == "20260301120000007"
    assert InstantTimes(ManualClock(NOON), local, timeline()).next() == "20260301210000007"


class Stopwatch(ManualClock):
    """A clock that adds up how long somebody waited."""

    waited_ms = 0

    @override
    def sleep_ms(self, delay_ms: int) -> None:
        self.waited_ms += delay_ms
        super().sleep_ms(delay_ms)


@pytest.mark.parametrize(
    ("behind_ms", "waits_ms"), [(-1, 200), (0, 201), (150, 351), (300_000, 400)]
)
def test_a_clock_waits_for_others_within_the_bound_and_never_to_catch_up(
    behind_ms: int, waits_ms: int
) -> None:
    """Whoever takes a time holds the table's lock."""
    clock = Stopwatch(NOON - behind_ms)
    times = InstantTimes(clock, config(), timeline("20260301120000007"), max_skew_ms=200)
    times.next()
    assert clock.waited_ms == waits_ms


def test_any_guard_against_the_future_may_be_given() -> None:
    times = InstantTimes(
        ManualClock(NOON), config(), timeline("20280101000000000"), max_future_ms=10**18
    )
    assert times.next() == "20280101000000001"


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("zone", ["Europe/Berlin"], indirect=True)
def test_the_hour_that_comes_twice_is_not_the_future() -> None:
    local = config(hoodie__table__timeline__timezone="LOCAL")
    # 2026-10-25 01:04 UTC, 02:04 in Berlin for the second time
    clock = Stopwatch(1_792_890_240_000)
    shown = timeline("20261025025959000")
    assert InstantTimes(clock, local, shown, max_skew_ms=200, max_future_ms=600_000).next() == (
        "20261025025959001"
    )
    assert clock.waited_ms == 400
    with pytest.raises(ClockAheadError):
        InstantTimes(clock, config(), shown, max_future_ms=600_000).next()
    clock.sleep_ms(2 * 86_400_000)
    with pytest.raises(ClockAheadError):
        InstantTimes(clock, local, timeline("20261027025959000"), max_future_ms=600_000).next()
