"""Rows of base files, counted without opening those whose commit says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import harness
from tidelake.files import read_footers
from tidelake.operations.open_table import open_state
from tidelake.read.counted_rows import count_rows


@pytest.mark.parametrize(
    "name", ["v9_cow_archived_lsm", "v6_cow_archived", "v9_mor_types_full_mdt"]
)
def test_commits_and_footers_count_alike(name: str, tmp_path: Path) -> None:
    state = open_state(str(harness.unpack(harness.load(name), tmp_path)))
    slices = state.view.latest_slices()
    sizes = {s.base_file.path: s.base_file.size_bytes for s in slices if s.base_file}
    counted = count_rows(state, slices)
    footers = read_footers(state.storage, sizes)
    assert counted.rows == {path: footer.row_count for path, footer in footers.items()}
    assert counted.by_commits + counted.by_footers == len(sizes)
    quick = count_rows(state, slices, quick=True)
    assert (quick.by_commits, quick.by_footers) == (counted.by_commits, 0)
    assert quick.uncounted == counted.by_footers
    assert quick.rows.items() <= counted.rows.items()
