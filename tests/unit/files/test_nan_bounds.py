"""Numbers that are none: footers leave out the bounds of a column that has them, as Spark's do."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.unit.metadata.test_statistics import made, metadata, write
from tidelake.metadata import MetadataTable
from tidelake.model import ColumnStats, TableType
from tidelake.operations.open_table import open_state
from tidelake.read import prune
from tidelake.read.predicate import Compare, Op, may_match
from tidelake.read.scan import Selection
from tidelake.read.snapshot import plan_snapshot

#: Row 3 has such a number, in partition r1.
ODD, EVEN = "r1", "r0"
IN_ORDER = {"hoodie__bulkinsert__sort__mode": "NONE"}


def bounds(root: str, partition: str) -> list[bool]:
    """Return for each row group of the partition's newest file whether it has bounds of x."""
    path = max(Path(root, partition).glob("*.parquet"), key=lambda p: p.name.split("_")[2])
    footer = pq.read_metadata(path)
    chunks = [
        footer.row_group(group).column(at)
        for group in range(footer.num_row_groups)
        for at in range(footer.num_columns)
    ]
    assert all(c.statistics.has_min_max for c in chunks if c.path_in_schema == "id")
    found = [c.statistics for c in chunks if c.path_in_schema == "x"]
    return [one is not None and one.has_min_max for one in found]


def test_a_column_with_numbers_that_are_none_has_no_bounds(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(8), 1)
    assert bounds(root, EVEN) == [True]
    assert bounds(root, ODD) == [False]
    write(root, [3], 2, "delete")
    assert bounds(root, ODD) == [True]


@pytest.mark.parametrize("numbers", [[*range(5, 400, 2), 3], [3, *range(5, 400, 2)]])
def test_no_row_group_has_bounds_wherever_the_number_is(tmp_path: Path, numbers: list[int]) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, numbers, 1, "bulk_insert", hoodie__parquet__block__size="4096", **IN_ORDER)
    assert len(bounds(root, ODD)) > 1
    assert not any(bounds(root, ODD))
    (path,) = Path(root, ODD).glob("*.parquet")
    assert pq.read_table(path).column("id").to_pylist() == [f"k{n}" for n in numbers]


def test_the_greatest_number_that_apache_can_look_for_stands_in(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(8), 1)
    told = metadata(root).partition_stats(["x"])
    assert (told[ODD]["x"].min, told[ODD]["x"].max) == (-math.inf, math.inf)
    assert (told[EVEN]["x"].min, told[EVEN]["x"].max) == (0.0, 1.5)


def test_bounds_of_zero_may_be_those_of_no_number() -> None:
    """Apache Hudi 1.2.0 writes them for a file with such a number, whatever else it holds."""
    asked = Compare("x", Op.EQ, 0.5, 0.5)
    for least, greatest, answer in ((0.0, 0.0, True), (0.0, 0.25, False), (0.25, 1.0, True)):
        stats = ColumnStats(min=least, max=greatest, null_count=0, value_count=3)
        assert may_match(asked, prune._bounds({"x": stats})) is answer


def test_bounds_of_numbers_in_a_partition_leave_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(0, 8, 2), 1)
    # What Apache Hudi makes of a file with such a number, and one with numbers above 0.
    wrong = {EVEN: {"x": ColumnStats(min=9.0, max=9.0, null_count=0, value_count=4)}}
    monkeypatch.setattr(MetadataTable, "partition_stats", lambda *_: wrong)
    asked = Selection(where="x < 1.0D", is_filtered=True)
    assert [task.partition for task in plan_snapshot(open_state(root), asked).tasks] == [EVEN]
