"""Random writes leave what a dictionary leaves, whatever the table."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random  # noqa: TID251 - seeded

import pytest

from tests.writes.cases import RandomWrites, random_case
from tests.writes.hudi_rs import hudi_rs_for
from tests.writes.quick_writer import OPERATIONS, QuickWriter
from tests.writes.table import WrittenTable, counted

SEED = int(os.environ.get("TIDELAKE_SEED", "4"))
SEQUENCES = int(os.environ.get("TIDELAKE_SEQUENCES", "300"))
_LONGEST = 8
#: Share of writes after which a compaction is planned, and after which plans are carried out.
_COMPACTIONS = 0.4


def written(seed: int, root: Path) -> WrittenTable:
    """Write a table; the same seed writes the same."""
    random = Random(seed)
    case = random_case(random)
    writer = QuickWriter()
    table = WrittenTable(writer, root, case, hudi_rs_for(case))
    writes = RandomWrites(case, random)
    possible = [do for do in OPERATIONS if do in case.operations]
    for _ in range(random.randint(2, _LONGEST)):
        table.write(writes.step(table.model, random.choice(possible)))
        table.check_now()
        if case.mor and random.random() < _COMPACTIONS:
            table.schedule(writer)
            table.check_now()
        if case.mor and random.random() < _COMPACTIONS:
            table.run_pending(writer)
            table.check_now()
    if case.mor:
        if random.random() < _COMPACTIONS:
            table.schedule(writer)
        table.run_pending(writer)
        table.check_now()
    table.check_past()
    return table


def write_many(seeds: range, scratch: Path) -> None:
    tables = []
    for seed in seeds:
        try:
            table = written(seed, scratch / str(seed))
        except Exception as error:
            raise AssertionError(f"run it again with TIDELAKE_SEED={seed}") from error
        tables.append(table)
        assert not table.differences, f"TIDELAKE_SEED={seed}\n{table.told()}"
    figures = ", ".join(f"{number} {name}" for name, number in counted(tables).items())
    print(f"seeds {seeds.start} to {seeds.stop - 1}: {figures}")  # noqa: T201
    assert sum(len(table.steps) for table in tables) > 2 * len(seeds)


@pytest.mark.deep
@pytest.mark.slow
def test_random_writes_leave_what_the_model_holds(tmp_path: Path) -> None:
    write_many(range(SEED, SEED + SEQUENCES), tmp_path)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_thousands_of_random_writes_leave_what_the_model_holds(tmp_path: Path) -> None:
    first = SEED + SEQUENCES
    write_many(range(first, first + 10 * SEQUENCES), tmp_path)
