"""Buckets whose file ids are given take rows again after an overwrite has replaced their files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typing_extensions import override

from tests.writes.cases import CITIES, DAYS, FIXED_IDS, RING, Case
from tests.writes.hudi_rs import hudi_rs_for
from tests.writes.model import Do, Row, Step
from tests.writes.quick_writer import QuickWriter
from tests.writes.table import WrittenTable
from tidelake.errors import UnsupportedTableError
from tidelake.formats.hashing_metadata import FOLDER


def rows(numbers: range, ts: int) -> tuple[Row, ...]:
    return tuple(
        {
            "id": f"k{n}",
            "region": "n",
            "city": CITIES[n % len(CITIES)],
            "day": DAYS[0],
            "ts": ts,
            "fare": n / 4,
            "note": f"{ts}",
        }
        for n in numbers
    )


class Alone(QuickWriter):
    """Overwrites while nobody else writes, since non-blocking writers may not."""

    @override
    def write(self, root: Path | str, case: Case, step: Step) -> None:
        """Do one step."""
        if case.extra == FIXED_IDS and step.do in (Do.INSERT_OVERWRITE, Do.INSERT_OVERWRITE_TABLE):
            case = replace(case, extra=())
        super().write(root, case, step)


@pytest.mark.parametrize(
    ("version", "extra"), [(6, RING), (8, RING), (9, RING), (8, FIXED_IDS), (9, FIXED_IDS)]
)
def test_writes_go_on_after_overwrites(
    version: int, extra: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    case = Case(version=version, mor=True, index="BUCKET", extra=extra)
    table = WrittenTable(Alone(), tmp_path / "table", case, hudi_rs_for(case))
    for ts, (do, numbers) in enumerate(
        (
            (Do.UPSERT, range(30)),
            (Do.INSERT_OVERWRITE, range(0, 30, 6)),
            (Do.UPSERT, range(0, 40, 2)),
            (Do.INSERT_OVERWRITE_TABLE, range(1, 20, 3)),
            (Do.UPSERT, range(0, 40, 4)),
            (Do.DELETE, range(0, 10)),
            (Do.INSERT_OVERWRITE, range(2, 20, 3)),
            (Do.INSERT, range(50, 60)),
            (Do.UPSERT, range(0, 60, 5)),
        ),
        start=1,
    ):
        table.write(Step(do=do, rows=rows(numbers, ts)))
        table.check_now()
    table.check_past()
    assert not table.differences, table.told()


def test_a_ring_whose_files_somebody_replaced_takes_no_rows(tmp_path: Path) -> None:
    case = Case(mor=True, index="BUCKET", extra=RING)
    table = WrittenTable(QuickWriter(), tmp_path / "table", case, hudi_rs_for(case))
    table.write(Step(do=Do.UPSERT, rows=rows(range(30), 1)))
    table.write(Step(do=Do.INSERT_OVERWRITE, rows=rows(range(0, 30, 6), 2)))
    for path in (table.root / FOLDER).rglob("2*"):
        path.unlink()  # as a writer leaves it that overwrites partitions and forgets the ring
    with pytest.raises(UnsupportedTableError, match="which another writer replaced"):
        QuickWriter().write(table.root, case, Step(do=Do.UPSERT, rows=rows(range(9), 3)))
    table.check_now()
    table.write(Step(do=Do.INSERT_OVERWRITE, rows=rows(range(0, 30, 6), 4)))
    table.write(Step(do=Do.UPSERT, rows=rows(range(9), 5)))
    table.check_now()
    assert not table.differences, table.told()
