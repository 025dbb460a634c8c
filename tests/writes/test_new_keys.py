"""Two writes that add the same keys at the same time, and what a conflict says about keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.writes.cases import Case
from tests.writes.model import Do, Row, Step
from tests.writes.quick_writer import QuickWriter
from tests.writes.readers import OurReader
from tidelake.errors import ConfigError, WriteConflictError
from tidelake.model import Commit
from tidelake.txn import Transaction

OCC = (
    ("hoodie.write.concurrency.mode", "OPTIMISTIC_CONCURRENCY_CONTROL"),
    ("hoodie.write.lock.provider", "in process"),
)
CHECKED = (*OCC, ("hoodie.write.occ.key.conflict.check", "true"))


def rows(*keys: str, ts: int = 1) -> Step:
    found: list[Row] = [
        {
            "id": key,
            "region": "n",
            "city": "oslo",
            "day": 1_794_700_800_000,
            "ts": ts,
            "fare": 1.5,
            "note": "",
        }
        for key in keys
    ]
    return Step(do=Do.UPSERT, rows=tuple(found))


def before_the_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Have something done once, right before the next write commits."""
    commit = Transaction.commit

    def committing(self: Transaction, *arguments: Any, **named: Any) -> Commit:
        monkeypatch.setattr(Transaction, "commit", commit)
        act()
        return commit(self, *arguments, **named)

    monkeypatch.setattr(Transaction, "commit", committing)


def keys(root: Path) -> list[str]:
    return sorted(str(values[0]) for values in OurReader(root).snapshot())


@pytest.fixture(params=[False, True], ids=["cow", "mor"])
def is_mor(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_the_same_new_keys_are_a_conflict_where_that_is_asked_for(
    is_mor: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(version=9, mor=is_mor, extra=CHECKED)
    root, writer = tmp_path / "t", QuickWriter()
    writer.create(root, case)
    before_the_commit(monkeypatch, lambda: writer.write(root, case, rows("a", "x")))
    with pytest.raises(WriteConflictError, match="both added the same keys") as refused:
        writer.write(root, case, rows("b", "x"))
    assert "keys of both           x\n" in refused.value.explain()
    assert keys(root) == ["a", "x"]


def test_other_new_keys_are_none(
    is_mor: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(version=9, mor=is_mor, extra=CHECKED)
    root, writer = tmp_path / "t", QuickWriter()
    writer.create(root, case)
    before_the_commit(monkeypatch, lambda: writer.write(root, case, rows("a")))
    writer.write(root, case, rows("b"))
    assert keys(root) == ["a", "b"]


def test_unasked_they_are_in_the_table_twice_as_in_hudi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(version=9, extra=OCC)
    root, writer = tmp_path / "t", QuickWriter()
    writer.create(root, case)
    before_the_commit(monkeypatch, lambda: writer.write(root, case, rows("x")))
    writer.write(root, case, rows("x"))
    assert keys(root) == ["x", "x"]


def test_a_conflict_about_a_file_group_names_keys_that_both_changed(
    is_mor: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(version=9, mor=is_mor, extra=OCC)
    root, writer = tmp_path / "t", QuickWriter()
    writer.create(root, case)
    writer.write(root, case, rows("a", "b", "c"))
    before_the_commit(monkeypatch, lambda: writer.write(root, case, rows("a", "b", ts=2)))
    with pytest.raises(WriteConflictError, match="same file group") as refused:
        writer.write(root, case, rows("b", "c", ts=3))
    assert "keys of both           b\n" in refused.value.explain()


def test_a_table_without_meta_fields_has_no_keys_to_compare(tmp_path: Path) -> None:
    fields = ("hoodie.populate.meta.fields", "false")
    root, writer = tmp_path / "t", QuickWriter()
    writer.create(root, Case(version=9, extra=(fields,)))
    with pytest.raises(ConfigError, match="no meta fields"):
        writer.write(root, Case(version=9, extra=(fields, *CHECKED)), rows("a"))
