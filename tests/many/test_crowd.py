"""Everything that can be done to a table, by processes that are killed or stopped for a while.

The row oracle is in `crowd`: commits in the order of their completion, without what was undone.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.golden.local_table import LocalTable
from tests.many.crowd import Crowd, Row, World
from tests.many.test_fleet import MODES, SHARED
from tidelake.model import TableType
from tidelake.operations.open_table import open_state
from tidelake.read.check import check_table

_OFTEN = {
    **SHARED,
    "hoodie.client.heartbeat.tolerable.misses": "2",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "7",
    "hoodie.compact.inline.max.delta.commits": "2",
}


def world(mode: str, table_type: TableType, version: int, *, metadata: bool, spark: int) -> World:
    options = {
        **_OFTEN,
        "hoodie.write.concurrency.mode": MODES[mode],
        "hoodie.metadata.enable": str(metadata).lower(),
    }
    writers = ("writer",) * (3 - spark) + ("spark",) * spark
    return World(
        options=options,
        table_type=table_type,
        table_version=version,
        roles=(*writers, "tender", "undoer"),
        retires=mode == "optimistic",
    )


MOR, COW = TableType.MERGE_ON_READ, TableType.COPY_ON_WRITE
WORLDS = {
    "optimistic, MOR 9, metadata table": world("optimistic", MOR, 9, metadata=True, spark=0),
    "optimistic, COW 9": world("optimistic", COW, 9, metadata=False, spark=0),
    "optimistic, COW 6, metadata table": world("optimistic", COW, 6, metadata=True, spark=0),
    "non-blocking, MOR 9, metadata table": world("non-blocking", MOR, 9, metadata=True, spark=0),
    "optimistic, MOR 8": world("optimistic", MOR, 8, metadata=False, spark=0),
    "non-blocking, MOR 8": world("non-blocking", MOR, 8, metadata=False, spark=0),
}
ON_SPARK = {
    "optimistic, MOR 9, metadata table": world("optimistic", MOR, 9, metadata=True, spark=2),
    "optimistic, COW 9": world("optimistic", COW, 9, metadata=False, spark=2),
    "non-blocking, MOR 9, metadata table": world("non-blocking", MOR, 9, metadata=True, spark=2),
}


def rows_of(root: Path, *, metadata: bool) -> dict[str, Row]:
    options = {"hoodie.metadata.enable": str(metadata).lower()}
    rows = [json.loads(text) for text in LocalTable(str(root), options).read().collect()]
    found = {f"{row['p']}/{row['id']}": (row["ts"], row["v"]) for row in rows}
    assert len(found) == len(rows), f"a key is there twice: {rows}"
    return found


def hold(crowd: Crowd, seconds: float, every: float) -> None:
    crowd.create()
    done = crowd.run(seconds, every)
    crowd.settle()
    owed = crowd.owed()
    assert crowd.lost() == []
    for metadata in (False, True):
        rows = rows_of(crowd.root, metadata=metadata)
        wrong = {key: row for key, row in rows.items() if row not in owed.get(key, ())}
        assert not wrong, f"owed are {owed}"
        assert rows.keys() == owed.keys()
    assert check_table(open_state(str(crowd.root), {}), None).violations == []
    notes = crowd.noted()
    acted = Counter(note["acted"] for note in notes if "acted" in note)
    refused = Counter(note["refused"] for note in notes if "refused" in note)
    print(f"{dict(acted)}, {dict(done)}, refused {dict(refused)}")  # noqa: T201 - the result
    assert done["killed"] + done["stopped"] > 0
    assert len(crowd.completed()) > 1


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.parametrize("name", list(WORLDS)[:1])
def test_what_processes_did_is_what_the_table_holds(tmp_path: Path, name: str) -> None:
    hold(Crowd(tmp_path / "t", WORLDS[name], seed=1), seconds=12, every=1)


@pytest.mark.deep
@pytest.mark.slow
def test_what_drivers_of_spark_did_is_what_the_table_holds(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path / "t", next(iter(ON_SPARK.values())), seed=1)
    hold(crowd, seconds=30, every=5)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("seed", [2, 3])
def test_minutes_of_what_processes_do(tmp_path: Path, name: str, seed: int) -> None:
    hold(Crowd(tmp_path / "t", WORLDS[name], seed=seed), seconds=120, every=1.5)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ON_SPARK)
def test_minutes_of_what_drivers_of_spark_do(tmp_path: Path, name: str) -> None:
    hold(Crowd(tmp_path / "t", ON_SPARK[name], seed=4), seconds=180, every=6)
