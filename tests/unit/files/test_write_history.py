"""Random histories of one file group against a model that a dictionary can hold."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from tests.unit.files.written_table import EVENT, FIELDS, Row, WrittenTable, nullable, row
from tidelake.files.write_task import Change, LogFormat, LogSettings, WriteKind
from tidelake.model import MergeMode
from tidelake.records import MergeSpec

DELETABLE = [*FIELDS, nullable("_hoodie_is_deleted", "boolean")]
KEYS = st.sampled_from(["a", "b", "c", "d", "é,:", "f"])


@st.composite
def incoming_rows(draw: st.DrawFn) -> tuple[Row, Change]:
    key, ts, text = draw(KEYS), draw(st.integers(0, 4)), draw(st.sampled_from(["x", "", None, "ž"]))
    if draw(st.integers(0, 4)) == 0:
        return {"id": key}, Change.DELETE
    gone = draw(st.sampled_from([None, None, None, True, False]))
    return row(key, ts, text, _hoodie_is_deleted=gone), Change.UPDATE


@st.composite
def rounds(draw: st.DrawFn) -> list[tuple[Row, Change]]:
    """Return rows of one write: at most one a key, as planning hands them on."""
    found = draw(st.lists(incoming_rows(), min_size=1, max_size=6))
    return list({r["id"]: (r, change) for r, change in found}.values())


@dataclass
class CopyOnWrite:
    """What Hudi's rules make of a table whose rows are merged as they come."""

    merge: MergeSpec
    rows: dict[str, Row] = field(default_factory=dict)

    def apply(self, row: Row, change: Change) -> None:
        held = self.rows.get(row["id"])
        if change is Change.DELETE:
            self.rows.pop(row["id"], None)
        elif held is not None and self.loses(row, held):
            return
        elif row["_hoodie_is_deleted"]:
            self.rows.pop(row["id"], None)
        else:
            self.rows[row["id"]] = row

    def loses(self, row: Row, held: Row) -> bool:
        return self.merge.mode is MergeMode.EVENT_TIME and row["ts"] < held["ts"]

    def answer(self) -> list[Row]:
        return [self.rows[key] for key in sorted(self.rows)]


#: A delete that came without an ordering value.
GONE: Row = {}


@dataclass
class MergeOnRead(CopyOnWrite):
    """The same where log records are merged with each other first and with the base row last.

    So a base row that was deleted comes back, in Hudi's hands as in ours, when a later row of its
    key has a smaller ordering value.
    """

    log: dict[str, Row] = field(default_factory=dict)

    @override
    def apply(self, row: Row, change: Change) -> None:
        key = row["id"]
        held = self.log.get(key)
        if change is Change.INSERT:
            self.rows[key] = row
        elif change is Change.DELETE:
            self.log[key] = GONE
        elif held is None:
            self.log[key] = row
        elif held is GONE:
            if self.merge.mode is MergeMode.COMMIT_TIME or not row["_hoodie_is_deleted"]:
                self.log[key] = row
        elif not self.loses(row, held):
            self.log[key] = row

    @override
    def answer(self) -> list[Row]:
        merged = CopyOnWrite(self.merge, dict(self.rows))
        for key, last in self.log.items():
            merged.apply({"id": key, **last}, Change.DELETE if last is GONE else Change.UPDATE)
        return merged.answer()


def play(
    version: int, merge: MergeSpec, writes: list[list[tuple[Row, Change]]], **more: Any
) -> None:
    mor = "log" in more
    with tempfile.TemporaryDirectory() as folder:
        table = WrittenTable(
            Path(folder), version=version, mor=mor, merge=merge, fields=DELETABLE, **more
        )
        model = MergeOnRead(merge) if mor else CopyOnWrite(merge)
        first = [row(key, 2, "first", _hoodie_is_deleted=None) for key in ("a", "b", "c")]
        table.write(first)
        for each in first:
            model.apply(each, Change.INSERT)
        for write in writes:
            kind = WriteKind.APPEND if mor else WriteKind.MERGE
            table.write([r for r, _ in write], kind, change=[c for _, c in write])
            for r, change in write:
                model.apply(r, change)
            assert table.ours() == model.answer()
        assert table.theirs() == model.answer()


QUICK = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
MERGES = st.sampled_from([EVENT, MergeSpec()])
VERSIONS = st.sampled_from([6, 8, 9])


@QUICK
@given(version=VERSIONS, merge=MERGES, writes=st.lists(rounds(), min_size=1, max_size=4))
def test_merges_follow_the_model(
    version: int, merge: MergeSpec, writes: list[list[tuple[Row, Change]]]
) -> None:
    play(version, merge, writes)


@QUICK
@given(
    version=VERSIONS,
    merge=MERGES,
    form=st.sampled_from(LogFormat),
    writes=st.lists(rounds(), min_size=1, max_size=4),
)
def test_appends_follow_the_model(
    version: int, merge: MergeSpec, form: LogFormat, writes: list[list[tuple[Row, Change]]]
) -> None:
    play(version, merge, writes, log=LogSettings(format=form))
