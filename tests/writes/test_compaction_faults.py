"""Wherever the storage fails a compaction, no row changes, and the next run gets it done."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.heartbeats import expire
from tests.unit.operations.test_compaction_run import Logged, each_version, upsert
from tests.writes.readers import OurReader
from tidelake.errors import TidelakeError
from tidelake.storage import open_storage
from tidelake.testing import Crash, Fault, FaultyStorage


def copies(origin: Path, scratch: Path, count: int) -> Iterator[tuple[int, Path]]:
    for number in range(1, count + 1):
        root = scratch / str(number)
        shutil.copytree(origin, root)
        yield number, root
        shutil.rmtree(root)


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("fault", list(Fault), ids=str)
@each_version
def test_the_table_is_as_it_was_and_the_next_run_is_done(
    version: int, fault: Fault, tmp_path: Path
) -> None:
    table = Logged(tmp_path / "origin", version)
    before = table.rows()
    shutil.copytree(table.root, tmp_path / "counted")
    table.root = tmp_path / "counted"
    counting = FaultyStorage(open_storage(str(table.root)))
    table.compactor(counting).both()
    done = 0
    for number, root in copies(tmp_path / "origin", tmp_path, len(counting.calls)):
        table.root = root
        faulty = FaultyStorage.failing_at(open_storage(str(root)), number, fault)
        try:
            table.compactor(faulty).both()
            done += 1
        except (Crash, TidelakeError):
            pass
        where = f"{fault} at call {number}: {counting.calls[number - 1]}"
        assert table.rows() == before, where
        expire(root)
        table.write(upsert(9, "a", "z"))
        after = table.rows()
        assert len(after) == len(before) + 1, where
        table.compactor().both()
        assert table.rows() == after == OurReader(root).base_files(), where
        assert not table.state.timeline.pending, where
        named = {
            stat.path
            for instant in table.state.timeline.writes()
            for stat in table.state.contents.commit_metadata(instant).write_stats
        }
        on_storage = {p for p in table.state.storage.files_below("") if p.endswith(".parquet")}
        assert on_storage <= named, where
    assert done < len(counting.calls)
