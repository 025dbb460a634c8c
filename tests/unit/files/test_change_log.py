from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.files.written_table import FIELDS, TOKEN, WrittenTable, record, row
from tidelake.config import CdcMode
from tidelake.files import read_changes
from tidelake.files.change_log import change_schema
from tidelake.files.write_group import write_group
from tidelake.files.write_task import Change, WriteKind
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.log_block import BlockKind, decode_blocks
from tidelake.operations.open_table import open_state
from tidelake.read.changes import plan_changes

VERSIONS = (6, 8, 9)


def table_with_changes(tmp_path: Path, mode: CdcMode, **more: Any) -> WrittenTable:
    extra = {
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
    }
    return WrittenTable(tmp_path, cdc=mode, extra=extra, **more)


def changes(table: WrittenTable, start: str) -> list[tuple[str, Any, Any]]:
    plan = plan_changes(open_state(str(table.root)), start=start)
    found = [
        (r["op"], r["before"], r["after"])
        for task in plan.tasks
        for batch in read_changes(task, plan.spec)
        for r in batch.to_pylist()
    ]
    return sorted(found, key=str)


@pytest.mark.parametrize("mode", CdcMode)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_merge_logs_what_it_changed(tmp_path: Path, version: int, mode: CdcMode) -> None:
    table = table_with_changes(tmp_path, mode, version=version)
    table.write([row(key, text="old") for key in "abcd"])
    (stat,) = table.write(
        [row("b", 2, "new"), row("c", 0, "stale"), row("e"), {"id": "d"}],
        WriteKind.MERGE,
        change=[Change.UPDATE, Change.UPDATE, Change.INSERT, Change.DELETE],
    )
    ((path, size),) = (stat.cdc_stats or {}).items()
    assert path.endswith("_20261115200002000.log.1_3-7-11.cdc")
    assert (tmp_path / path).stat().st_size == size
    (block,) = decode_blocks((tmp_path / path).read_bytes())
    assert block.kind is BlockKind.CDC_DATA
    assert table.ours() == table.theirs()
    start = "20261115200001000" if version < 8 else "20261115200001500"
    assert changes(table, start) == [
        ("d", row("d", text="old"), None),
        ("i", None, row("e")),
        ("u", row("b", text="old"), row("b", 2, "new")),
    ]


@pytest.mark.parametrize("mode", CdcMode)
@pytest.mark.parametrize("kind", [WriteKind.MERGE, WriteKind.CONCAT])
def test_inserts_behind_other_rows_are_logged(
    tmp_path: Path, mode: CdcMode, kind: WriteKind
) -> None:
    table = table_with_changes(tmp_path, mode)
    (created,) = table.write([row("a"), row("b")])
    assert created.cdc_stats is None
    (inserted,) = table.write([row("c")], kind)
    assert inserted.cdc_stats
    assert changes(table, "20261115200001500") == [("i", None, row("c"))]


@pytest.mark.parametrize("mode", CdcMode)
def test_a_file_left_empty_or_filled_anew_says_what_was_deleted(
    tmp_path: Path, mode: CdcMode
) -> None:
    table = table_with_changes(tmp_path, mode)
    table.write([row("a")])
    table.write([{"id": "a"}], WriteKind.MERGE, change=Change.DELETE)
    assert changes(table, "20261115200001500") == [("d", row("a"), None)]
    (filled,) = table.write([row("b")], WriteKind.MERGE)
    assert filled.cdc_stats is None
    table.write([{"id": "b"}, row("c")], WriteKind.MERGE, change=[Change.DELETE, Change.INSERT])
    assert changes(table, "20261115200002500") == [
        ("d", row("b"), None),
        ("i", None, row("b")),
        ("i", None, row("c")),
    ]


def test_rows_that_change_nothing_leave_the_base_file(tmp_path: Path) -> None:
    table = table_with_changes(tmp_path, CdcMode.DATA_BEFORE_AFTER)
    table.write([row("a", 5)])
    assert table.write([row("a", 4, "stale")], WriteKind.MERGE, change=Change.UPDATE) == []
    assert changes(table, "20261115200001500") == []
    assert table.ours() == [row("a", 5)]


def test_deletes_of_what_never_was_do_not_count_in_a_new_file(tmp_path: Path) -> None:
    table = table_with_changes(tmp_path, CdcMode.DATA_BEFORE_AFTER)
    (stat,) = table.write([row("a"), {"id": "b"}], change=[Change.INSERT, Change.DELETE])
    assert (stat.num_inserts, stat.num_deletes) == (1, 0)
    assert changes(table, "20261115200000000") == [("i", None, row("a"))]


def test_the_log_has_a_marker_by_which_it_is_deleted(tmp_path: Path) -> None:
    table = table_with_changes(tmp_path, CdcMode.DATA_BEFORE_AFTER, version=6)
    table.write([row("a")])
    spec = table.begin()
    target = table.target(WriteKind.MERGE)
    (stat,) = write_group(table.batches([row("a", 2)]), target, TOKEN, spec)
    (path,) = stat.cdc_stats or {}
    assert f"{spec.marker_folder}/{path}.marker.CREATE" in table.storage.files_below(
        spec.marker_folder
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_an_append_names_the_slice_that_it_changes(tmp_path: Path, version: int) -> None:
    table = table_with_changes(tmp_path, CdcMode.DATA_BEFORE_AFTER, version=version, mor=True)
    (base,) = table.write([row("a", text="old"), row("b", text="old")])
    table.write([row("a", 2, "new")], WriteKind.APPEND, change=Change.UPDATE)
    stats: list[WriteStat] = table.write(
        [row("a", 3, "newest"), {"id": "b"}],
        WriteKind.APPEND,
        change=[Change.UPDATE, Change.DELETE],
    )
    (stat,) = stats
    assert stat.prev_commit == "20261115200001000"
    assert stat.base_file == (base.path or "").rpartition("/")[2]
    assert len(stat.log_files or ()) == 2
    assert stat.cdc_stats is None
    start = "20261115200002000" if version < 8 else "20261115200002500"
    assert changes(table, start) == [
        ("d", row("b", text="old"), None),
        ("u", row("a", 2, "new"), row("a", 3, "newest")),
    ]


def test_the_schemas_are_those_that_hudi_writes() -> None:
    schema = record(FIELDS[:2])
    key_only = (
        '{"type":"record","name":"Record","fields":[{"name":"op","type":["string","null"]},'
        '{"name":"record_key","type":["string","null"]}]}'
    )
    assert json.loads(change_schema(CdcMode.OP_KEY_ONLY, schema)) == json.loads(key_only)
    both = json.loads(change_schema(CdcMode.DATA_BEFORE_AFTER, schema))
    assert (both["name"], both["namespace"]) == ("CDC", "hoodie.t")
    assert [f["name"] for f in both["fields"]] == ["op", "ts_ms", "before", "after"]
    assert both["fields"][2]["type"] == ["null", json.loads(schema)]
    assert both["fields"][3]["type"] == ["null", "hoodie.t.t_record"]
    before = json.loads(change_schema(CdcMode.DATA_BEFORE, schema))
    assert [f["name"] for f in before["fields"]] == ["op", "record_key", "before"]
