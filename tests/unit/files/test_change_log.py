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
from tidelake.read.changes import plan_changes
from tidelake.table import open_state

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


def test_inserts_alone_and_a_file_left_empty_need_no_log(tmp_path: Path) -> None:
    table = table_with_changes(tmp_path, CdcMode.DATA_BEFORE_AFTER)
    (created,) = table.write([row("a")])
    (inserted,) = table.write([row("b")], WriteKind.MERGE)
    (emptied,) = table.write(
        [{"id": "a"}, {"id": "b"}], WriteKind.MERGE, change=[Change.DELETE, Change.DELETE]
    )
    assert [stat.cdc_stats for stat in (created, inserted, emptied)] == [None] * 3
    assert not [path for path in table.files() if path.endswith(".cdc")]


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
