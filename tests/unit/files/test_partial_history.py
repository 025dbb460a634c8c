"""Random partial rows leave what a dictionary leaves, with compactions between and without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Any

import pytest

from tests.partial_model import Event, State, merged
from tests.unit.files.test_partial_rows import SETS, WIDE
from tests.unit.files.written_table import EVENT, WrittenTable
from tidelake.config import CdcMode
from tidelake.files import read_changes, read_slice
from tidelake.files.write_task import COLUMNS, Change, LogFormat, LogSettings, WriteKind
from tidelake.operations.open_table import open_state
from tidelake.read.changes import plan_changes
from tidelake.read.incremental import plan_incremental
from tidelake.read.snapshot import plan_snapshot
from tidelake.records import MergeSpec

NAMES = [field["name"] for field in WIDE]
KEYS = "abcdef"
Row = dict[str, Any]


class Model:
    """The rows of a file group by `partial_model`, under event time or in order of arrival."""

    def __init__(self, *, by_event_time: bool) -> None:
        self._by_event_time = by_event_time
        self._base: dict[str, State] = {}
        self._log: dict[str, list[Event]] = {}
        self._arrived = 0

    def load(self, rows: list[Row]) -> None:
        self._base = {row["id"]: State(self._order(row["ts"]), row) for row in rows}

    def apply(self, new: Event, key: str) -> None:
        self._arrived += 1
        if not new.is_delete:
            new = replace(new, ts=self._order(new.order))
        self._log.setdefault(key, []).append(new)

    def _order(self, ts: int) -> int:
        return ts if self._by_event_time else self._arrived

    def _states(self) -> dict[str, State]:
        keys = dict.fromkeys((*self._base, *self._log))
        found = {key: merged(self._base.get(key), self._log.get(key, [])) for key in keys}
        return {k: s for k, s in found.items() if s is not None and s.deleted_by is None}

    def rows(self) -> dict[str, Row]:
        whole = dict.fromkeys(NAMES)
        return {
            key: {**whole, "id": key, **{n: v for n, v in s.values.items() if n in whole}}
            for key, s in self._states().items()
        }

    def compact(self) -> None:
        rows = self.rows()
        self._base = {key: State(s.order, rows[key]) for key, s in self._states().items()}
        self._log = {}


def drawn(
    random: Random, key: str, ts: int, known: dict[str, Row], *, new_kinds: int = 2
) -> tuple[Row, Change, Event]:
    """Return a row that a write brings, and the same for the model.

    Keys that are not known get a whole row or, as the second of `new_kinds`, one of a stream.
    """
    row = {"id": key, "ts": ts, "text": random.choice(["t", None]), "city": "oslo"}
    row |= {"fare": random.choice([1.5, None, 3.0]), "note": random.choice(["n", "m", None])}
    kind = random.randrange(5 if key in known else new_kinds)
    if kind == 4:
        return {"id": key}, Change.DELETE, Event(None, is_delete=True)
    if kind == 0:
        return row, Change.UPDATE, Event(ts, row, is_whole=True)
    number = 2 if kind == 1 else kind - 2
    brought = {name: row[name] for name in SETS[number].names}
    return {**row, COLUMNS: number}, Change.UPDATE, Event(ts, brought)


def seen(table: WrittenTable) -> dict[str, Row]:
    plan = plan_snapshot(open_state(str(table.root)))
    batches = (b for task in plan.tasks for b in read_slice(task, plan.spec))
    return {row["id"]: row for b in batches for row in b.to_pylist()}


def compact(table: WrittenTable) -> None:
    """Write the rows as they are now to a base file that begins the next slice."""
    rows = list(seen(table).values())
    if rows:
        table.write(rows, WriteKind.CREATE)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("merge", [EVENT, MergeSpec()], ids=["event", "commit"])
@pytest.mark.parametrize("form", LogFormat)
@pytest.mark.parametrize("version", [8, 9])
def test_random_partial_rows_leave_what_the_model_holds(
    tmp_path: Path, version: int, form: LogFormat, merge: MergeSpec
) -> None:
    for seed in range(3):
        random = Random(seed)
        table = WrittenTable(
            tmp_path / str(seed),
            version=version,
            mor=True,
            merge=merge,
            fields=WIDE,
            column_sets=SETS,
            combine=random.random() < 0.5,
            log=LogSettings(format=form),
        )
        model = Model(by_event_time=merge is EVENT)
        first = [
            {"id": key, "ts": 5, "text": "x", "city": "oslo", "fare": 1.0, "note": "old"}
            for key in KEYS[:4]
        ]
        table.write(first)
        model.load(first)
        for _ in range(10):
            if random.random() < 0.2:
                compact(table)
                model.compact()
            rows, changes = [], []
            for key in random.sample(KEYS, 3):
                row, change, record = drawn(random, key, random.randint(3, 9), model.rows())
                rows.append(row)
                changes.append(change)
                model.apply(record, key)
            table.write(rows, WriteKind.APPEND, change=changes)
            assert seen(table) == model.rows(), f"seed {seed}"


@pytest.mark.parametrize("merge", [EVENT, MergeSpec()], ids=["event", "commit"])
@pytest.mark.parametrize("form", LogFormat)
def test_hudi_rs_reads_the_same_of_rows_that_come_in_order(
    tmp_path: Path, form: LogFormat, merge: MergeSpec
) -> None:
    # Of a record that comes late, and of one after a delete, it takes the columns that the newest
    # one lacks from the base file, although the log has them or the row was gone.
    for seed in range(2):
        random = Random(seed)
        table = WrittenTable(
            tmp_path / str(seed),
            mor=True,
            merge=merge,
            fields=WIDE,
            column_sets=SETS,
            log=LogSettings(format=form),
        )
        model = Model(by_event_time=merge is EVENT)
        for ts in range(1, 12):
            rows, changes = [], []
            for key in random.sample(KEYS, 3):
                row, change, record = drawn(random, key, ts, model.rows(), new_kinds=1)
                rows.append(row)
                changes.append(change)
                model.apply(record, key)
            if ts == 1:
                table.write(rows)
                model.compact()
            else:
                table.write(rows, WriteKind.APPEND, change=changes)
            theirs = {row["id"]: row for row in table.theirs()}
            assert seen(table) == theirs == model.rows(), f"seed {seed}"


def test_a_window_returns_whole_rows_of_partial_updates(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, mor=True, fields=WIDE, column_sets=SETS)
    old = {"id": "a", "ts": 5, "text": "x", "city": "oslo", "fare": 1.0, "note": "old"}
    table.write([old, {**old, "id": "b"}])
    table.write(
        [{"id": "a", "ts": 6, "note": None, COLUMNS: 0}], WriteKind.APPEND, change=Change.UPDATE
    )
    table.write(
        [{"id": "a", "ts": 7, "fare": 2.0, COLUMNS: 1}], WriteKind.APPEND, change=Change.UPDATE
    )
    state = open_state(str(tmp_path))
    plan = plan_incremental(state, start="20261115200001500", end="20261115200002500")
    (row,) = (r for t in plan.tasks for b in read_slice(t, plan.spec) for r in b.to_pylist())
    assert row == {**old, "ts": 6, "note": None}
    plan = plan_incremental(state, start="20261115200002500")
    (row,) = (r for t in plan.tasks for b in read_slice(t, plan.spec) for r in b.to_pylist())
    assert row == {**old, "ts": 7, "note": None, "fare": 2.0}


@pytest.mark.parametrize("kind", [WriteKind.APPEND, WriteKind.MERGE])
def test_changes_show_whole_rows_of_partial_updates(tmp_path: Path, kind: WriteKind) -> None:
    table = WrittenTable(
        tmp_path,
        mor=kind is WriteKind.APPEND,
        fields=WIDE,
        column_sets=SETS,
        cdc=CdcMode.DATA_BEFORE_AFTER,
        extra={
            "hoodie.table.cdc.enabled": "true",
            "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER",
        },
    )
    old = {"id": "a", "ts": 5, "text": "x", "city": "oslo", "fare": 1.0, "note": "old"}
    table.write([old, {**old, "id": "b"}])
    table.write([{"id": "a", "ts": 6, "note": None, COLUMNS: 0}], kind, change=Change.UPDATE)
    plan = plan_changes(open_state(str(tmp_path)), start="20261115200001500")
    (change,) = (r for t in plan.tasks for b in read_changes(t, plan.spec) for r in b.to_pylist())
    assert change["op"] == "u"
    assert {name: change["before"][name] for name in NAMES} == old
    assert {name: change["after"][name] for name in NAMES} == {**old, "ts": 6, "note": None}


def test_changes_show_the_column_that_a_late_record_brought(tmp_path: Path) -> None:
    table = WrittenTable(
        tmp_path,
        mor=True,
        fields=WIDE,
        column_sets=SETS,
        cdc=CdcMode.DATA_BEFORE_AFTER,
        extra={
            "hoodie.table.cdc.enabled": "true",
            "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER",
        },
    )
    old = {"id": "a", "ts": 5, "text": "x", "city": "oslo", "fare": 1.0, "note": "old"}
    table.write([old])
    append, update = WriteKind.APPEND, Change.UPDATE
    table.write([{"id": "a", "ts": 8, "note": "new", COLUMNS: 0}], append, change=update)
    table.write([{"id": "a", "ts": 6, "fare": 2.0, COLUMNS: 1}], append, change=update)
    table.write([{"id": "a", "ts": 5, "fare": 9.0, COLUMNS: 1}], append, change=update)
    owed = {**old, "ts": 8, "note": "new", "fare": 2.0}
    assert seen(table) == {"a": owed}
    plan = plan_changes(open_state(str(tmp_path)), start="20261115200002500")
    (change,) = (r for t in plan.tasks for b in read_changes(t, plan.spec) for r in b.to_pylist())
    assert {name: change["before"][name] for name in NAMES} == {**owed, "fare": 1.0}
    assert {name: change["after"][name] for name in NAMES} == owed
