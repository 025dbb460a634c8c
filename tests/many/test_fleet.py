"""Writers and a compactor in processes of their own, killed at random (I2, I8, I10)."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

from tests.golden.local_table import LocalTable
from tests.many.fleet import Fleet, Row
from tidelake.operations.open_table import open_state
from tidelake.read.check import check_table

SHARED = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "3",
    "hoodie.client.heartbeat.interval_in_ms": "1000",
    "hoodie.client.heartbeat.tolerable.misses": "3",
    "hoodie.time.generator.max_expected_clock_skew_ms": "5",
    "hoodie.write.lock.wait_time_ms": "30000",
    # A holder that was killed blocks the others for as long as its lock lives.
    "hoodie.write.lock.provider": "storage",
    "hoodie.write.lock.storage.validity.timeout.secs": "2",
}
MODES = {
    "non-blocking": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "optimistic": "OPTIMISTIC_CONCURRENCY_CONTROL",
}


def ours(root: Path) -> dict[str, Row]:
    rows = [json.loads(text) for text in LocalTable(str(root), {}).read().collect()]
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: (row["ts"], row["v"]) for row in rows}


def theirs(root: Path) -> dict[str, Row]:
    read = HudiTableBuilder.from_base_uri(str(root)).build().read()
    rows = pa.Table.from_batches(read).select(["id", "ts", "v"]).to_pylist()
    return {row["id"]: (row["ts"], row["v"]) for row in rows}


def hold(fleet: Fleet, seconds: float, kill_every: float) -> None:
    fleet.create()
    killed = fleet.run(seconds, kill_every)
    fleet.settle()
    owed = fleet.owed()
    assert killed > 0
    assert owed
    assert ours(fleet.root) == owed
    assert theirs(fleet.root) == owed
    state = open_state(str(fleet.root), {})
    assert check_table(state, None).violations == []
    landed, noted = len(fleet.landed()), len(fleet.noted())
    print(f"{landed} of {noted} writes landed, {killed} processes killed")  # noqa: T201


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_was_committed_is_lost(tmp_path: Path, mode: str) -> None:
    options = {**SHARED, "hoodie.write.concurrency.mode": MODES[mode]}
    hold(Fleet(tmp_path / "t", options, seed=1), seconds=15, kill_every=2)
