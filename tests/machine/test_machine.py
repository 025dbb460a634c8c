"""Random sequences over all doors leave what plain rows leave, by every way to read a table."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.machine.play import play
from tests.machine.readers import hudi_rs

#: The first seed, and how many of them: a share of a long run is its first seed and its size.
SEED = int(os.environ.get("TIDELAKE_SEED", "0"))
SEQUENCES = int(os.environ.get("TIDELAKE_SEQUENCES", "5000"))


@pytest.fixture
def shm(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in memory, where the machine has one."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    root = Path(tempfile.mkdtemp(prefix="tidelake-machine-", dir=memory))
    yield root
    shutil.rmtree(root)


def played(seeds: range, root: Path, spark: SparkSession | None) -> Counter[str]:
    """Play sequences, of which the first that ends badly is told."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        found = play(seed, root / str(seed), spark, others=[hudi_rs])
        assert not found.wrong, f"TIDELAKE_SEED={seed}\n{found.told()}"
        shutil.rmtree(root / str(seed))
        counts += found.counts
    return counts


@pytest.mark.deep
@pytest.mark.slow
def test_sequences_without_spark_leave_what_the_truth_holds(shm: Path) -> None:
    counts = played(range(SEED, SEED + 8), shm, None)
    assert counts["answers"] > 600


@pytest.mark.deep
@pytest.mark.slow
def test_sequences_leave_what_the_truth_holds(quick_spark: SparkSession, shm: Path) -> None:
    counts = played(range(SEED, SEED + 6), shm, quick_spark)
    assert counts["merge"]
    assert counts["answers"] > 500


@pytest.mark.long
@pytest.mark.timeout(0)
def test_thousands_of_sequences_leave_what_the_truth_holds(
    quick_spark: SparkSession, shm: Path
) -> None:
    """Play every other sequence through Spark's doors; the others take a fraction of the time."""
    counts: Counter[str] = Counter()
    for seed in range(SEED, SEED + SEQUENCES):
        counts += played(range(seed, seed + 1), shm, quick_spark if seed % 2 else None)
        if (seed - SEED) % 100 == 99:
            told = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
            print(f"seeds {SEED} to {seed}: {told}")  # noqa: T201
    assert sum(counts.values()) > 15 * SEQUENCES
