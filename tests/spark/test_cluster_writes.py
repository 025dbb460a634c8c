"""A cluster writes what one process writes, to a disk and to S3, whatever becomes of its tasks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.deep
@pytest.mark.slow
def test_a_cluster_writes_tables_and_survives_its_losses() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster_writes_job"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    wrong = "\n".join(
        f"{answer['trial']}: {answer['wrong']}" for answer in found if answer["wrong"]
    )
    assert not wrong, wrong
    assert len(found) == 5
