"""A simulator that never finds anything proves nothing: each planted fault is found by some seed.

The smallest history that finds a fault is kept in `seeds/`. Every change of the calls that writers
make to the storage makes another history of it; `make sim` then looks for a new one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sim.planted import PLANTED, shown
from tidelake.testing.simulation import History, play, shrink

MOST_RUNS = 5_000
SEEDS = Path(__file__).parent / "seeds"


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")


def file_of(fault: str) -> Path:
    return SEEDS / f"{fault.replace(' ', '-')}.json"


def kept(fault: str) -> History:
    return History.from_json(json.dumps(json.loads(file_of(fault).read_text())["history"]))


@pytest.mark.parametrize("fault", PLANTED)
def test_a_kept_history_ends_well_without_its_fault(fault: str) -> None:
    assert play(kept(fault)).wrong == []


@pytest.mark.deep
def test_a_fault_is_found_and_shrunk() -> None:
    fault = "no lock"
    world, _ = PLANTED[fault]
    histories = (replace(world, seed=seed) for seed in range(50))
    history = next(h for h in histories if shown(fault, h))
    small = shrink(history, lambda smaller: bool(shown(fault, smaller)))
    assert len(small.actors) <= 3 < len(history.actors)
    assert History.from_json(small.to_json()) == small
    assert shown(fault, small)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", PLANTED)
def test_a_seed_finds_the_fault(fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    world, _ = PLANTED[fault]
    histories = (replace(world, seed=seed) for seed in range(MOST_RUNS))
    history = next((h for h in histories if shown(fault, h)), None)
    assert history is not None, f"no seed below {MOST_RUNS} finds it"
    with capsys.disabled():
        print(f"\n{fault}: run {history.seed + 1}: {shown(fault, history)[0][:100]}")  # noqa: T201
    if not file_of(fault).exists() or not shown(fault, kept(fault)):
        small = shrink(history, lambda smaller: bool(shown(fault, smaller)))
        made = {"found_by_seed": history.seed, "history": json.loads(small.to_json())}
        file_of(fault).write_text(json.dumps(made, indent=1) + "\n")
