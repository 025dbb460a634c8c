"""A stream whose process is killed, wherever it was, and started again (I2, exactly once)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random  # noqa: TID251 - seeded

import pytest

from tests.golden.local_table import LocalTable
from tidelake.env import SystemClock
from tidelake.operations.open_table import open_state

_ROWS = 5
_ENDS_S = 240


def lay_out(source: Path, files: int) -> Counter[str]:
    """Write the input; return how often each row is in it."""
    source.mkdir()
    for number in range(files):
        rows = [{"id": f"{number}-{at}", "file": number, "v": at} for at in range(_ROWS)]
        path = source / f"{number:03}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    return Counter(f"{number}-{at}" for number in range(files) for at in range(_ROWS))


def start(tmp_path: Path) -> subprocess.Popen[bytes]:
    folders = [str(tmp_path / name) for name in ("source", "table", "checkpoint")]
    # A group of its own, so that Spark's Java dies with the process that started it.
    with (tmp_path / "said").open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.sink_job", *folders],
            start_new_session=True,
            stdout=said,
            stderr=said,
        )


def last_words(tmp_path: Path) -> str:
    return (tmp_path / "said").read_text(errors="replace")[-4_000:]


def commits(root: Path) -> int:
    if not (root / ".hoodie" / "hoodie.properties").exists():
        return 0
    return len(open_state(str(root)).timeline.writes())


def killed_after_a_commit(tmp_path: Path, random: Random) -> None:
    """Start the stream, and kill it some time after it committed a batch."""
    clock = SystemClock()
    before = commits(tmp_path / "table")
    process = start(tmp_path)
    try:
        gives_up = time.monotonic() + _ENDS_S
        while commits(tmp_path / "table") == before:
            assert process.poll() is None, last_words(tmp_path)
            assert time.monotonic() < gives_up, "no batch was written"
            clock.sleep_ms(50)
        clock.sleep_ms(random.randrange(1_000))
        assert process.poll() is None, last_words(tmp_path)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.long)])
def test_each_row_is_there_once_however_often_the_stream_died(tmp_path: Path, kills: int) -> None:
    random = Random(kills)
    given = lay_out(tmp_path / "source", 6 + 5 * kills)
    for _ in range(kills):
        killed_after_a_commit(tmp_path, random)
    assert start(tmp_path).wait(_ENDS_S) == 0, last_words(tmp_path)
    found = LocalTable(str(tmp_path / "table"), {}).read().collect()
    assert Counter(json.loads(text)["id"] for text in found) == given
    state = open_state(str(tmp_path / "table"))
    assert not state.timeline.pending
