"""A key that was deleted in one file group and came back in another."""

from __future__ import annotations

from pathlib import Path

from tests.writes.cases import Case
from tests.writes.model import Do, Row, Step
from tests.writes.quick_writer import QuickWriter
from tests.writes.readers import OurReader

ROW: Row = {
    "id": "k",
    "region": "n",
    "city": "oslo",
    "day": 1_794_700_800_000,
    "ts": 1,
    "fare": 1.5,
    "note": "",
}


def test_a_delete_finds_the_row_that_is_there(tmp_path: Path) -> None:
    case = Case(version=9, mor=True, index="BLOOM")
    root, writer = tmp_path / "t", QuickWriter()
    writer.create(root, case)
    for _ in range(6):
        # Bulk inserts look for no key, so that each makes a file group.
        writer.write(root, case, Step(do=Do.BULK_INSERT, rows=(ROW,)))
        assert len(OurReader(root).snapshot()) == 1
        writer.write(root, case, Step(do=Do.DELETE, rows=(ROW,)))
        assert OurReader(root).snapshot() == []
