"""Histories of partial rows, each written without a compaction and with one at every place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.partial_model import Event, may_differ
from tests.unit.files.test_partial_history import KEYS, Model, drawn, seen
from tests.unit.files.test_partial_rows import SETS, WIDE
from tests.unit.files.written_table import WrittenTable
from tidelake.config import CdcMode
from tidelake.files import read_changes, read_slice
from tidelake.files.read_slice import decide_slice, read_base
from tidelake.files.write_task import COLUMNS, Change, WriteKind
from tidelake.operations.open_table import open_state
from tidelake.read.changes import plan_changes
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import Selection
from tidelake.read.snapshot import plan_snapshot

Row = dict[str, Any]
#: A write: of each key the row, what it does, and the same for the model.
Write = dict[str, tuple[Row, Change, Event]]
WRITES = 5
CDC = {
    "hoodie.table.cdc.enabled": "true",
    "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER",
}


def history(seed: int) -> list[Write]:
    random = Random(seed)
    model = Model(by_event_time=True)
    writes: list[Write] = []
    for _ in range(WRITES):
        write = {}
        for key in random.sample(KEYS[:4], 3):
            row, change, event = drawn(random, key, random.randint(1, 6), model.rows())
            # What a row does not bring it has no value for.
            brought = {n: v for n, v in row.items() if n in {"id", COLUMNS, *event.values}}
            write[key] = brought, change, event
            model.apply(event, key)
        writes.append(write)
    return writes


class Played:
    """A table and its model; the first write is a base file."""

    def __init__(self, root: Path, version: int, **more: Any) -> None:
        self.table = WrittenTable(
            root, version=version, fields=WIDE, column_sets=SETS, **{"mor": True, **more}
        )
        self.model = Model(by_event_time=True)

    def write(self, write: Write) -> None:
        rows, changes, events = zip(*write.values(), strict=True)
        kind = WriteKind.APPEND if self.table.mor else WriteKind.MERGE
        if not self.table.mor and not self.table.slices():
            kind = WriteKind.CREATE
        self.table.write(list(rows), kind, change=list(changes))
        for key, event in zip(write, events, strict=True):
            self.model.apply(event, key)
        if not self.table.mor:
            self.model.compact()

    def compact(self) -> None:
        self.table.compact()
        self.model.compact()


def decided(table: WrittenTable) -> dict[str, Row]:
    """Return the rows as a scan finds them that drops the masked rows of base files."""
    plan = plan_snapshot(open_state(str(table.root)))
    found: list[Row] = []
    for task in plan.tasks:
        made = decide_slice(task, plan.spec)
        found += made.rows.to_pylist()
        base = [r for b in read_base(task, plan.spec) for r in b.to_pylist()]
        bits = np.unpackbits(made.mask.view(np.uint8), bitorder="little")
        found += [row for row, is_masked in zip(base, bits, strict=False) if not is_masked]
    return {row["id"]: row for row in found}


def windowed(table: WrittenTable) -> dict[str, Row]:
    plan = plan_incremental(open_state(str(table.root)), start="000")
    batches = (b for task in plan.tasks for b in read_slice(task, plan.spec))
    return {row["id"]: row for b in batches for row in b.to_pylist()}


def narrow(table: WrittenTable, name: str) -> dict[str, Any]:
    """Return one column, read without the others."""
    plan = plan_snapshot(open_state(str(table.root)), Selection(columns=("id", name)))
    batches = (b for task in plan.tasks for b in read_slice(task, plan.spec))
    return {row["id"]: row[name] for b in batches for row in b.to_pylist()}


def based(table: WrittenTable) -> dict[str, Row]:
    plan = plan_snapshot(open_state(str(table.root)))
    batches: Iterator[pa.RecordBatch] = (b for t in plan.tasks for b in read_base(t, plan.spec))
    return {row["id"]: row for b in batches for row in b.to_pylist()}


def check_every_path(played: Played, label: str) -> dict[str, Row]:
    rows = played.model.rows()
    assert seen(played.table) == rows, label
    assert decided(played.table) == rows, label
    assert windowed(played.table) == rows, label
    for name in ("fare", "note"):
        assert narrow(played.table, name) == {k: r[name] for k, r in rows.items()}, label
    return rows


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("seed", range(6))
def test_a_compaction_at_any_place_changes_no_answer(
    tmp_path: Path, version: int, seed: int
) -> None:
    writes = history(seed)
    plain = Played(tmp_path / "plain", version)
    for write in writes:
        plain.write(write)
    rows = check_every_path(plain, f"seed {seed}")
    for at in range(1, len(writes)):
        other = Played(tmp_path / str(at), version)
        for number, write in enumerate(writes):
            if number == at:
                other.compact()
            other.write(write)
        found = check_every_path(other, f"seed {seed}, compacted after {at}")
        for key in KEYS[:4]:
            log = [write[key][2] for write in writes if key in write]
            done = sum(key in write for write in writes[:at])
            if not may_differ(None, log, done):
                assert found.get(key) == rows.get(key), f"seed {seed}, {key} after {at}: {log}"
    plain.compact()
    assert based(plain.table) == seen(plain.table) == rows, f"seed {seed}"


@pytest.mark.parametrize("seed", range(6))
def test_copy_on_write_is_a_compaction_after_every_write(tmp_path: Path, seed: int) -> None:
    other = Played(tmp_path, 9, mor=False)
    for write in history(seed):
        other.write(write)
        assert seen(other.table) == other.model.rows(), f"seed {seed}"


@pytest.mark.parametrize("seed", range(6))
def test_changes_lead_to_the_snapshot(tmp_path: Path, seed: int) -> None:
    played = Played(tmp_path, 9, cdc=CdcMode.DATA_BEFORE_AFTER, extra=CDC)
    for number, write in enumerate(history(seed)):
        if number == WRITES // 2:
            played.compact()
        played.write(write)
    rows: dict[str, Row] = {}
    plan = plan_changes(open_state(str(tmp_path)), start="000")
    changes = [r for t in plan.tasks for b in read_changes(t, plan.spec) for r in b.to_pylist()]
    for change in sorted(changes, key=lambda c: str(c["ts_ms"])):
        if change["after"] is None:
            rows.pop(change["before"]["id"])
        else:
            rows[change["after"]["id"]] = change["after"]
    names = [field["name"] for field in WIDE]
    assert {k: {n: r[n] for n in names} for k, r in rows.items()} == played.model.rows()


def test_the_place_of_a_whole_row_decides_nothing(tmp_path: Path) -> None:
    whole = {"id": "a", "ts": 1, "text": "x", "city": "oslo", "fare": 1.0, "note": None}
    fare = {"id": "a", "ts": 3, "fare": 3.0, COLUMNS: 1}
    note = {"id": "a", "ts": 2, "note": "7", COLUMNS: 0}
    owed = {**whole, "ts": 3, "fare": 3.0, "note": "7"}
    for at in (None, 0, 2):
        table = WrittenTable(tmp_path / str(at), mor=True, fields=WIDE, column_sets=SETS)
        table.write([whole], WriteKind.APPEND)
        for number, row in enumerate((fare, note)):
            if number == at:
                table.compact()
            table.write([row], WriteKind.APPEND, change=Change.UPDATE)
        if at == 2:
            table.compact()
        assert seen(table) == {"a": owed}, at
