"""Seeded histories of many writers; `TIDELAKE_SEEDS=88213` replays one."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from tests.sim.planted import planted
from tidelake.config import ConcurrencyMode
from tidelake.model import TableType
from tidelake.testing.simulation import Faults, History, play
from tidelake.testing.simulation.explore import explore

KINDS = [
    (ConcurrencyMode.OPTIMISTIC, TableType.COPY_ON_WRITE, 9),
    (ConcurrencyMode.OPTIMISTIC, TableType.MERGE_ON_READ, 9),
    (ConcurrencyMode.OPTIMISTIC, TableType.MERGE_ON_READ, 8),
    (ConcurrencyMode.NON_BLOCKING, TableType.MERGE_ON_READ, 9),
]
#: Two writers and one service, of whom every order is played.
SMALL_WORLDS = [
    (ConcurrencyMode.OPTIMISTIC, TableType.MERGE_ON_READ, "compact 0"),
    (ConcurrencyMode.NON_BLOCKING, TableType.MERGE_ON_READ, "compact 0"),
    (ConcurrencyMode.OPTIMISTIC, TableType.COPY_ON_WRITE, "clean 0"),
]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")


def seeds(default: int) -> Iterable[int]:
    given = os.environ.get("TIDELAKE_SEEDS", "")
    if "-" in given:
        first, last = given.split("-")
        return range(int(first), int(last))
    return [int(seed) for seed in given.split(",") if seed] or range(default)


@pytest.mark.parametrize(("mode", "kind", "version"), KINDS)
def test_every_history_keeps_what_was_committed(
    mode: ConcurrencyMode, kind: TableType, version: int
) -> None:
    for seed in seeds(50):
        history = History(seed=seed, mode=mode, table_type=kind, table_version=version)
        played = play(history)
        told = "\n".join([history.to_json(), *played.lines])
        assert not played.wrong, f"{played.wrong}\n{told}"


def test_the_same_seed_gives_the_same_history() -> None:
    mode, kind, version = KINDS[1]
    history = History(seed=7, mode=mode, table_type=kind, table_version=version)
    assert play(history).lines == play(history).lines


def explored(
    mode: ConcurrencyMode, kind: TableType, service: str, *, most_switches: int
) -> tuple[int, list[str]]:
    """Return how many orders there are, and what is wrong with the first that is."""
    history = History(
        seed=12,
        mode=mode,
        table_type=kind,
        table_version=9,
        actors=("upsert 0", "upsert 1", service),
        writes=1,
        faults=Faults(),
        is_dense=True,
    )
    orders = 0
    for switches, wrong in explore(
        lambda choose: play(history, choose).wrong, most_switches=most_switches
    ):
        orders += 1
        if wrong:
            return orders, [f"switches {switches}", *wrong]
    return orders, []


@pytest.mark.parametrize(("mode", "kind", "service"), SMALL_WORLDS)
def test_every_order_with_one_switch(mode: ConcurrencyMode, kind: TableType, service: str) -> None:
    orders, wrong = explored(mode, kind, service, most_switches=1)
    assert not wrong
    assert orders > 20


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("mode", "kind", "service"), SMALL_WORLDS)
def test_every_order_with_two_switches(
    mode: ConcurrencyMode, kind: TableType, service: str, capsys: pytest.CaptureFixture[str]
) -> None:
    orders, wrong = explored(mode, kind, service, most_switches=2)
    assert not wrong
    with capsys.disabled():
        print(f"\n{mode}, {kind}, {service}: {orders} orders")  # noqa: T201 - the result


def test_an_order_without_the_lock_is_found() -> None:
    """An exploration that never finds anything would prove nothing either."""
    with planted("no lock"):
        _, wrong = explored(*SMALL_WORLDS[0], most_switches=2)
    assert wrong
