from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.golden.local_table import LocalTable
from tidelake.env import Env
from tidelake.errors import MissingFileError
from tidelake.operations.staging import StagingArea, delete_leftovers
from tidelake.spark.datasource.writer import TidelakeWriter
from tidelake.storage import open_storage
from tidelake.testing import ManualClock

STRUCT = T.StructType(
    [
        T.StructField("id", T.StringType()),
        T.StructField("day", T.LongType()),
        T.StructField("note", T.StringType()),
    ]
)
#: Rows with it are too large to go with what a task says of itself.
LONG = "x" * (32 << 10)
DAY_MS = 24 * 3_600_000


def writer(root: Path) -> TidelakeWriter:
    given = {"path": str(root), "hoodie.datasource.write.recordkey.field": "id"}
    return TidelakeWriter(given, STRUCT, overwrite=False)


def batch(*ids: str, note: str = LONG) -> list[pa.RecordBatch]:
    columns = {
        "id": pa.array(ids),
        "day": pa.array([1] * len(ids), pa.int64()),
        "note": pa.array([note] * len(ids)),
    }
    return [pa.RecordBatch.from_pydict(columns)]


def write(root: Path, *ids: str) -> None:
    made = writer(root)
    made.commit([made.write(iter(batch(*ids)))])


def killed(root: Path, *ids: str) -> set[Path]:
    """Let a write end before its commit, and return what it laid aside."""
    before = laid_aside(root)
    writer(root).write(iter(batch(*ids)))
    return laid_aside(root) - before


def laid_aside(root: Path) -> set[Path]:
    return {path for path in (root / ".hoodie" / ".temp").rglob("*") if path.is_file()}


def age(paths: set[Path], hours: int) -> None:
    for path in paths:
        found = path.stat()
        os.utime(path, (found.st_atime - hours * 3600, found.st_mtime - hours * 3600))


def ids(root: Path) -> list[str]:
    found = LocalTable(str(root), {}).read().collect()
    return sorted(json.loads(row)["id"] for row in found)


def test_the_next_write_removes_what_a_dead_one_laid_aside(tmp_path: Path) -> None:
    write(tmp_path, "a")
    dead = killed(tmp_path, "b")
    assert {path.suffix for path in dead} == {".arrow"}
    age(dead, hours=25)
    write(tmp_path, "c")
    assert laid_aside(tmp_path) == set()
    assert list((tmp_path / ".hoodie" / ".temp" / ".tidelake").iterdir()) == []


def test_a_write_that_still_runs_keeps_its_rows(tmp_path: Path) -> None:
    write(tmp_path, "a")
    slow = writer(tmp_path)
    message = slow.write(iter(batch("b")))
    rows = laid_aside(tmp_path)
    age(rows, hours=25)
    next(iter(rows)).with_name("alive").touch()  # another of its tasks takes rows, and has signed
    write(tmp_path, "c")
    slow.commit([message])
    assert laid_aside(tmp_path) == set()
    assert ids(tmp_path) == ["a", "b", "c"]


def test_a_write_whose_rows_were_removed_fails_and_leaves_the_table(tmp_path: Path) -> None:
    write(tmp_path, "a")
    slow = writer(tmp_path)
    message = slow.write(iter(batch("b")))
    age(laid_aside(tmp_path), hours=25)
    write(tmp_path, "c")
    with pytest.raises(MissingFileError):
        slow.commit([message])
    assert ids(tmp_path) == ["a", "c"]


def test_a_write_says_now_and_then_that_it_lives(tmp_path: Path) -> None:
    clock = ManualClock()
    env = Env(open_storage(str(tmp_path)), clock)
    area = StagingArea.of_new_write(env)
    sign = tmp_path / area.folder / "alive"
    clock.sleep_ms(9 * 60_000)
    area.keep_alive(env)
    assert not sign.exists()
    clock.sleep_ms(60_000)
    area.keep_alive(env)
    assert sign.exists()


def test_few_rows_are_laid_aside_nowhere(tmp_path: Path) -> None:
    write(tmp_path, "a")
    made = writer(tmp_path)
    message = made.write(iter(batch("b", note="short")))
    assert laid_aside(tmp_path) == set()
    made.commit([message])
    assert ids(tmp_path) == ["a", "b"]


def test_a_folder_that_is_just_being_made_stays(tmp_path: Path) -> None:
    folder = tmp_path / ".hoodie" / ".temp" / ".tidelake" / "new"
    folder.mkdir(parents=True)
    delete_leftovers(Env(open_storage(str(tmp_path))), older_than_ms=DAY_MS)
    assert folder.is_dir()
