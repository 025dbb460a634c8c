"""Record positions in log blocks: when they are written, and that readers may go by them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.files.written_table import TOKEN, WrittenTable, row
from tidelake.files import decide_slice
from tidelake.files.write_group import write_group
from tidelake.files.write_task import CHANGE, POSITION, Change, LogFormat, LogSettings, WriteKind
from tidelake.formats import record_positions
from tidelake.formats.log_block import LogBlock, decode_blocks
from tidelake.operations.open_table import open_state
from tidelake.read.scan import Selection
from tidelake.read.snapshot import plan_snapshot

FIRST = "20261115200001000"


def append(table: WrittenTable, rows: Sequence[tuple[str, int | None, Change]]) -> list[LogBlock]:
    made = pa.Table.from_pylist([row(key, 2, "new") for key, _, _ in rows])
    made = made.append_column("_hoodie_record_key", made.column("id"))
    made = made.append_column(CHANGE, pa.array([int(change) for _, _, change in rows]))
    made = made.append_column(POSITION, pa.array([at for _, at, _ in rows], pa.int64()))
    begun = table.begin()
    stats = write_group(made.to_batches(), table.target(WriteKind.APPEND), TOKEN, begun)
    table.commit(begun, stats)
    return decode_blocks((table.root / (stats[0].path or "")).read_bytes())


def positions(block: LogBlock) -> list[int]:
    text = block.record_positions
    return [] if text is None else record_positions.decode(text, at_most=100).tolist()


@pytest.mark.parametrize("form", LogFormat)
@pytest.mark.parametrize("version", [8, 9])
def test_blocks_name_the_rows_of_the_base_file_in_their_order(
    tmp_path: Path, version: int, form: LogFormat
) -> None:
    table = WrittenTable(tmp_path, version=version, mor=True, log=LogSettings(format=form))
    table.write([row(key, text="old") for key in "abcdef"])
    data, deletes = append(
        table,
        [
            ("e", 4, Change.UPDATE),
            ("b", 1, Change.UPDATE),
            ("d", 3, Change.DELETE),
            ("a", 0, Change.DELETE),
            ("c", 2, Change.UPDATE),
        ],
    )
    assert (positions(data), positions(deletes)) == ([1, 2, 4], [0, 3])
    assert {b.base_instant_of_positions for b in (data, deletes)} == {FIRST}
    expected = [row("b", 2, "new"), row("c", 2, "new"), row("e", 2, "new"), row("f", text="old")]
    assert table.ours() == expected
    assert table.theirs() == expected
    plan = plan_snapshot(open_state(str(tmp_path)), Selection())
    decided = decide_slice(plan.tasks[0], plan.spec)
    assert decided.mask.tolist() == [0b011111]
    assert sorted(r["id"] for r in decided.rows.to_pylist()) == ["b", "c", "e"]


@pytest.mark.parametrize(
    "rows",
    [
        [("a", 0, Change.UPDATE), ("new", None, Change.INSERT)],
        [("a", 0, Change.UPDATE), ("a", 0, Change.UPDATE)],
    ],
    ids=["an insert has no position", "a position comes twice"],
)
def test_a_block_goes_without_positions_unless_every_record_has_its_own(
    tmp_path: Path, rows: list[tuple[str, int | None, Change]]
) -> None:
    table = WrittenTable(tmp_path, mor=True)
    table.write([row("a"), row("b")])
    (block,) = append(table, rows)
    assert block.record_positions is None
    assert block.base_instant_of_positions is None


def test_version_6_knows_no_positions(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, version=6, mor=True)
    table.write([row("a"), row("b")])
    (block,) = append(table, [("a", 0, Change.UPDATE)])
    assert block.record_positions is None


def test_positions_may_be_forbidden(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, mor=True, positions=False)
    table.write([row("a"), row("b")])
    (block,) = append(table, [("a", 0, Change.UPDATE)])
    assert block.record_positions is None
