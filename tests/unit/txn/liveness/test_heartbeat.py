from __future__ import annotations

import pytest

from tests.unit.txn.hand_ticker import HandTicker
from tidelake.env import Env
from tidelake.formats.marker_name import heartbeat_path
from tidelake.storage import MemoryStorage
from tidelake.testing import Fault, FaultyStorage, ManualClock, SeededIds
from tidelake.txn.liveness.heartbeat import Heartbeat

PATH = heartbeat_path("17")


def heartbeat(storage: MemoryStorage | FaultyStorage, clock: ManualClock, owner: str) -> Heartbeat:
    env = Env(storage, clock, SeededIds(1))
    return Heartbeat(env, "17", interval_ms=1_000, expires_ms=2_000, owner=owner)


@pytest.mark.parametrize("owner", ["", "us"])
def test_it_goes_on_while_nobody_takes_the_write_for_dead(owner: str) -> None:
    clock = ManualClock()
    storage = MemoryStorage(now_ms=clock.now_ms)
    ours = heartbeat(storage, clock, owner)
    ours.beat()
    for _ in range(5):
        clock.sleep_ms(1_900)
        ours._beat_again()
        assert not ours.is_doomed
        found = storage.stat(PATH)
        assert found is not None
        assert found.modified_ms == clock.now_ms()


@pytest.mark.parametrize("content", [None, b"them"], ids=["gone", "another's"])
def test_it_ends_when_the_file_is_gone_or_another_has_it(content: bytes | None) -> None:
    clock, storage = ManualClock(), MemoryStorage()
    ours = heartbeat(storage, clock, "us")
    ours.beat()
    storage.delete(PATH)
    if content is not None:
        storage.put(PATH, content)
    left = storage.files_below(".hoodie"), storage.stat(PATH)
    ours._beat_again()
    assert ours.is_doomed
    assert (storage.files_below(".hoodie"), storage.stat(PATH)) == left


def test_a_lost_one_is_not_tried_again() -> None:
    """A process that began a write which another one committed may go on for days."""
    storage, ticker = MemoryStorage(), HandTicker()
    calls: list[str] = []
    counting = FaultyStorage(storage, lambda _number, name, _path: calls.append(name))
    env = Env(counting, ManualClock(), SeededIds(1), ticker)
    ours = Heartbeat(env, "17", interval_ms=1_000, expires_ms=2_000)
    ours.beat()
    ours.keep_beating()
    ticker.tick()
    assert not ours.is_doomed
    storage.delete(PATH)
    ticker.tick()
    asked = len(calls)
    ticker.tick()
    assert len(calls) == asked


def test_d16_a_call_that_hung_does_not_end_it() -> None:
    """A later sign of life overtakes one that hangs between its look and its word."""
    clock, storage = ManualClock(), MemoryStorage()
    overtaken: list[bool] = []

    def hang(_number: int, name: str, _path: str) -> None:
        if name == "put_if_tagged" and not overtaken:
            overtaken.append(True)
            ours._beat_again()

    ours = heartbeat(FaultyStorage(storage, hang), clock, "")
    ours.beat()
    ours._beat_again()
    assert overtaken
    assert not ours.is_doomed


def test_one_that_fails_once_the_write_has_ended_is_not_spoken_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A call that hangs may fail long after the write that it spoke for."""
    storage, ticker = MemoryStorage(), HandTicker()
    ours: list[Heartbeat] = []
    ends: list[bool] = []

    def fault(_number: int, name: str, _path: str) -> Fault | None:
        if name == "read" and any(ends):
            ours[0].stop()
        return Fault.LOST_CALL if name == "read" else None

    env = Env(FaultyStorage(storage, fault), ManualClock(), SeededIds(1), ticker)
    ours.append(Heartbeat(env, "17", interval_ms=1_000, expires_ms=2_000))
    ours[0].beat()
    ours[0].keep_beating()
    ticker.tick()
    assert "no sign of life" in caplog.text
    caplog.clear()
    ends.append(True)
    ticker.tick()
    assert not caplog.records
