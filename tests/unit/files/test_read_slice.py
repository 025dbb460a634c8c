from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from tests.unit.files.small_slice import (
    BASE_INSTANT,
    EVENT,
    FIELDS,
    Row,
    SmallSlice,
    avro,
    instant,
    ordered,
    row,
)
from tests.unit.formats.test_hfile import assemble, block, cell, plain_index
from tidelake.errors import CorruptFileError, MissingFileError, SchemaError, UnsupportedTableError
from tidelake.files import BlockFilter, decide_slice, read_base, read_slice
from tidelake.files.base_file import BaseFile
from tidelake.formats.delete_block import OrderingKind
from tidelake.formats.log_block import BlockKind, HeaderKey
from tidelake.records import META_COLUMNS, KeyRule, MergeSpec

COMMIT = MergeSpec()


@pytest.fixture
def piece(tmp_path: Path) -> SmallSlice:
    return SmallSlice(tmp_path)


def test_a_base_file_alone(piece: SmallSlice) -> None:
    piece.base([row("a"), row("b")])
    assert ordered(read_slice(piece.task(), piece.spec())) == [row("a"), row("b")]


def test_updates_inserts_and_deletes_of_logs(piece: SmallSlice) -> None:
    piece.base([row("a", 1, "old"), row("b", 1, "old"), row("c", 1, "old")])
    piece.log([row("a", 2, "new"), row("d", 2, "new")])
    piece.deletes(["b"])
    assert piece.read() == [row("a", 2, "new"), row("c", 1, "old"), row("d", 2, "new")]


def test_a_base_row_that_beats_its_log_record_is_left_to_the_base_file(piece: SmallSlice) -> None:
    piece.base([row("a", 9, "old"), row("b", 1, "old")])
    piece.log([row("a", 2, "stale"), row("b", 2, "new")])
    decided = decide_slice(piece.task(), piece.spec())
    assert decided.rows.to_pylist() == [row("b", 2, "new")]
    assert decided.mask.tolist() == [0b10]
    assert decided.base_rows == 2


def test_a_slice_without_base_file(piece: SmallSlice) -> None:
    piece.log([row("a", 1, "1"), row("b", 1, "1")])
    piece.log([row("a", 2, "2")])
    piece.deletes(["b"])
    assert piece.read() == [row("a", 2, "2")]


def test_mask_and_rows_agree_over_many_words(piece: SmallSlice) -> None:
    piece.base([row(f"k{i:03}", 1, "old") for i in range(200)])
    piece.log([row(f"k{i:03}", 2, "new") for i in range(0, 200, 7)])
    piece.deletes([f"k{i:03}" for i in range(3, 200, 50)])
    assert len(piece.read()) == 196


def test_a_delete_with_an_ordering_value_respects_newer_rows(piece: SmallSlice) -> None:
    piece.base([row("a", 9), row("b", 1)])
    piece.deletes(["a", "b"], ordering=5, kind=OrderingKind.LONG)
    assert piece.read() == [row("a", 9)]


def test_a_delete_whose_ordering_value_is_of_a_narrower_type_still_compares(
    piece: SmallSlice,
) -> None:
    piece.base([row("a", 9), row("b", 1)])
    piece.deletes(["a", "b"], ordering=5, kind=OrderingKind.INT)
    assert piece.read() == [row("a", 9)]


def test_a_delete_whose_ordering_value_cannot_compare_wins(piece: SmallSlice) -> None:
    piece.base([row("a", 9)])
    piece.deletes(["a"], ordering="text", kind=OrderingKind.STRING)
    assert piece.read() == []


def test_several_ordering_fields_in_rows_and_deletes(piece: SmallSlice) -> None:
    merge = replace(EVENT, ordering_fields=("ts", "w"))
    piece.base([row("a", 1, "old", "m"), row("b", 1, "old", "m")])
    piece.log([row("a", 1, "new", "z")])
    pair = ((OrderingKind.LONG, 1), (OrderingKind.STRING, "c"))
    piece.deletes(["b"], ordering=pair, kind=OrderingKind.ARRAY)
    assert piece.read(merge=merge) == [row("a", 1, "new", "z"), row("b", 1, "old", "m")]


def test_an_ordering_field_that_the_table_lacks_leaves_it_to_arrival(piece: SmallSlice) -> None:
    piece.base([row("a", 9, "old")])
    piece.log([row("a", 1, "new")])
    assert piece.read(merge=replace(EVENT, ordering_fields=("nope",))) == [row("a", 1, "new")]


def test_columns_are_returned_in_the_order_asked_for(piece: SmallSlice) -> None:
    piece.base([row("a", 1, "old")])
    piece.log([row("a", 2, "new")])
    spec = piece.spec(columns=("v", "_hoodie_commit_time"))
    batches = list(read_slice(piece.task(), spec))
    assert [b.schema.names for b in batches] == [["v", "_hoodie_commit_time"]]
    assert batches[0].to_pylist() == [{"v": "new", "_hoodie_commit_time": instant(1)}]


def test_rows_last_changed_by_some_instants(piece: SmallSlice) -> None:
    piece.base([row("a", 1), row("b", 1), row("c", 1)])
    piece.log([row("a", 2)])
    piece.log([row("b", 2)])
    assert piece.read(keep_instants=frozenset({instant(1)})) == [row("a", 2)]
    assert piece.read(keep_instants=frozenset({BASE_INSTANT})) == [row("c", 1)]


@pytest.mark.parametrize("spelling", ["{}", "id:{}", "z{}"])
def test_rows_are_merged_by_record_key_however_it_spells_the_key_field(
    piece: SmallSlice, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    plain = SmallSlice._meta

    def spelled(self: SmallSlice, name: str, given: Row, at: str) -> str | None:
        if name == "_hoodie_record_key":
            return spelling.format(given["id"])
        return plain(self, name, given, at)

    monkeypatch.setattr(SmallSlice, "_meta", spelled)
    piece.base([row("a", 1), row("b", 1), row("za", 1)])
    piece.log([row("a", 2, "new")])
    piece.deletes([spelling.format("b")])
    assert piece.read() == [row("a", 2, "new"), row("za", 1)]


def test_the_record_key_is_not_read_beside_the_column_that_holds_it(
    piece: SmallSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece.base([row("a", 1), row("b", 1)])
    piece.log([row("a", 2, "new")])
    asked: list[str] = []
    plain = BaseFile.batches

    def noting(self: BaseFile, schema: pa.Schema) -> Iterator[pa.Table]:
        asked.extend(schema.names)
        return plain(self, schema)

    monkeypatch.setattr(BaseFile, "batches", noting)
    assert ordered(read_slice(piece.task(), piece.spec())) == [row("a", 2, "new"), row("b", 1)]
    assert asked == ["id", "ts", "v", "w"]


def test_a_window_leaves_out_what_a_base_row_outranks(piece: SmallSlice) -> None:
    piece.base([row("a", 9), row("b", 1)])
    piece.log([row("a", 2, "outside"), row("c", 7, "outside")])
    piece.log([row("a", 3, "lost"), row("b", 3, "won"), row("c", 3, "lost"), row("d", 3, "fresh")])
    piece.deletes(["d"], ordering=1, kind=OrderingKind.LONG)
    window = frozenset({instant(2), instant(3)})
    assert piece.read(keep_instants=window) == [row("b", 3, "won"), row("d", 3, "fresh")]


def test_a_window_does_not_read_base_rows_that_cannot_outrank_its_records(
    piece: SmallSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece.base([row("a", 2), row("b", 1)])
    piece.log([row("a", 3, "won"), row("c", 4, "fresh")])

    def refuse(*_: object) -> None:
        raise AssertionError("the rows of the base file were read")

    monkeypatch.setattr(BaseFile, "batches", refuse)
    task, spec = piece.task(), piece.spec(keep_instants=frozenset({instant(1)}))
    assert ordered(read_slice(task, spec)) == [row("a", 3, "won"), row("c", 4, "fresh")]


@pytest.mark.parametrize("ts", [None, 0])
def test_a_base_row_without_ordering_value_counts_as_zero_in_a_window(
    piece: SmallSlice, ts: int | None
) -> None:
    piece.base([row("a", ts), row("b", -9)])
    piece.log([row("a", -1, "lost"), row("b", -1, "won")])
    assert piece.read(keep_instants=frozenset({instant(1)})) == [row("b", -1, "won")]


def test_blocks_outside_of_the_query_are_skipped(piece: SmallSlice) -> None:
    piece.base([row("a", 1, "old")])
    for number in (1, 2, 3):
        piece.log([row("a", 1 + number, f"v{number}")])

    def value(**settings: Any) -> object:
        return piece.read(blocks=BlockFilter(**settings))[0]["v"]

    assert value() == "v3"
    assert value(latest_instant=instant(2)) == "v2"
    assert value(committed=frozenset({instant(1)})) == "v1"
    assert value(committed=frozenset(), archived_before=instant(3)) == "v2"
    assert value(only=frozenset({instant(1)})) == "v1"
    assert value(latest_instant=BASE_INSTANT[:-1]) == "old"


def test_a_partial_block_keeps_the_other_columns(piece: SmallSlice) -> None:
    piece.base([row("a", 1, "old", "kept"), row("b", 1, "old", "kept")])
    partial: dict[int, str] = {HeaderKey.IS_PARTIAL: "true"}
    piece.log(
        [{"id": "a", "ts": 2, "v": "new"}, {"id": "z", "ts": 2, "v": "new"}],
        fields=FIELDS[:3],
        headers=partial,
    )
    piece.log(
        [{"id": "b", "ts": 2, "w": None}], fields=[FIELDS[0], FIELDS[1], FIELDS[3]], headers=partial
    )
    assert piece.read() == [
        row("a", 2, "new", "kept"),
        row("b", 2, "old", None),
        row("z", 2, "new", None),
    ]


def test_record_positions_replace_the_keys_of_the_base_file(piece: SmallSlice) -> None:
    piece.base([row("a", 1, "old"), row("b", 9, "old"), row("c", 1, "old")])
    piece.log([row("a", 2, "new"), row("b", 2, "stale")], headers=piece.positions(0, 1))
    piece.deletes(["c"], headers=piece.positions(2))
    wanted = [row("a", 2, "new"), row("b", 9, "old")]
    assert piece.read() == wanted
    assert piece.read(merge=replace(EVENT, use_positions=False)) == wanted


def test_positions_of_another_base_file_are_ignored(piece: SmallSlice) -> None:
    piece.base([row("a", 1, "old"), row("b", 1, "old")])
    headers = piece.positions(1)
    headers[HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS] = "20250101000000000"
    piece.log([row("a", 2, "new")], headers=headers)
    assert piece.read() == [row("a", 2, "new"), row("b", 1, "old")]


@pytest.mark.parametrize("positions", [(0,), (0, 99)])
def test_positions_that_cannot_be_are_damage(piece: SmallSlice, positions: tuple[int, ...]) -> None:
    piece.base([row("a"), row("b")])
    log = piece.log([row("a", 2), row("b", 2)], headers=piece.positions(*positions))
    with pytest.raises(CorruptFileError, match="position") as caught:
        decide_slice(piece.task(), piece.spec())
    assert caught.value.path == log


def test_logs_larger_than_the_budget_are_merged_in_shares(piece: SmallSlice) -> None:
    piece.base([row(f"k{i:03}", 1, "old") for i in range(100)])
    piece.log([row(f"k{i:03}", 2, "new") for i in range(50, 150)])
    piece.deletes([f"k{i:03}" for i in range(10)])
    whole = piece.read()
    assert piece.task().log_size_bytes > 1000
    assert ordered(read_slice(piece.task(), piece.spec(log_budget_bytes=1000))) == whole
    assert len(whole) == 140


def test_of_rows_with_one_key_the_first_meets_the_log(piece: SmallSlice) -> None:
    piece.base([row("a", 1, "first"), row("a", 1, "second")])
    piece.log([row("a", 2, "new")])
    assert piece.read() == [row("a", 1, "second"), row("a", 2, "new")]


def test_parquet_log_blocks(piece: SmallSlice) -> None:
    piece.base([row("a", 1, "old")])
    piece.parquet_log([row("a", 2, "new", "w"), row("b", 2, "new", "w")])
    assert piece.read() == [row("a", 2, "new", "w"), row("b", 2, "new", "w")]


def test_hfile_log_blocks_give_the_key_to_records_that_leave_it_out(piece: SmallSlice) -> None:
    piece.base([row("a", 1, "old"), row("b", 1, "old")])
    schema = avro((*FIELDS,), meta=True)
    datum = io.BytesIO()
    record = {**dict.fromkeys(META_COLUMNS), **row("a", 2, "new")}
    fastavro.schemaless_writer(datum, fastavro.parse_schema(json.loads(schema)), record)
    data = block(b"DATABLK*", cell(b"a", datum.getvalue()))
    content = assemble(data, plain_index(data))
    piece.block(BlockKind.HFILE_DATA, content, {HeaderKey.SCHEMA: schema})
    assert piece.read() == [row("a", 2, "new"), row("b", 1, "old")]


def test_orc_base_files(piece: SmallSlice) -> None:
    piece.base([row("a", 1, "old"), row("b", 1, "old")])
    assert piece.base_name is not None
    name = piece.base_name.replace(".parquet", ".orc")
    orc.write_table(pq.read_table(piece.folder / piece.base_name), piece.folder / name)
    piece.base_name = name
    piece.log([row("a", 2, "new")])
    assert piece.read() == [row("a", 2, "new"), row("b", 1, "old")]


def test_rows_that_say_they_are_deletes(tmp_path: Path) -> None:
    fields = (*FIELDS, ("_hoodie_is_deleted", ["null", "boolean"]), ("op", ["null", "string"]))
    piece = SmallSlice(tmp_path, fields=fields)
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("op", pa.string())])
    piece.base([row(key, 1) for key in "abc"], schema)
    piece.log(
        [
            {**row("a", 2), "_hoodie_is_deleted": True, "op": None},
            {**row("b", 2), "_hoodie_is_deleted": None, "op": "D"},
        ]
    )
    marked = replace(EVENT, delete_field="op", delete_marker="D")
    assert [r["id"] for r in piece.read(merge=marked)] == ["c"]
    any_case = replace(marked, delete_marker="d", delete_marker_any_case=True)
    assert [r["id"] for r in piece.read(merge=any_case)] == ["c"]
    assert sorted(r["id"] for r in piece.read()) == ["b", "c"]


def test_the_operation_column_marks_deletes(tmp_path: Path) -> None:
    piece = SmallSlice(tmp_path, fields=(*FIELDS, ("_hoodie_operation", ["null", "string"])))
    piece.base([row(key, 1) for key in "abc"])
    piece.log(
        [
            {**row(k, 2), "_hoodie_operation": op}
            for k, op in zip("abc", ("D", "-U", "U"), strict=True)
        ]
    )
    assert [(r["id"], r["ts"]) for r in piece.read()] == [("c", 2)]


def test_a_table_without_meta_columns_goes_by_its_key_fields(tmp_path: Path) -> None:
    piece = SmallSlice(tmp_path, meta=False)
    piece.base([row("a", 1, "old"), row("b", 1, "old")])
    piece.log([row("a", 2, "new")])
    piece.deletes(["id:b"])
    rule = KeyRule(fields=("id",), named_single=True)
    assert piece.read(keys=rule) == [row("a", 2, "new")]


def test_older_files_are_brought_to_the_schema_of_the_table(tmp_path: Path) -> None:
    piece = SmallSlice(tmp_path)
    piece.base([row("a", 1), row("b", 1)], pa.schema([("id", pa.string()), ("ts", pa.int32())]))
    piece.log([{"id": "a", "ts": 2}], fields=[("id", "string"), ("ts", "int")])
    assert piece.read() == [row("a", 2), row("b", 1)]


def test_partition_columns_left_out_of_files_come_from_the_task(piece: SmallSlice) -> None:
    piece.base([row("a", 1)], pa.schema([("id", pa.string()), ("ts", pa.int64())]))
    task = piece.task(partition_values=(("w", "eu"),))
    assert ordered(read_slice(task, piece.spec())) == [row("a", 1, None, "eu")]


def test_partition_columns_left_out_of_logs_come_from_the_task(piece: SmallSlice) -> None:
    fields = [("id", "string"), ("ts", "long")]
    piece.base([row("a", 1)], pa.schema([("id", pa.string()), ("ts", pa.int64())]))
    piece.log([{"id": "a", "ts": 2}, {"id": "b", "ts": 2}], fields=fields)
    task = piece.task(partition_values=(("w", "eu"),))
    wanted = [row("a", 2, None, "eu"), row("b", 2, None, "eu")]
    assert ordered(read_slice(task, piece.spec())) == wanted
    decided = decide_slice(task, piece.spec())
    assert ordered(decided.rows.to_batches()) == wanted


def test_no_columns_at_all_still_counts_rows(piece: SmallSlice) -> None:
    piece.base([row("a"), row("b")])
    assert sum(b.num_rows for b in read_base(piece.task(), piece.spec(columns=("id",)))) == 2


def test_a_missing_file_is_named(piece: SmallSlice) -> None:
    piece.base([row("a")])
    piece.log([row("a", 2)])
    with pytest.raises(MissingFileError, match="gone"):
        list(read_slice(piece.task(base_path="gone.parquet"), piece.spec()))
    with pytest.raises(MissingFileError, match="gone"):
        list(read_slice(piece.task(log_paths=(".gone.log.1_0-1-1",)), piece.spec()))


def test_a_base_file_cut_short_is_damaged(piece: SmallSlice) -> None:
    piece.base([row(f"k{i}") for i in range(100)])
    assert piece.base_name is not None
    path = piece.folder / piece.base_name
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CorruptFileError, match=BASE_INSTANT):
        list(read_slice(piece.task(), piece.spec()))


def test_a_base_file_without_keys_cannot_meet_logs(piece: SmallSlice) -> None:
    piece.base([row("a")])
    assert piece.base_name is not None
    path = piece.folder / piece.base_name
    pq.write_table(pq.read_table(path).drop_columns("_hoodie_record_key"), path)
    piece.log([row("a", 2)])
    for read in (lambda t, s: list(read_slice(t, s)), decide_slice):
        with pytest.raises(CorruptFileError, match="no column _hoodie_record_key"):
            read(piece.task(), piece.spec())


def test_a_log_cut_short_loses_its_last_block_only(piece: SmallSlice) -> None:
    piece.base([row("a", 1, "old")])
    piece.log([row("a", 2, "new")])
    last = piece.folder / piece.log([row("a", 3, "lost")])
    last.write_bytes(last.read_bytes()[:-20])
    assert piece.read() == [row("a", 2, "new")]


def test_a_log_shorter_than_its_commit_wrote_is_spoken_of(
    piece: SmallSlice, caplog: pytest.LogCaptureFixture
) -> None:
    piece.base([row("a", 1, "old")])
    log = piece.folder / piece.log([row("a", 2, "new")])
    size = log.stat().st_size
    list(read_slice(piece.task(committed_log_bytes=(size,)), piece.spec()))
    assert not caplog.records
    log.write_bytes(log.read_bytes()[:-20])
    list(read_slice(piece.task(committed_log_bytes=(size,)), piece.spec()))
    assert "may be missing" in caplog.text


@pytest.mark.parametrize("size", range(6))
def test_a_log_too_short_for_any_block_holds_none(piece: SmallSlice, size: int) -> None:
    piece.base([row("a", 1, "old")])
    piece.log([row("a", 2, "new")])
    last = piece.folder / piece.log([row("a", 3, "lost")])
    last.write_bytes(b"#HUDI#"[:size])
    assert piece.read() == [row("a", 2, "new")]


def test_damage_inside_a_log_block_names_the_file(piece: SmallSlice) -> None:
    piece.base([row("a")])
    name = piece.block(BlockKind.AVRO_DATA, b"\0\0\0\3\0\0\0\1\0\0\0\1\7", {HeaderKey.SCHEMA: "{}"})
    with pytest.raises(CorruptFileError) as caught:
        list(read_slice(piece.task(), piece.spec()))
    assert caught.value.path == name


def test_a_record_without_key_is_damage(piece: SmallSlice) -> None:
    piece.base([row("a")])
    piece.log([{"id": None, "ts": 1, "v": None, "w": None}])
    with pytest.raises(CorruptFileError, match="no record key"):
        list(read_slice(piece.task(), piece.spec()))


def test_an_unknown_column_is_refused(piece: SmallSlice) -> None:
    piece.base([row("a")])
    with pytest.raises(SchemaError, match="no column nope"):
        list(read_slice(piece.task(), piece.spec(columns=("nope",))))


def test_a_base_file_of_another_format_is_refused(piece: SmallSlice) -> None:
    with pytest.raises(UnsupportedTableError, match="lance"):
        list(read_slice(piece.task(base_path="f-0_0-1-1_1.lance"), piece.spec()))
