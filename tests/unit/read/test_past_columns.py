"""The columns of the past: a table as of an archived commit has those that it had then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.files import read_slice
from tidelake.operations.open_table import open_state
from tidelake.read.snapshot import plan_snapshot
from tidelake.services.archive import archive
from tidelake.services.savepoint import savepoint
from tidelake.spark.datasource.writer import TidelakeWriter
from tidelake.storage import LocalStorage

COLUMNS = ("id", "note", "extra")
GIVEN = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.operation": "insert",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
ARCHIVING = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.archive.beyond.savepoint": "true",
}


def insert(root: Path, version: int, number: int, columns: tuple[str, ...]) -> None:
    struct = T.StructType([T.StructField(name, T.StringType()) for name in columns])
    given = {**GIVEN, "path": str(root), "hoodie.write.table.version": str(version)}
    writer = TidelakeWriter(given, struct, overwrite=False)
    row = pa.RecordBatch.from_pylist([{name: f"{name} {number}" for name in columns}])
    writer.commit([writer.write(iter([row]))])


def as_of(root: Path, time: str) -> list[dict[str, Any]]:
    plan = plan_snapshot(open_state(str(root)), as_of=time)
    found = (b for task in plan.tasks for b in read_slice(task, plan.spec))
    return sorted((row for batch in found for row in batch.to_pylist()), key=str)


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_table_as_of_an_archived_commit_has_the_columns_of_then(
    version: int, is_saved: bool, tmp_path: Path
) -> None:
    env = Env(LocalStorage(str(tmp_path)))
    for number in range(8):
        insert(tmp_path, version, number, COLUMNS[:2] if number < 2 else COLUMNS)
        if is_saved and number == 0:
            # Archival goes on behind it, so an active commit is older than archived ones.
            savepoint(env)
    times = [i.requested_time for i in open_state(str(tmp_path)).timeline.writes()]
    before = [as_of(tmp_path, time) for time in times]
    assert [set(rows[-1]) for rows in before] == [
        set(COLUMNS[:2]) if at < 2 else set(COLUMNS) for at in range(8)
    ]
    done = archive(env, WriteOptions.from_options(ARCHIVING).services)
    assert done is not None
    assert len(open_state(str(tmp_path)).timeline.writes()) < 8
    assert [as_of(tmp_path, time) for time in times] == before
