"""Apache Hudi goes on past a write of ours that died, and none of its rows ever appears."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import VERSION
from tests.interop.shared_table import COW, MOR, Kind, SharedTable
from tests.interop.truth import rows
from tidelake.storage import LocalStorage
from tidelake.testing import Crash, Fault, FaultyStorage

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.skipif(VERSION != "1.2.0", reason="the release that writes every table version"),
]

Stop = Callable[[int, str, str], Fault | None]


def at_put_of(suffix: str, fault: Fault) -> Stop:
    def stop(_number: int, name: str, path: str) -> Fault | None:
        return fault if name == "put_if_absent" and path.endswith(suffix) else None

    return stop


STOPS: dict[str, Stop] = {
    "requested": at_put_of(".requested", Fault.CRASH_AFTER),
    "inflight": at_put_of(".inflight", Fault.CRASH_AFTER),
    "all files written": at_put_of("commit", Fault.CRASH_BEFORE),
    "half the files written": at_put_of("commit", Fault.CRASH_BEFORE),
    "completed, markers left": at_put_of("commit", Fault.CRASH_AFTER),
}
#: Far enough that the dead instant would count as archived, and thus as committed.
GO_ON = {
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


#: The past, and signs of life: Apache rolls back without a look at them, so it leaves an empty file
#: that nobody asks for when its instant is gone.
MAY_NAME_IT = ("history", "archived", ".heartbeat")

#: Every stop of an upsert, and those with most to undo for the rest.
_WRITTEN = ("all files written", "half the files written")
SAMPLE = [
    *((9, table_type, "upsert", stop) for table_type in (COW, MOR) for stop in STOPS),
    *((9, table_type, "insert_overwrite", stop) for table_type in (COW, MOR) for stop in _WRITTEN),
    *(
        (version, table_type, "upsert", stop)
        for version in (6, 8)
        for table_type in (COW, MOR)
        for stop in _WRITTEN
    ),
    *((6, table_type, "insert_overwrite", _WRITTEN[0]) for table_type in (COW, MOR)),
]

#: What CI has time for.
IN_CI = (9, MOR, "upsert", "half the files written")


@pytest.mark.parametrize(
    ("table_version", "table_type", "operation", "stop"),
    [pytest.param(*case, marks=pytest.mark.sample if case == IN_CI else ()) for case in SAMPLE],
)
def test_apache_goes_on_past_a_dead_write_of_ours(
    table_version: int,
    table_type: str,
    operation: str,
    stop: str,
    hudi_spark: SparkSession,
    tmp_path: Path,
) -> None:
    root = tmp_path / "dead"
    kind = Kind(table_type=table_type, table_version=table_version)
    table = SharedTable(hudi_spark, root, kind)
    table.we("bulk_insert", rows(range(30), ts=1))
    table.we("upsert", rows(range(0, 30, 4), ts=2, note="before"))

    dead = rows([*range(0, 30, 2), *range(100, 110)], ts=99, note="never")
    faulty = FaultyStorage(LocalStorage(str(root)), STOPS[stop])
    with pytest.raises(Crash):
        table.we_through(faulty, operation, dead)
    puts = [path for name, path in faulty.calls if name == "put_if_absent"]
    (instant,) = {Path(path).name[:17] for path in puts if path.endswith(".requested")}
    if stop.startswith("half"):
        # A task writes its marker before its file: without the file it died in between.
        written = _marked(root, instant)
        assert len(written) > 1
        for path in written[::2]:
            path.unlink()
    if stop.startswith("completed"):
        table.took_effect(operation, dead)
    table.check("after the crash")

    for turn in range(5):
        changed = rows(range(turn, 30, 6), ts=100 + turn, note="after")
        table.they("upsert", changed, GO_ON)
        table.check(f"turn {turn}")
    assert not table.differences, "\n".join(table.differences)
    if not stop.startswith("completed"):
        left = [str(p.relative_to(root)) for p in root.rglob(f"*{instant}*")]
        assert [p for p in left if not any(place in p for place in MAY_NAME_IT)] == []


def _marked(root: Path, instant: str) -> list[Path]:
    """Return the files of a write, which its markers name."""
    markers = root / ".hoodie" / ".temp" / instant
    names = sorted(p.relative_to(markers) for p in markers.rglob("*.marker.*"))
    return [root / str(name).rpartition(".marker.")[0] for name in names]
