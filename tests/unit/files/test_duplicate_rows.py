"""Rows of one key in one file, of which a condition meets some."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.files.written_table import WrittenTable, row
from tidelake.config import CdcMode
from tidelake.errors import SchemaError
from tidelake.files.write_task import ROW, Change, WriteKind


def read(table: WrittenTable, text: str) -> list[dict[str, Any]]:
    """Return the rows with a text as an update by condition brings them."""
    found = [r for r in table.ours(meta=True) if r["text"] == text]
    return [
        {ROW if n == "_hoodie_commit_seqno" else n: v for n, v in r.items() if n != ROW}
        for r in found
    ]


def as_written(rows: list[dict[str, Any]], **changed: Any) -> list[dict[str, Any]]:
    kept = ("id", "ts", "text", "city", ROW)
    return [{**{n: r[n] for n in kept}, **changed} for r in rows]


@pytest.mark.parametrize("cdc", [None, CdcMode.DATA_BEFORE_AFTER])
def test_a_change_by_condition_meets_the_rows_that_it_read(
    tmp_path: Path, cdc: CdcMode | None
) -> None:
    table = WrittenTable(tmp_path, cdc=cdc)
    table.write([row("a", text="x"), row("a", text="y"), row("a", text="z"), row("b", text="x")])
    gone = as_written(read(table, "x"))
    (stat,) = table.write(gone, WriteKind.MERGE, change=Change.DELETE)
    assert stat.num_deletes == 2
    assert table.ours() == [row("a", text="y"), row("a", text="z")]
    new = [*as_written(read(table, "y"), text="yy"), *as_written(read(table, "z"), text="zz")]
    table.write(new, WriteKind.MERGE, change=Change.UPDATE)
    assert table.ours() == [row("a", text="yy"), row("a", text="zz")]
    table.write([{"id": "a"}], WriteKind.MERGE, change=Change.DELETE)
    assert table.ours() == []


@pytest.mark.parametrize("combine", [False, True])
def test_a_log_does_not_tell_the_rows_of_a_key_apart(tmp_path: Path, *, combine: bool) -> None:
    table = WrittenTable(tmp_path, mor=True)
    table.write([row("a", text="x"), row("a", text="y"), row("b", text="x")])
    table.spec = replace(table.spec, combine=combine)
    before = table.files()
    with pytest.raises(SchemaError, match="key 'a' is there several times"):
        table.write(as_written(read(table, "x")), WriteKind.APPEND, change=Change.DELETE)
    assert table.files() == before
    only_b = [r for r in as_written(read(table, "x")) if r["id"] == "b"]
    table.write(only_b, WriteKind.APPEND, change=Change.DELETE)
    assert table.ours() == [row("a", text="x"), row("a", text="y")]
