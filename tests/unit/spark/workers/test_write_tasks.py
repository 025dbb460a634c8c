from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest

from tidelake.errors import CorruptFileError, InputChangedError, SnapshotLostError
from tidelake.files.write_task import CHECK, GROUP, PLACE, WriteSpec, WriteToken
from tidelake.operations.write_session import _refuse_unknown_groups
from tidelake.records import KeyRule, MergeSpec
from tidelake.records.schema import PARTITION_PATH, RECORD_KEY
from tidelake.storage import storage_spec
from tidelake.write.plan import Workload, WritePlan
from tidelake.write.write_work import WriteWork, gathered, placed_runs, runs


def batch(*rows: tuple[str | None, str | None, str | None]) -> pa.RecordBatch:
    paths, groups, keys = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            RECORD_KEY: pa.array(keys, pa.string()),
            PARTITION_PATH: pa.array(paths, pa.string()),
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


@pytest.mark.parametrize(
    ("row", "part"), [(("p", "a", None), "record key"), ((None, "a", "3"), "partition path")]
)
def test_rows_that_turn_bad_after_they_were_looked_at_are_not_written(
    row: tuple[str | None, str | None, str | None], part: str, tmp_path: Path
) -> None:
    schema = '{"type":"record","name":"t","fields":[{"name":"id","type":["null","string"]}]}'
    spec = WriteSpec(
        storage=storage_spec(str(tmp_path)),
        schema=schema,
        table_version=9,
        instant_time="20261115200001000",
        marker_folder=".hoodie/.temp/20261115200001000",
        merge=MergeSpec(),
        keys=KeyRule(fields=("id",)),
    )
    work = WriteWork(spec=spec, plan=None)
    with pytest.raises(InputChangedError, match=f"without a {part} came up"):
        list(work.write([batch(row)], WriteToken(task=0, stage=0, attempt=0)))
    assert not list(tmp_path.rglob("*.parquet"))


def test_rows_are_cut_where_their_number_changes() -> None:
    places: dict[int, tuple[str, str | None]] = {3: ("p", "a"), 8: ("q", "a")}
    numbered = pa.RecordBatch.from_pydict(
        {RECORD_KEY: pa.array(["1", "2", "3"]), PLACE: pa.array([3, 8, 8], pa.int32())}
    )
    assert seen(placed_runs([numbered.slice(0, 0), numbered], places)) == [
        (("p", "a"), ["1"]),
        (("q", "a"), ["2", "3"]),
    ]


def test_a_row_without_a_number_was_not_there_before() -> None:
    numbered = pa.RecordBatch.from_pydict({PLACE: pa.array([3, None], pa.int32())})
    with pytest.raises(InputChangedError, match="1 rows of partitions or buckets"):
        list(placed_runs([numbered], {3: ("p", "a")}))


@pytest.mark.parametrize(
    ("moved_on", "error"), [(True, SnapshotLostError), (False, CorruptFileError)]
)
def test_a_group_that_the_index_names_alone_is_damage_unless_others_wrote(
    moved_on: bool, error: type[Exception]
) -> None:
    workload = Workload(counts={("p", "gone"): 1})
    with pytest.raises(error, match="gone"):
        _refuse_unknown_groups(workload, WritePlan(targets={}), moved_on=moved_on)
