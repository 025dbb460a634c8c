"""Rows that stayed in their partition although they came with another value of its column."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.files.written_table import PARTITION, WrittenTable, row
from tidelake.operations.open_table import open_state
from tidelake.read.scan import Selection
from tidelake.read.snapshot import plan_snapshot

BY_LISTING = {"hoodie.metadata.enable": "false"}


def slices(table: WrittenTable, where: str) -> list[str]:
    plan = plan_snapshot(open_state(str(table.root), BY_LISTING), Selection(where=where))
    return [task.partition for task in plan.tasks]


@pytest.mark.parametrize("version", [6, 9])
def test_paths_prune_nothing_where_rows_may_not_obey_them(tmp_path: Path, version: int) -> None:
    """With a record index Apache Hudi leaves a key where it is, and stores what arrived."""
    extra = {"hoodie.table.metadata.partitions": "files,record_index"}
    kept = WrittenTable(tmp_path / "kept", version=version, extra=extra)
    kept.write([row("a"), {**row("b"), "city": "rom"}])
    assert slices(kept, "city = 'rom'") == [PARTITION]
    plain = WrittenTable(tmp_path / "plain", version=version)
    plain.write([row("a")])
    assert slices(plain, "city = 'rom'") == []
    assert slices(plain, "city = 'oslo'") == [PARTITION]
