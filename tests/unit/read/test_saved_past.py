"""The past that a savepoint keeps: it can be read after cleans have gone on behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.local_table import LocalTable
from tests.unit.metadata.test_statistics import made, write
from tidelake.config import CleanOptions
from tidelake.env import Env
from tidelake.errors import TimeTravelError
from tidelake.model import TableType
from tidelake.operations.open_table import open_state
from tidelake.services.clean import clean
from tidelake.services.savepoint import delete_savepoint, savepoint
from tidelake.storage import LocalStorage

each_kind = pytest.mark.parametrize(
    ("version", "table_type"), [(v, t) for v in (6, 8, 9) for t in TableType]
)
PLAIN = {"hoodie__metadata__enable": "false", "hoodie__metadata__index__column__stats__enable": ""}


def rows(root: str, as_of: str | None = None) -> list[str]:
    return sorted(LocalTable(root, {}).read(as_of=as_of).collect())


def saved(root: str) -> tuple[str, list[str]]:
    """Return the time of a savepoint behind the horizon, and the rows as of it."""
    env = Env(LocalStorage(root))
    write(root, range(8), 1, **PLAIN)
    write(root, range(4, 12), 2, **PLAIN)
    kept = rows(root)
    time = savepoint(env).instant
    for ts in range(3, 7):
        write(root, range(10), ts, **PLAIN)
    if open_state(root).config.table_type is TableType.MERGE_ON_READ:
        write(root, range(8), 7, "insert_overwrite", **PLAIN)
    assert sum(done.files_deleted for done in clean(env, CleanOptions(commits=1))) > 0
    return time, kept


@each_kind
def test_the_table_as_of_a_savepoint_outlives_cleans(
    tmp_path: Path, version: int, table_type: TableType
) -> None:
    root = made(tmp_path / "t", version, table_type)
    time, kept = saved(root)
    assert rows(root, time) == kept
    assert rows(root) != kept
    first, _, third, *_ = (i.requested_time for i in open_state(root).timeline.writes())
    for other in (first, third):
        with pytest.raises(TimeTravelError, match=f"cleaned.*savepoints {time}"):
            rows(root, other)
    delete_savepoint(Env(LocalStorage(root)), time)
    with pytest.raises(TimeTravelError, match="cleaned"):
        rows(root, time)


def test_a_savepoint_that_lost_a_file_is_not_read(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    time, _ = saved(root)
    lost = next(Path(root).glob(f"r0/*_{time}.parquet"))
    lost.unlink()
    with pytest.raises(TimeTravelError, match=f"its file {lost.name} is gone"):
        rows(root, time)
