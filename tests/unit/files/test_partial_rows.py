"""Rows that bring some of the table's columns, in logs and in base files."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest

from tests.unit.files.written_table import EVENT, FIELDS, WrittenTable, nullable, row
from tidelake.files.log_records import raw_records
from tidelake.files.write_task import (
    COLUMNS,
    Change,
    ColumnSet,
    LogFormat,
    LogSettings,
    WriteKind,
)
from tidelake.formats.log_block import BlockKind, LogBlock, decode_blocks
from tidelake.records import MergeSpec

WIDE = [*FIELDS, nullable("fare", "double"), nullable("note", "string")]
#: Note alone, fare alone, and the columns of a stream that may bring new keys.
SETS = (
    ColumnSet(names=("ts", "note"), is_known=True),
    ColumnSet(names=("ts", "fare"), is_known=True),
    ColumnSet(names=("id", "city", "ts", "fare")),
)
NOTE, FARE, STREAM = range(3)
COMMIT = MergeSpec()


def wide(key: str, ts: int = 1, fare: float | None = 1.0, note: str | None = "old") -> Any:
    return row(key, ts, fare=fare, note=note)


def noted(key: str, note: str | None, ts: int = 2) -> Any:
    return {"id": key, "ts": ts, "note": note, "fare": None, COLUMNS: NOTE}


def fared(key: str, fare: float | None, ts: int = 2) -> Any:
    return {"id": key, "ts": ts, "note": None, "fare": fare, COLUMNS: FARE}


def streamed(key: str, fare: float | None, ts: int = 2) -> Any:
    return {"id": key, "city": "oslo", "ts": ts, "note": None, "fare": fare, COLUMNS: STREAM}


def table_of(root: Path, kind: WriteKind, merge: MergeSpec = EVENT, **more: Any) -> WrittenTable:
    is_log = kind is WriteKind.APPEND
    table = WrittenTable(
        root, mor=is_log, merge=merge, fields=WIDE, column_sets=SETS, combine=True, **more
    )
    table.write([wide(key) for key in "abc"])
    return table


def update(table: WrittenTable, rows: list[Any], kind: WriteKind) -> None:
    table.write(rows, kind, change=Change.UPDATE)


def values(table: WrittenTable) -> dict[str, Any]:
    return {r["id"]: (r["ts"], r["text"], r["fare"], r["note"]) for r in table.ours()}


def data_blocks(table: WrittenTable) -> list[LogBlock]:
    paths = sorted(path for path in table.files() if ".log." in path)
    found = [block for path in paths for block in decode_blocks(table.storage.read(path))]
    return [b for b in found if b.kind in (BlockKind.AVRO_DATA, BlockKind.PARQUET_DATA)]


WAYS = [WriteKind.APPEND, WriteKind.MERGE]


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("merge", [EVENT, COMMIT], ids=["event", "commit"])
def test_columns_that_a_row_does_not_bring_keep_their_values(
    tmp_path: Path, kind: WriteKind, merge: MergeSpec
) -> None:
    table = table_of(tmp_path, kind, merge)
    update(table, [noted("a", "new"), fared("b", 9.0)], kind)
    assert values(table) == {
        "a": (2, "x", 1.0, "new"),
        "b": (2, "x", 9.0, "old"),
        "c": (1, "x", 1.0, "old"),
    }
    update(table, [fared("a", 5.0, 3)], kind)
    assert values(table)["a"] == (3, "x", 5.0, "new")


@pytest.mark.parametrize("kind", WAYS)
def test_a_null_that_is_brought_is_not_a_column_that_is_left_out(
    tmp_path: Path, kind: WriteKind
) -> None:
    table = table_of(tmp_path, kind)
    update(table, [noted("a", None), fared("b", None)], kind)
    assert values(table)["a"] == (2, "x", 1.0, None)
    assert values(table)["b"] == (2, "x", None, "old")


@pytest.mark.parametrize("kind", WAYS)
def test_an_older_partial_row_leaves_every_column_as_it_is(tmp_path: Path, kind: WriteKind) -> None:
    table = table_of(tmp_path, kind)
    update(table, [noted("a", "late", 0)], kind)
    assert values(table)["a"] == (1, "x", 1.0, "old")


@pytest.mark.parametrize("kind", WAYS)
def test_partial_rows_of_one_key_in_one_write_add_up(tmp_path: Path, kind: WriteKind) -> None:
    table = table_of(tmp_path, kind)
    update(
        table, [noted("a", "new"), fared("a", 7.0, 3), wide("b", 4), noted("b", "last", 5)], kind
    )
    assert values(table)["a"] == (3, "x", 7.0, "new")
    assert values(table)["b"] == (5, "x", 1.0, "last")


@pytest.mark.parametrize("kind", [*WAYS, WriteKind.CREATE])
def test_a_partial_row_of_a_new_key_is_null_elsewhere(tmp_path: Path, kind: WriteKind) -> None:
    table = table_of(tmp_path, WriteKind.APPEND if kind is WriteKind.APPEND else WriteKind.MERGE)
    if kind is WriteKind.CREATE:
        table.write([streamed("n", 3.0)], kind, file_id="22222222-2222-4333-8444-555555555555-0")
    else:
        table.write([streamed("n", 3.0)], kind)
    assert values(table)["n"] == (2, None, 3.0, None)
    (found,) = (r for r in table.ours(meta=True) if r["id"] == "n")
    assert found["_hoodie_partition_path"] == "city=oslo"
    assert found["_hoodie_file_name"]


@pytest.mark.parametrize("form", LogFormat)
def test_a_block_has_the_columns_that_its_rows_bring(tmp_path: Path, form: LogFormat) -> None:
    table = table_of(tmp_path, WriteKind.APPEND, log=LogSettings(format=form))
    update(
        table,
        [noted("a", "n"), wide("c", 2), fared("b", 2.0), streamed("d", 1.0)],
        WriteKind.APPEND,
    )
    found = {
        (b.is_partial, tuple(raw_records(b).column_names)): raw_records(b).num_rows
        for b in data_blocks(table)
    }
    meta = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key")
    place = ("_hoodie_partition_path", "_hoodie_file_name")
    known = (meta[0], meta[2])
    assert found == {
        (False, (*meta, *place, "id", "ts", "text", "city", "fare", "note")): 1,
        (True, (*known, "ts", "note")): 1,
        (True, (*known, "ts", "fare")): 1,
        (True, (*known, "id", "ts", "city", "fare")): 1,
    }
    assert values(table)["a"] == (2, "x", 1.0, "n")


def test_a_partial_row_of_a_new_key_can_be_logged_whole(tmp_path: Path) -> None:
    table = table_of(tmp_path, WriteKind.APPEND, completes_new=True)
    table.write([{"id": "c"}], WriteKind.APPEND, change=Change.DELETE)
    before = len(data_blocks(table))
    rows = [streamed("a", 4.0), streamed("n", 3.0), streamed("c", 5.0), noted("b", "new")]
    (stat,) = table.write(rows, WriteKind.APPEND, change=Change.UPDATE)
    assert (stat.num_inserts, stat.num_update_writes) == (2, 2)
    found = {b.is_partial: raw_records(b).num_rows for b in data_blocks(table)[before:]}
    assert found[False] == 2
    assert values(table) == {
        "a": (2, "x", 4.0, "old"),
        "b": (2, "x", 1.0, "new"),
        "c": (2, None, 5.0, None),
        "n": (2, None, 3.0, None),
    }
    assert table.ours() == table.theirs()


def test_a_partial_row_of_a_known_key_stays_where_it_is(tmp_path: Path) -> None:
    table = table_of(tmp_path, WriteKind.APPEND)
    update(table, [noted("a", "new")], WriteKind.APPEND)
    (found,) = (r for r in table.ours(meta=True) if r["id"] == "a")
    (same,) = (r for r in table.ours(meta=True) if r["id"] == "b")
    assert found["_hoodie_commit_time"] == "20261115200002000"
    assert found["_hoodie_file_name"] == same["_hoodie_file_name"]
    assert found["_hoodie_partition_path"] == "city=oslo"


def test_a_delete_after_a_partial_row_takes_the_row_away(tmp_path: Path) -> None:
    table = table_of(tmp_path, WriteKind.APPEND)
    update(table, [noted("a", "new")], WriteKind.APPEND)
    table.write([{"id": "a"}], WriteKind.APPEND, change=Change.DELETE)
    assert set(values(table)) == {"b", "c"}


def test_no_partial_block_is_written_to_version_6(tmp_path: Path) -> None:
    table = table_of(tmp_path, WriteKind.APPEND, version=6)
    with pytest.raises(ValueError, match="version 6 takes no partial rows"):
        update(table, [noted("a", "new")], WriteKind.APPEND)


ORDER = [
    nullable("id", "string"),
    nullable("region", "string"),
    nullable("ts", "long"),
    nullable("amount", "double"),
    nullable("price", "double"),
    nullable("quantity", "int"),
    nullable("day", {"type": "int", "logicalType": "date"}),
    nullable("created", {"type": "long", "logicalType": "timestamp-micros"}),
    nullable("city", "string"),
    nullable("note", "string"),
    nullable("_hoodie_is_deleted", "boolean"),
]


def order(number: int) -> Any:
    return {
        "id": f"{sha1(str(number).encode()).hexdigest()}-{number}",
        "region": "euro-west",
        "ts": number,
        "amount": number / 4,
        "price": number / 8,
        "quantity": number % 100,
        "day": date(2026, 1, 1) + timedelta(days=number % 365),
        "created": datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=number),
        "city": f"city-{number % 200}",
        "note": f"note about order {number * 7 % 50_021}",
        "_hoodie_is_deleted": False,
    }


# A Parquet block hardly stores twice what stands in two columns, so its whole rows are small.
@pytest.mark.parametrize(("form", "part"), [(LogFormat.AVRO, 0.35), (LogFormat.PARQUET, 0.5)])
def test_two_of_eleven_columns_take_a_third_of_the_bytes(
    tmp_path: Path, form: LogFormat, part: float
) -> None:
    sizes = []
    for at, sets in enumerate(
        [(), (ColumnSet(names=("ts", "amount", "quantity"), is_known=True),)]
    ):
        table = WrittenTable(
            tmp_path / str(at),
            mor=True,
            fields=ORDER,
            column_sets=sets,
            log=LogSettings(format=form),
        )
        rows = [order(number) for number in range(2000)]
        table.write(rows)
        if sets:
            rows = [{**row, COLUMNS: 0} for row in rows]
        (stat,) = table.write(rows, WriteKind.APPEND, change=Change.UPDATE)
        sizes.append(stat.file_size_in_bytes or 0)
    assert sizes[1] <= part * sizes[0], sizes
