from __future__ import annotations

from itertools import groupby

import pyarrow as pa
import pytest

from tidelake.engine.incoming_rows import CHECK, GROUP
from tidelake.engine.write_tasks import gathered, runs
from tidelake.records.schema import PARTITION_PATH, RECORD_KEY


def batch(*rows: tuple[str, str | None, str]) -> pa.RecordBatch:
    paths, groups, keys = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            RECORD_KEY: pa.array(keys),
            PARTITION_PATH: pa.array(paths),
            GROUP: pa.array(groups, pa.string()),
            CHECK: pa.array([0] * len(rows), pa.int64()),
        }
    )


def seen(parts: object) -> list[tuple[tuple[str, str | None], list[str]]]:
    found = []
    for at, pieces in groupby(parts, key=lambda part: part[0]):  # type: ignore[call-overload]  # any iterable
        keys = [k for _, piece in pieces for k in piece.column(0).to_pylist()]
        found.append((at, keys))
    return found


ROWS = [("p", "a", "1"), ("p", "a", "2"), ("p", "b", "3"), ("q", "b", "4"), ("q", None, "5")]


def test_sorted_rows_are_cut_where_the_group_changes() -> None:
    parts = runs([batch(*ROWS[:1]), batch(*ROWS[1:])])
    assert seen(parts) == [
        (("p", "a"), ["1", "2"]),
        (("p", "b"), ["3"]),
        (("q", "b"), ["4"]),
        (("q", None), ["5"]),
    ]


@pytest.mark.parametrize("whole", [True, False])
def test_unsorted_rows_come_together_in_their_order(whole: bool) -> None:
    mixed = [ROWS[3], ROWS[1], ROWS[4], ROWS[0], ROWS[2]]
    parts = gathered([batch(*mixed[:2]), batch(*mixed[2:])], whole=whole)
    assert sorted(seen(parts), key=str) == sorted(
        [
            (("p", "a"), ["2", "1"]),
            (("p", "b"), ["3"]),
            (("q", "b"), ["4"]),
            (("q", None), ["5"]),
        ],
        key=str,
    )


def test_no_rows_no_runs() -> None:
    assert list(gathered([], whole=True)) == []
    assert list(runs([batch(*ROWS[:1]).slice(0, 0)])) == []
