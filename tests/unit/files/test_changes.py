from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tests.unit.files.small_slice import FIELDS, Row, SmallSlice, avro, instant, row
from tidelake.errors import CorruptFileError
from tidelake.files import ChangeKind, ChangeTask, SliceTask, change_schema, read_changes
from tidelake.formats.log_block import BlockKind, HeaderKey, encode_block, join_avro_block

AT = "20260102000000000"
NULLABLE = ["null", "string"]


@pytest.fixture
def piece(tmp_path: Path) -> SmallSlice:
    return SmallSlice(tmp_path)


def changes(piece: SmallSlice, task: ChangeTask) -> list[tuple[str, Row | None, Row | None]]:
    found = []
    for batch in read_changes(task, piece.spec()):
        assert batch.schema == change_schema(piece.spec())
        for r in batch.to_pylist():
            assert r["ts_ms"] == task.instant_time
            found.append((r["op"], r["before"], r["after"]))
    return sorted(found, key=str)


def cdc_file(piece: SmallSlice, fields: list[tuple[str, Any]], records: list[Row]) -> str:
    schema = {
        "type": "record",
        "name": "CDC",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    datums = []
    for record in records:
        datum = io.BytesIO()
        fastavro.schemaless_writer(datum, parsed, record)
        datums.append(datum.getvalue())
    headers: dict[int, str] = {HeaderKey.INSTANT_TIME: AT, HeaderKey.SCHEMA: json.dumps(schema)}
    name = f".f-0_{AT}.log.1_0-1-1.cdc"
    data = encode_block(BlockKind.CDC_DATA, headers, join_avro_block(datums))
    (piece.folder / name).write_bytes(data)
    return name


def two_versions(piece: SmallSlice, new: list[Row]) -> tuple[SliceTask, SliceTask]:
    """Write a base file, then the one that replaced it."""
    piece.base([row("a", 1, "old"), row("b", 1, "old"), row("c", 1, "old")])
    assert piece.base_name is not None
    first = f"first_{piece.base_name}"
    (piece.folder / piece.base_name).rename(piece.folder / first)
    piece.base(new)
    return piece.task(base_path=first), piece.task()


NEW = [row("a", 2, "new"), row("c", 1, "old"), row("d", 1, "new")]
WANTED = [
    ("d", row("b", 1, "old"), None),
    ("i", None, row("d", 1, "new")),
    ("u", row("a", 1, "old"), row("a", 2, "new")),
]
IMAGE = json.loads(avro(FIELDS))


def test_every_row_of_a_new_file_is_inserted(piece: SmallSlice) -> None:
    piece.base([row("a"), row("b")])
    task = ChangeTask(kind=ChangeKind.INSERTED, instant_time=AT, after=piece.task())
    assert changes(piece, task) == [("i", None, row("a")), ("i", None, row("b"))]


def test_every_merged_row_of_a_replaced_slice_is_deleted(piece: SmallSlice) -> None:
    piece.base([row("a", 1), row("b", 1)])
    piece.log([row("a", 2)])
    piece.deletes(["b"])
    task = ChangeTask(kind=ChangeKind.DELETED, instant_time=AT, before=piece.task())
    assert changes(piece, task) == [("d", row("a", 2), None)]


def test_both_images_are_taken_from_the_log_that_holds_them(piece: SmallSlice) -> None:
    name = cdc_file(
        piece,
        [
            ("op", NULLABLE),
            ("ts_ms", NULLABLE),
            ("before", ["null", IMAGE]),
            ("after", ["null", "t"]),
        ],
        [{"op": op, "ts_ms": AT, "before": before, "after": after} for op, before, after in WANTED],
    )
    task = ChangeTask(kind=ChangeKind.LOGGED, instant_time=AT, cdc_paths=(name,))
    assert changes(piece, task) == WANTED


@pytest.mark.parametrize("keep", [slice(-1), slice(40), slice(0)], ids=["tail", "block", "all"])
def test_a_change_log_that_lost_bytes_is_refused(piece: SmallSlice, keep: slice) -> None:
    name = cdc_file(
        piece,
        [("op", NULLABLE), ("ts_ms", NULLABLE), ("after", ["null", IMAGE])],
        [{"op": "i", "ts_ms": AT, "after": WANTED[0][2]}],
    )
    path = piece.folder / name
    whole = path.read_bytes()
    path.write_bytes(whole[keep])
    known = ChangeTask(
        kind=ChangeKind.LOGGED, instant_time=AT, cdc_paths=(name,), cdc_bytes=(len(whole),)
    )
    with pytest.raises(CorruptFileError, match=f"its commit wrote {len(whole)}"):
        changes(piece, known)


def test_a_change_log_whose_block_reaches_beyond_it_is_refused(piece: SmallSlice) -> None:
    name = cdc_file(
        piece,
        [("op", NULLABLE), ("ts_ms", NULLABLE), ("after", ["null", IMAGE])],
        [{"op": "i", "ts_ms": AT, "after": WANTED[0][2]}],
    )
    path = piece.folder / name
    whole = path.read_bytes()
    path.write_bytes(whole[:6] + (1 << 40).to_bytes(8, "big") + whole[14:])
    task = ChangeTask(
        kind=ChangeKind.LOGGED, instant_time=AT, cdc_paths=(name,), cdc_bytes=(len(whole),)
    )
    with pytest.raises(CorruptFileError, match="no block stands at offset 0"):
        changes(piece, task)


def test_the_image_after_is_looked_up_when_only_the_one_before_is_logged(piece: SmallSlice) -> None:
    before, after = two_versions(piece, NEW)
    name = cdc_file(
        piece,
        [("op", NULLABLE), ("record_key", NULLABLE), ("before", ["null", IMAGE])],
        [
            {"op": op, "record_key": (old or new or {})["id"], "before": old}
            for op, old, new in WANTED
        ],
    )
    task = ChangeTask(
        kind=ChangeKind.LOGGED, instant_time=AT, cdc_paths=(name,), before=before, after=after
    )
    assert changes(piece, task) == WANTED


def test_both_images_are_looked_up_when_only_keys_are_logged(piece: SmallSlice) -> None:
    before, after = two_versions(piece, NEW)
    name = cdc_file(
        piece,
        [("op", ["string", "null"]), ("record_key", ["string", "null"])],
        [{"op": op, "record_key": (old or new or {})["id"]} for op, old, new in WANTED],
    )
    task = ChangeTask(
        kind=ChangeKind.LOGGED, instant_time=AT, cdc_paths=(name,), before=before, after=after
    )
    assert changes(piece, task) == WANTED


def test_changes_of_an_appended_log_follow_from_the_rows_before_it(piece: SmallSlice) -> None:
    piece.base([row("a", 1, "old"), row("b", 9, "old"), row("c", 1, "old")])
    piece.log([row("a", 2, "mid")])
    before = piece.task()
    log = piece.log([row("a", 3, "new"), row("b", 2, "stale"), row("z", 1, "new")])
    task = ChangeTask(
        kind=ChangeKind.APPENDED,
        instant_time=instant(2),
        before=before,
        after=piece.task(base_path=None, log_paths=(log,)),
    )
    assert changes(piece, task) == [
        ("i", None, row("z", 1, "new")),
        ("u", row("a", 2, "mid"), row("a", 3, "new")),
    ]


def test_a_delete_of_a_key_that_was_not_there_is_no_change(piece: SmallSlice) -> None:
    piece.base([row("a", 1)])
    before = piece.task()
    log = piece.deletes(["a", "unknown"])
    task = ChangeTask(
        kind=ChangeKind.APPENDED,
        instant_time=instant(1),
        before=before,
        after=piece.task(base_path=None, log_paths=(log,)),
    )
    assert changes(piece, task) == [("d", row("a", 1), None)]


def test_a_log_without_rows_before_it_inserts(piece: SmallSlice) -> None:
    log = piece.log([row("a", 1)])
    after = piece.task(log_paths=(log,))
    task = ChangeTask(kind=ChangeKind.APPENDED, instant_time=instant(1), after=after)
    assert changes(piece, task) == [("i", None, row("a", 1))]


def test_a_change_log_with_other_columns_is_damage(piece: SmallSlice) -> None:
    name = cdc_file(piece, [("nothing", NULLABLE)], [{"nothing": "x"}])
    task = ChangeTask(kind=ChangeKind.LOGGED, instant_time=AT, cdc_paths=(name,))
    with pytest.raises(CorruptFileError, match="other columns"):
        changes(piece, task)


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_logged_key_without_its_row_is_damage(piece: SmallSlice, side: str) -> None:
    before, after = two_versions(piece, NEW)
    name = cdc_file(
        piece,
        [("op", ["string", "null"]), ("record_key", ["string", "null"])],
        [{"op": op, "record_key": (old or new or {})["id"]} for op, old, new in WANTED],
    )
    task = ChangeTask(
        kind=ChangeKind.LOGGED,
        instant_time=AT,
        cdc_paths=(name,),
        before=before if side == "after" else None,
        after=after if side == "before" else None,
    )
    with pytest.raises(CorruptFileError, match=f"whose row {side} the write is in no file"):
        changes(piece, task)
