"""Applying the changes of a window leads from snapshot to snapshot, whatever happened between."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Any

import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.conftest import Unpack
from tests.golden.local_table import LocalTable
from tests.scenarios.lake import COW, MOR, UPSERT, Fields, Lake, Row, row
from tidelake.config import CdcMode, WriteOperation
from tidelake.errors import ConfigError, IncrementalRangeError
from tidelake.files import read_changes
from tidelake.model import Commit, TableType
from tidelake.read.changes import plan_changes

DELETE = WriteOperation.DELETE
OVERWRITE_TABLE = WriteOperation.INSERT_OVERWRITE_TABLE
MARKED: Fields = {"_hoodie_is_deleted": T.BooleanType()}
Image = dict[str, Any] | None
each_mode = pytest.mark.parametrize("mode", CdcMode)


class Followed:
    """A table that logs its changes, and every snapshot that it had."""

    def __init__(
        self,
        root: Path,
        kind: TableType = MOR,
        version: int = 9,
        mode: CdcMode = CdcMode.DATA_BEFORE_AFTER,
    ) -> None:
        logging = {
            "hoodie.table.cdc.enabled": "true",
            "hoodie.table.cdc.supplemental.logging.mode": mode,
        }
        self.lake = Lake(root, kind, version, logging)
        self.version = version
        self.times: list[str | None] = [None]
        self.snapshots: list[dict[str, Image]] = [{}]

    def write(
        self,
        rows: Sequence[Row],
        *,
        operation: WriteOperation = UPSERT,
        fields: Fields | None = None,
    ) -> str:
        return self._committed(self.lake.write(rows, operation=operation, fields=fields))

    def delete(self, *keys: str) -> str:
        return self.write([{"id": key, "p": "x"} for key in keys], operation=DELETE)

    def plan_compaction(self) -> str | None:
        due = {"hoodie.compact.inline.max.delta.commits": "1"}
        return self.lake.compactor(due).schedule()

    def compact(self, planned: str | None) -> None:
        assert planned is not None
        done = self.lake.compactor().run(planned)
        if self.version >= 8:  # before, it counts from when it was planned
            self._committed(done)

    def clean(self, commits: int = 1) -> bool:
        retained = {"hoodie.clean.commits.retained": str(commits)}
        return bool(self.lake.table_services(retained).clean())

    def _committed(self, commit: Commit) -> str:
        time = commit.completion_time if self.version >= 8 else commit.requested_time
        assert time is not None
        self.times.append(time)
        found = self.lake.rows().items()
        self.snapshots.append({key: _without_mark(image) for key, image in found})
        return time

    def changes(self, start: str | None, end: str | None = None) -> Iterator[tuple[str, Any, Any]]:
        plan = plan_changes(self.lake.state(), start=start, end=end)
        for task in plan.tasks:
            for batch in read_changes(task, plan.spec):
                for found in batch.to_pylist():
                    yield found["op"], *(_without_mark(found[side]) for side in ("before", "after"))

    def applied(self, start: str | None, end: str | None = None) -> dict[str, Image]:
        """Return the snapshot at `start` with the changes up to `end`."""
        rows = dict(self.snapshots[self.times.index(start)])
        for op, before, after in self.changes(start, end):
            key = (before or after)["id"]
            assert rows.get(key) == before, (op, before, after)
            assert op == ("i" if before is None else "d" if after is None else "u")
            rows[key] = after
        return {key: image for key, image in rows.items() if image is not None}

    def check_windows(self, *, may_lack: bool) -> None:
        """Hold every window to its snapshots; with `may_lack` older ones may be refused."""
        for first, start in enumerate(self.times):
            for last, end in list(enumerate(self.times))[first + 1 :]:
                try:
                    assert self.applied(start, end) == self.snapshots[last], (start, end)
                except IncrementalRangeError as gone:
                    assert may_lack, (start, end)
                    self._check_first_start(start, end, named_start(gone))

    def _check_first_start(self, start: str | None, end: str | None, named: str) -> None:
        list(self.changes(named, end))
        known = [t for t in self.times if t is not None and (start or "") < t < named]
        if known:
            with pytest.raises(IncrementalRangeError):
                list(self.changes(known[-1], end))


def _without_mark(image: Image) -> Image:
    return image and {name: image[name] for name in image if name not in MARKED}


def named_start(error: IncrementalRangeError) -> str:
    found = re.search(r"start the window at (\d+)", error.next_step)
    assert found is not None, error
    return found[1]


@each_mode
def test_what_a_clean_took_from_a_change_log_is_told_at_planning(
    tmp_path: Path, mode: CdcMode
) -> None:
    table = Followed(tmp_path, COW, mode=mode)
    table.write([row(key, 1) for key in "abcd"])
    table.write([row("a", 2)])
    table.delete("b")
    table.write([row("c", 2)])
    assert table.clean()
    with pytest.raises(IncrementalRangeError, match="was cleaned") as refused:
        plan_changes(table.lake.state(), start=table.times[1])
    table.check_windows(may_lack=True)
    # The images of the log itself take no file of the slice before it.
    needs_older = mode is CdcMode.OP_KEY_ONLY
    assert named_start(refused.value) == table.times[3 if needs_older else 2]


@each_mode
def test_a_change_log_needs_no_more_files_than_its_mode_leaves_out(
    tmp_path: Path, mode: CdcMode
) -> None:
    table = Followed(tmp_path, COW, mode=mode)
    table.write([row(key, 1) for key in "abc"])
    table.write([row("a", 2)])
    for path in table.lake.root.glob(f"*/*_{_requested(table, 1)}.parquet"):
        path.unlink()
    if mode is CdcMode.OP_KEY_ONLY:
        with pytest.raises(IncrementalRangeError, match="was cleaned"):
            plan_changes(table.lake.state(), start=table.times[1])
    else:
        assert table.applied(table.times[1]) == table.snapshots[-1]


def _requested(table: Followed, number: int) -> str:
    writes = table.lake.state().timeline.writes()
    return next(i.requested_time for i in writes if i.completion_time == table.times[number])


def test_a_change_log_that_a_write_lists_beside_its_logs_is_in_no_slice(
    golden_table: Unpack,
) -> None:
    """Apache Hudi lists that of a compaction in what the next write says of the slice."""
    table = LocalTable(str(golden_table("v9_mor_cdc_data_before_after")), {})
    assert len(table.changes(start="000").collect()) == 28


@pytest.mark.parametrize("version", [8, 9])
def test_a_write_beside_a_compaction_needs_the_slice_that_it_met(
    tmp_path: Path, version: int
) -> None:
    table = Followed(tmp_path, MOR, version)
    table.write([row(key, 1) for key in "abc"])
    table.write([row("a", 2)])
    planned = table.plan_compaction()
    table.write([row("a", 3)])
    table.delete("b")
    table.compact(planned)
    table.write([row("c", 2)])
    table.check_windows(may_lack=False)
    assert table.clean()
    table.check_windows(may_lack=True)
    for time in table.times[:4]:
        with pytest.raises(IncrementalRangeError, match="was cleaned"):
            plan_changes(table.lake.state(), start=time)
    assert [op for op, _, _ in table.changes(table.times[5])] == ["u"]


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("by_key", [True, False])
def test_a_row_that_comes_back_older_after_its_delete(
    tmp_path: Path, version: int, *, by_key: bool
) -> None:
    table = Followed(tmp_path, MOR, version)
    table.write([row("a", 17), row("b", 1)])
    if by_key:
        table.delete("a")
    else:
        table.write([row("a", 18, _hoodie_is_deleted=True)], fields=MARKED)
    table.write([row("a", 16)])
    table.check_windows(may_lack=False)


@pytest.mark.parametrize("version", [8, 9])
def test_a_compaction_that_changes_which_row_wins_is_a_change(tmp_path: Path, version: int) -> None:
    table = Followed(tmp_path, MOR, version)
    table.write([row("a", 17), row("b", 1)])
    table.delete("a")
    planned = table.plan_compaction()
    table.write([row("a", 16)])
    assert table.lake.values() == {"a": 17, "b": 1}
    table.compact(planned)
    assert table.lake.values() == {"a": 16, "b": 1}
    table.check_windows(may_lack=False)


def test_changes_come_in_the_order_in_which_writes_completed(tmp_path: Path) -> None:
    table = Followed(tmp_path, COW)
    table.write([row("a", 1)])
    early = table.lake.writing([row("n", 1, p="y")]).begun()
    table.write([row("a", 2)])
    table._committed(early.commit())
    assert [after["id"] for _, _, after in table.changes(table.times[1])] == ["a", "n"]
    table.check_windows(may_lack=False)


@each_mode
@pytest.mark.parametrize("kind", [COW, MOR])
@pytest.mark.parametrize("version", [6, 9])
def test_rows_of_a_write_leave_one_file_group_before_they_come_into_another(
    tmp_path: Path, kind: TableType, mode: CdcMode, version: int
) -> None:
    table = Followed(tmp_path, kind, version, mode)
    table.write([row("a", 1, p="x"), row("b", 1, p="y"), row("c", 1, p="y"), row("x", 1, p="x")])
    gone = [
        row("a", 2, p="x", _hoodie_is_deleted=True),
        row("b", 2, p="y", _hoodie_is_deleted=True),
    ]
    # As a write does it that finds keys in every partition.
    table.write([*gone, row("a", 2, p="y"), row("b", 2, p="x"), row("c", 3, p="y")], fields=MARKED)
    table.check_windows(may_lack=False)
    ops = [op for op, _, _ in table.changes(table.times[1])]
    assert sorted(ops) == ["d", "d", "i", "i", "u"]


@pytest.mark.parametrize("kind", [COW, MOR])
@pytest.mark.parametrize("of", [WriteOperation.INSERT_OVERWRITE, OVERWRITE_TABLE])
def test_rows_that_an_overwrite_brings_again_come_after_those_that_it_replaces(
    tmp_path: Path, kind: TableType, of: WriteOperation
) -> None:
    table = Followed(tmp_path, kind)
    table.write([row("a", 1), row("b", 1)])
    table.write([row("b", 2), row("c", 2)], operation=of)
    table.check_windows(may_lack=False)


def test_a_start_behind_archived_writes_is_named(tmp_path: Path) -> None:
    table = Followed(tmp_path, COW)
    for number in range(8):
        table.write([row("a", number)])
    kept = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}
    assert table.lake.table_services({**kept, "hoodie.clean.commits.retained": "2"}).clean()
    assert table.lake.table_services({**kept, "hoodie.clean.commits.retained": "2"}).archive()
    with pytest.raises(IncrementalRangeError):
        plan_changes(table.lake.state())
    table.check_windows(may_lack=True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(60))
def test_random_histories(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    kind = random.choice([COW, MOR, MOR])
    table = Followed(tmp_path, kind, random.choice([6, 8, 9]), random.choice(list(CdcMode)))
    planned: str | None = None
    has_lost = False
    for step in range(9):
        keys = random.sample("abcd", random.randint(1, 3))
        rows = [row(key, random.randint(1, 5), step) for key in keys]
        doing = random.choices(
            ["write", "mark", "delete", "plan", "run", "clean"], [6, 1, 2, 2, 2, 3]
        )
        try:
            match doing[0]:
                case "write":
                    table.write(rows)
                case "mark":
                    marked = [{**each, "_hoodie_is_deleted": True} for each in rows]
                    table.write(marked, fields=MARKED)
                case "delete":
                    table.delete(*keys)
                case "plan" if kind is MOR and planned is None:
                    planned = table.plan_compaction()
                case "run" if planned is not None:
                    table.compact(planned)
                    planned = None
                case "clean":
                    has_lost |= table.clean(random.choice([1, 2]))
        except ConfigError:  # nothing to delete from
            continue
    table.check_windows(may_lack=has_lost)
