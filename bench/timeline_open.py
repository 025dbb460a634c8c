"""Opening a table with a long timeline, in a fresh process and without Spark."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.tables import CACHE
from tests.golden import harness

ACTIVE = 2_000
ARCHIVED = 20_000
LIMIT_S = 2.0

_SEED = "v9_cow_archived_lsm"  # its instants and its history are copied under new times
_LEVELS = ((3, 10_000), (2, 1_000), (1, 100), (0, 10))  # instants in a history file of each level
_FIRST_ARCHIVED = datetime(2024, 1, 1, tzinfo=timezone.utc)
_FIRST_ACTIVE = datetime(2025, 1, 1, tzinfo=timezone.utc)

_PROBE = """
import json, sys, time
started = time.perf_counter()
from tidelake import Table
imported = time.perf_counter()
table = Table.open(None, sys.argv[1])  # no session: a timeline needs none
instants = len(table.timeline(history=sys.argv[2] == "history"))
ended = time.perf_counter()
facts = {"import_s": imported - started, "open_s": ended - imported, "instants": instants}
print(json.dumps(facts))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Medians over fresh processes: what the caller waits for, and where it goes."""

    name: str
    instants: int
    process_s: float
    import_s: float
    open_s: float


def measure_openings(*, runs: int) -> list[Opening]:
    """Open the long table and two shorter ones, so that growth shows beside the total."""
    return [
        _opening("2,000 active, 20,000 archived", _table(ACTIVE, ARCHIVED), "active", runs),
        _opening("2,000 active, none archived", _table(ACTIVE, 0), "active", runs),
        _opening("20 active, 20,000 archived", _table(20, ARCHIVED), "active", runs),
        _opening("all 22,000 with history", _table(ACTIVE, ARCHIVED), "history", runs),
    ]


def _opening(name: str, table: Path, part: str, runs: int) -> Opening:
    probes: list[tuple[dict[str, float], float]] = []
    for _ in range(runs):
        command = [sys.executable, "-c", _PROBE, str(table), part]
        started = time.perf_counter()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        probes.append((json.loads(done.stdout), time.perf_counter() - started))
    return Opening(
        name=name,
        instants=int(probes[0][0]["instants"]),
        process_s=statistics.median(outer for _, outer in probes),
        import_s=statistics.median(inner["import_s"] for inner, _ in probes),
        open_s=statistics.median(inner["open_s"] for inner, _ in probes),
    )


def _table(active: int, archived: int) -> Path:
    table = CACHE / f"timeline-{active}-{archived}"
    if table.exists():
        return table
    with tempfile.TemporaryDirectory(dir=_made(CACHE)) as scratch:
        root = harness.unpack(harness.load(_SEED), Path(scratch))
        timeline = root / ".hoodie" / "timeline"
        history = timeline / "history"
        rows = pq.read_table(next(history.glob("*_1.parquet")))
        shutil.rmtree(history)
        history.mkdir()
        _lengthen_active(timeline, active)
        _lengthen_history(history, rows, archived)
        root.rename(table)
    return table


def _lengthen_active(timeline: Path, count: int) -> None:
    """Replace the active instants by `count`, commit and clean in turn, with real contents."""
    kinds = []
    for action in ("commit", "clean"):
        completed = max(timeline.glob(f"*_*.{action}"))
        requested = completed.name.partition("_")[0]
        pending = list(timeline.glob(f"{requested}.*"))
        kinds.append(
            (completed.read_bytes(), [(p.name[17:], p.read_bytes()) for p in pending], action)
        )
    for path in timeline.iterdir():
        if path.is_file():
            path.unlink()
    for number in range(count):
        content, pending_files, action = kinds[number % len(kinds)]
        at = _FIRST_ACTIVE + timedelta(minutes=number)
        for suffix, data in pending_files:
            (timeline / f"{_instant(at)}{suffix}").write_bytes(data)
        done = _instant(at + timedelta(seconds=3))
        (timeline / f"{_instant(at)}_{done}.{action}").write_bytes(content)


def _lengthen_history(history: Path, rows: pa.Table, count: int) -> None:
    """Write `count` archived instants in the levels that Apache's compaction would leave."""
    files = []
    written = 0
    for level, size in _LEVELS:
        while count - written >= size and (size == _LEVELS[-1][1] or count - written > size):
            times = [_FIRST_ARCHIVED + timedelta(minutes=written + i) for i in range(size)]
            name = f"{_instant(times[0])}_{_instant(times[-1])}_{level}.parquet"
            repeated = rows.take([i % rows.num_rows for i in range(size)])
            requested = pa.array([_instant(t) for t in times])
            completed = pa.array([_instant(t + timedelta(seconds=3)) for t in times])
            table = repeated.set_column(0, rows.schema.field(0), requested)
            table = table.set_column(1, rows.schema.field(1), completed)
            pq.write_table(table, history / name, compression="gzip", use_dictionary=False)
            files.append({"fileName": name, "fileLen": (history / name).stat().st_size})
            written += size
    (history / "manifest_1").write_text(json.dumps({"files": files}))
    (history / "_version_").write_text("1")


def _instant(at: datetime) -> str:
    return at.strftime("%Y%m%d%H%M%S") + f"{at.microsecond // 1000:03d}"


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
