"""A machine that never finds anything proves nothing: each planted fault is found."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.machine.planted import PLANTED, planted
from tests.machine.play import Played, play

MOST_SEQUENCES = 500
#: The sequence that found each fault first, so that the next look is short.
FOUND = Path(__file__).parent / "found.json"


def sequence(
    name: str, seed: int, root: Path, spark: SparkSession | None, *, has_fault: bool
) -> Played:
    fault = PLANTED[name]
    session = spark if fault.takes_spark else None
    folder = root / f"{seed}-{has_fault}"
    given = {"kind": fault.kind, "often": fault.often}
    try:
        if not has_fault:
            return play(seed, folder, session, **given)  # type: ignore[arg-type] # of two types
        with planted(name):
            return play(seed, folder, session, **given)  # type: ignore[arg-type]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_found(name: str, seed: int, root: Path, spark: SparkSession | None) -> bool:
    """Return whether a sequence ends badly with the fault, and well without."""
    if not sequence(name, seed, root, spark, has_fault=True).wrong:
        return False
    return not sequence(name, seed, root, spark, has_fault=False).wrong


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, fault in PLANTED.items() if not fault.takes_spark])
def test_a_fault_is_found_by_the_sequence_that_found_it_first(name: str, tmp_path: Path) -> None:
    seed = json.loads(FOUND.read_text())[name]
    assert is_found(name, seed, tmp_path, None), "look for another with `make long`"


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", PLANTED)
def test_a_sequence_finds_the_fault(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    takes_spark = PLANTED[name].takes_spark
    spark = request.getfixturevalue("quick_spark") if takes_spark else None
    root = Path(os.environ.get("TIDELAKE_SCRATCH", tmp_path))
    seeds = range(MOST_SEQUENCES)
    seed = next((seed for seed in seeds if is_found(name, seed, root, spark)), None)
    assert seed is not None, f"no sequence of {MOST_SEQUENCES} finds it"
    print(f"\n{name}: sequence {seed + 1}")  # noqa: T201
    known = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    FOUND.write_text(json.dumps({**known, name: seed}, indent=1, sort_keys=True) + "\n")
