"""Seeded histories of many writers; `TIDELAKE_SEEDS=88213` replays one."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from tidelake.config import ConcurrencyMode, ConflictStrategy
from tidelake.model import TableType
from tidelake.testing.simulation import (
    Compacts,
    Faults,
    Journal,
    Reads,
    Sharing,
    Simulation,
    Upserts,
    create_toy,
    violations,
)

FAULTS = Faults(crash=0.004, error=0.004, lost_reply=0.004, stall=0.004, clock_jump=0.01)
KINDS = [
    (ConcurrencyMode.OPTIMISTIC, TableType.COPY_ON_WRITE, 9),
    (ConcurrencyMode.OPTIMISTIC, TableType.MERGE_ON_READ, 9),
    (ConcurrencyMode.OPTIMISTIC, TableType.MERGE_ON_READ, 8),
    (ConcurrencyMode.NON_BLOCKING, TableType.MERGE_ON_READ, 9),
]


def seeds(default: int) -> Iterable[int]:
    given = os.environ.get("TIDELAKE_SEEDS", "")
    if "-" in given:
        first, last = given.split("-")
        return range(int(first), int(last))
    return [int(seed) for seed in given.split(",") if seed] or range(default)


def play(
    seed: int, mode: ConcurrencyMode, kind: TableType, version: int, faults: Faults
) -> tuple[Simulation, list[str]]:
    world = Simulation(seed, faults)
    create_toy(world.outside(), kind, version)
    journal = Journal()
    strategy = ConflictStrategy.END if seed % 2 else ConflictStrategy.SIMPLE
    sharing = Sharing(mode=mode, strategy=strategy)
    for number in range(3):
        writer = Upserts(
            name=f"writer {number}", sharing=sharing, journal=journal, chance=world.chance()
        )
        world.add(writer.name, writer, offset_ms=number * 7 - 7)
    if kind is TableType.MERGE_ON_READ:
        for number in range(2):
            compactor = Compacts(name=f"compactor {number}", sharing=sharing, chance=world.chance())
            world.add(compactor.name, compactor)
    world.add("reader", Reads(journal=journal, chance=world.chance()))
    world.run()
    return world, violations(world.storage, journal, mode)


@pytest.mark.parametrize(("mode", "kind", "version"), KINDS)
def test_every_history_keeps_what_was_committed(
    mode: ConcurrencyMode, kind: TableType, version: int
) -> None:
    for seed in seeds(60):
        world, wrong = play(seed, mode, kind, version, FAULTS)
        assert not wrong, f"seed {seed}: {wrong}\n" + "\n".join(world.history)


def test_the_same_seed_gives_the_same_history() -> None:
    first, _ = play(7, *KINDS[1], FAULTS)
    second, _ = play(7, *KINDS[1], FAULTS)
    assert first.history == second.history
