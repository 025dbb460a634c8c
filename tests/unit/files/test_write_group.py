from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.unit.files.written_table import (
    EVENT,
    FIELDS,
    GROUP,
    PARTITION,
    TOKEN,
    WrittenTable,
    nullable,
    row,
)
from tidelake.config import CdcMode
from tidelake.errors import ConfigError, InstantLostError, SchemaError
from tidelake.files import SliceTask, read_footer
from tidelake.files.base_file import BaseFile
from tidelake.files.incoming import read_spec
from tidelake.files.write_group import write_group
from tidelake.files.write_task import (
    BloomSettings,
    Change,
    LogFormat,
    LogSettings,
    ParquetSettings,
    WriteKind,
)
from tidelake.formats.bloom_filter import BloomKind
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.log_block import BlockKind, decode_blocks
from tidelake.formats.marker_name import heartbeat_path
from tidelake.formats.parquet_footer import ParquetFooter
from tidelake.model import MergeMode
from tidelake.records import Fill, MergeSpec

COMMIT = MergeSpec()
VERSIONS = (6, 8, 9)
CHANGES = [
    (row("b", 2, "new"), Change.UPDATE),
    (row("c", 0, "stale"), Change.UPDATE),
    (row("e", 1, "inserted"), Change.INSERT),
    ({"id": "d"}, Change.DELETE),
]


def apply(table: WrittenTable, kind: WriteKind, changes: list[Any] = CHANGES) -> list[Any]:
    return table.write([r for r, _ in changes], kind, change=[c for _, c in changes])


def texts(table: WrittenTable) -> dict[str, str]:
    ours = table.ours()
    assert ours == table.theirs()
    return {r["id"]: r["text"] for r in ours}


def footer_of(table: WrittenTable, stat: WriteStat) -> ParquetFooter:
    return read_footer(table.storage, stat.path or "", stat.file_size_in_bytes or 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_merge_is_read_by_us_and_by_hudi_rs(tmp_path: Path, version: int) -> None:
    table = WrittenTable(tmp_path, version=version)
    table.write([row(key, text="old") for key in "abcd"])
    (stat,) = apply(table, WriteKind.MERGE)
    assert texts(table) == {"a": "old", "b": "new", "c": "old", "e": "inserted"}
    assert (stat.num_writes, stat.num_inserts, stat.num_update_writes, stat.num_deletes) == (
        4,
        1,
        1,
        1,
    )


@pytest.mark.parametrize("form", LogFormat)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_append_is_read_by_us_and_by_hudi_rs(
    tmp_path: Path, version: int, form: LogFormat
) -> None:
    table = WrittenTable(tmp_path, version=version, mor=True, log=LogSettings(format=form))
    table.write([row(key, text="old") for key in "abcd"])
    (stat,) = apply(table, WriteKind.APPEND)
    assert texts(table) == {"a": "old", "b": "new", "c": "old", "e": "inserted"}
    assert (stat.num_writes, stat.num_inserts, stat.num_update_writes, stat.num_deletes) == (
        3,
        1,
        2,
        1,
    )
    apply(table, WriteKind.APPEND, [(row("a", 5, "newest"), Change.UPDATE)])
    assert texts(table)["a"] == "newest"


def test_untouched_rows_keep_their_instant_and_take_the_new_file_name(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path)
    table.write([row("a"), row("b"), row("c")])
    table.write([row("b", 2), row("d")], WriteKind.MERGE, change=Change.UPDATE)
    first, second = "20261115200001000", "20261115200002000"
    name = f"{GROUP}_3-7-11_{second}.parquet"
    found = table.ours(meta=True)
    assert found == table.theirs(meta=True)
    assert [
        (r["id"], r["_hoodie_commit_time"], r["_hoodie_commit_seqno"], r["_hoodie_file_name"])
        for r in found
    ] == [
        ("a", first, f"{first}_3_0", name),
        ("b", second, f"{second}_3_1", name),
        ("c", first, f"{first}_3_2", name),
        ("d", second, f"{second}_3_3", name),
    ]
    assert {r["_hoodie_partition_path"] for r in found} == {PARTITION}


def test_log_records_name_their_file_group_and_count_from_one(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, mor=True)
    table.write([row("a")])
    table.write([row("a", 2), row("b")], WriteKind.APPEND, change=Change.UPDATE)
    found = table.ours(meta=True)
    assert found == table.theirs(meta=True)
    second = "20261115200002000"
    assert [(r["_hoodie_commit_seqno"], r["_hoodie_file_name"]) for r in found] == [
        (f"{second}_3_1", GROUP),
        (f"{second}_3_2", GROUP),
    ]


def test_a_base_file_has_its_key_range_and_a_filter_over_every_key(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path)
    table.write([row(key) for key in ("m", "b", "z")])
    (stat,) = table.write([row("k"), row("m", 2)], WriteKind.MERGE)
    footer = footer_of(table, stat)
    assert footer.key_range == ("b", "z")
    bloom = footer.bloom_filter
    assert bloom is not None
    assert bloom.kind is BloomKind.DYNAMIC_V0
    assert bloom.may_contain(["b", "k", "m", "z", "y"]).tolist() == [True] * 4 + [False]
    assert footer.avro_schema is not None


def test_a_simple_filter_goes_without_its_kind(tmp_path: Path) -> None:
    settings = ParquetSettings(bloom=BloomSettings(kind=BloomKind.SIMPLE, entries=10))
    table = WrittenTable(tmp_path, parquet=settings)
    (stat,) = table.write([row("a")])
    footer = footer_of(table, stat)
    assert "hoodie_bloom_filter_type_code" not in footer.properties
    assert footer.bloom_filter is not None
    assert footer.bloom_filter.may_contain(["a"]).all()


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "lz4", "zstd"])
def test_every_codec_that_apache_reads(tmp_path: Path, codec: str) -> None:
    table = WrittenTable(tmp_path, parquet=ParquetSettings(codec=codec, bloom=None))
    (stat,) = table.write([row("a"), row("b")])
    assert texts(table) == {"a": "x", "b": "x"}
    found = pq.ParquetFile(tmp_path / (stat.path or "")).metadata.row_group(0).column(2)
    assert found.compression.lower().startswith(codec)


def test_a_codec_that_apache_cannot_read_is_refused_before_any_file(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, parquet=ParquetSettings(codec="brotli"))
    with pytest.raises(ConfigError, match="brotli"):
        table.write([row("a")])
    assert not [path for path in table.files() if path.endswith(".parquet")]


def test_a_full_file_rolls_to_a_new_file_group(tmp_path: Path) -> None:
    limit = 40_000
    table = WrittenTable(
        tmp_path, parquet=ParquetSettings(max_file_size_bytes=limit, bloom=None, codec="snappy")
    )
    rows = [row(f"{key:06}", text=f"{key * 7919:09x}") for key in range(20_000)]
    stats = table.write(rows, rolls=True)
    assert [stat.file_id for stat in stats] == [f"{GROUP[:-2]}-{at}" for at in range(len(stats))]
    sizes = [stat.file_size_in_bytes or 0 for stat in stats]
    assert len(sizes) > 3
    assert all(limit * 0.5 < size < limit * 1.6 for size in sizes[:-1]), sizes
    assert sum(stat.num_writes or 0 for stat in stats) == 20_000
    assert len(texts(table)) == 20_000


def test_without_leave_to_roll_the_file_group_stays_one(tmp_path: Path) -> None:
    settings = ParquetSettings(max_file_size_bytes=1_000, bloom=None)
    table = WrittenTable(tmp_path, parquet=settings)
    assert len(table.write([row(f"{key:06}") for key in range(5_000)])) == 1


def test_a_merge_that_deletes_every_row_leaves_an_empty_file(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path)
    table.write([row("a"), row("b")])
    gone = [({"id": "a"}, Change.DELETE), ({"id": "b"}, Change.DELETE)]
    (stat,) = apply(table, WriteKind.MERGE, gone)
    assert (stat.num_writes, stat.num_deletes) == (0, 2)
    assert texts(table) == {}
    table.write([row("a", text="again")], WriteKind.MERGE)
    assert texts(table) == {"a": "again"}


def test_rows_of_one_key_are_merged_in_the_order_in_which_they_come(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, combine=True)
    table.write([row("a", 2, "later"), row("b"), row("a", 1, "earlier"), row("b", 1, "tie")])
    assert texts(table) == {"a": "later", "b": "tie"}
    table.write([row("b", 7, "seven"), row("b", 6, "six")], WriteKind.MERGE)
    assert texts(table) == {"a": "later", "b": "seven"}


def test_an_append_writes_a_key_once_when_told_to_combine(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, mor=True, combine=True)
    table.write([row("a")])
    (stat,) = table.write([row("a", 3, "three"), row("a", 2, "two")], WriteKind.APPEND)
    assert stat.num_writes == 1
    assert texts(table) == {"a": "three"}


def test_without_combining_an_insert_keeps_rows_of_one_key(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path)
    table.write([row("a", 1, "one"), row("a", 2, "two")])
    (stat,) = table.write([row("a", 3, "three")], WriteKind.CONCAT)
    assert (stat.num_writes, stat.num_inserts) == (3, 1)
    assert [r["text"] for r in table.ours()] == ["one", "two", "three"]


def test_a_merge_reaches_every_row_of_a_key(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path)
    table.write([row("a", 1, "one"), row("a", 2, "two"), row("b")])
    (stat,) = apply(table, WriteKind.MERGE, [({"id": "a"}, Change.DELETE)])
    assert stat.num_deletes == 2
    assert texts(table) == {"b": "x"}


DELETABLE = [*FIELDS, nullable("_hoodie_is_deleted", "boolean")]


@pytest.mark.parametrize("mor", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_rows_that_say_they_are_deletes_obey_their_ordering_value(
    tmp_path: Path, version: int, mor: bool
) -> None:
    table = WrittenTable(tmp_path, version=version, mor=mor, fields=DELETABLE)
    table.write([row(key, 5, "old") for key in "abc"])
    gone: dict[str, Any] = {"_hoodie_is_deleted": True}
    kind = WriteKind.APPEND if mor else WriteKind.MERGE
    (stat,) = table.write(
        [row("a", 6, **gone), row("b", 4, **gone), row("c", 9, "new")], kind, change=Change.UPDATE
    )
    assert texts(table) == {"b": "old", "c": "new"}
    assert stat.num_deletes == (2 if mor else 1)


def test_new_rows_that_say_they_are_deletes_are_left_out(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, fields=DELETABLE)
    (stat,) = table.write([row("a"), row("b", _hoodie_is_deleted=True)])
    assert (stat.num_writes, stat.num_deletes) == (1, 1)
    assert texts(table) == {"a": "x"}


@pytest.mark.parametrize("kind", [WriteKind.CREATE, WriteKind.APPEND])
def test_no_row_makes_no_file(tmp_path: Path, kind: WriteKind) -> None:
    table = WrittenTable(tmp_path, mor=True)
    assert table.write([], kind) == []
    assert not [path for path in table.files() if GROUP in path]


@pytest.mark.parametrize("mor", [False, True])
def test_fields_that_mean_unchanged_are_filled_from_the_row_that_is_there(
    tmp_path: Path, mor: bool
) -> None:
    extra = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    merge = replace(EVENT, fill=Fill.IGNORE_DEFAULTS)
    table = WrittenTable(tmp_path, mor=mor, merge=merge, extra=extra)
    table.write([row("a", 5, "old"), row("b", 5, "old"), row("c", 5, None)])
    kind = WriteKind.APPEND if mor else WriteKind.MERGE
    table.write(
        [row("a", 6, None), row("b", 6, "new"), row("c", 4, "late")], kind, change=Change.UPDATE
    )
    found = {r["id"]: (r["ts"], r["text"]) for r in table.ours()}
    assert found == {"a": (6, "old"), "b": (6, "new"), "c": (5, "late")}
    if not mor:
        assert {r["_hoodie_commit_time"] for r in table.ours(meta=True)} == {"20261115200002000"}


def test_tables_without_meta_fields_go_by_their_key_columns(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, populate_meta_fields=False)
    table.write([row(key, text="old") for key in "abcd"])
    (stat,) = apply(table, WriteKind.MERGE)
    assert {r["id"]: r["text"] for r in table.ours()} == {
        "a": "old",
        "b": "new",
        "c": "old",
        "e": "inserted",
    }
    footer = footer_of(table, stat)
    assert footer.bloom_filter is None
    stored = pq.read_table(tmp_path / (stat.path or "")).to_pylist()
    assert {r["_hoodie_record_key"] for r in stored} == {None}
    assert {r["_hoodie_file_name"] for r in stored} == {(stat.path or "").rpartition("/")[2]}


def test_dropped_partition_columns_are_not_in_the_file(tmp_path: Path) -> None:
    extra = {"hoodie.datasource.write.drop.partition.columns": "true"}
    table = WrittenTable(tmp_path, dropped_columns=("city",), extra=extra)
    table.write([row("a")])
    (stat,) = table.write([row("b")], WriteKind.MERGE)
    assert "city" not in pq.read_schema(tmp_path / (stat.path or "")).names
    assert table.ours() == [row("a"), row("b")]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "word"),
    [(WriteKind.CREATE, "CREATE"), (WriteKind.MERGE, "MERGE"), (WriteKind.APPEND, "log")],
)
def test_every_file_has_the_marker_that_apache_wants(
    tmp_path: Path, version: int, kind: WriteKind, word: str
) -> None:
    table = WrittenTable(tmp_path, version=version, mor=kind is WriteKind.APPEND)
    instant = "20261115200001000"
    if kind is not WriteKind.CREATE:
        table.write([row("a")])
        instant = "20261115200002000"
    (stat,) = table.write([row("a", 2)], kind)
    if word == "log":
        word = "CREATE" if version >= 8 else "APPEND"
    markers = table.storage.files_below(f".hoodie/.temp/{instant}")
    assert markers == [f".hoodie/.temp/{instant}/{stat.path}.marker.{word}"]
    assert table.storage.read(markers[0]) == b""


@pytest.mark.parametrize("kind", [WriteKind.CREATE, WriteKind.MERGE, WriteKind.APPEND])
def test_a_file_of_an_ended_write_is_taken_away(tmp_path: Path, kind: WriteKind) -> None:
    table = WrittenTable(tmp_path, mor=kind is WriteKind.APPEND)
    table.write([row("a")])
    before = table.files()
    spec = table.begin()
    table.storage.delete(heartbeat_path(spec.instant_time))
    with pytest.raises(InstantLostError):
        write_group(table.batches([row("b")]), table.target(kind), TOKEN, spec)
    assert table.files() == before
    assert table.storage.files_below(spec.marker_folder) == []


def test_the_partition_is_made_once_and_keeps_its_first_instant(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path)
    table.write([row("a")])
    path = f"{PARTITION}/.hoodie_partition_metadata"
    first = table.storage.read(path)
    assert b"commitTime=20261115200001000" in first
    assert b"partitionDepth=1" in first
    table.write([row("b")], WriteKind.MERGE)
    assert table.storage.read(path) == first


@pytest.mark.parametrize("kind", WriteKind)
def test_a_row_without_a_key_is_refused(tmp_path: Path, kind: WriteKind) -> None:
    table = WrittenTable(tmp_path, mor=True)
    table.write([row("a")])
    with pytest.raises(SchemaError, match="record key"):
        table.write([{**row("a"), "id": None}], kind)


REQUIRED = [*FIELDS[:2], {"name": "text", "type": "string"}, FIELDS[3]]


@pytest.mark.parametrize("kind", WriteKind)
def test_a_null_in_a_required_column_is_refused(tmp_path: Path, kind: WriteKind) -> None:
    table = WrittenTable(tmp_path, mor=True, fields=REQUIRED)
    table.write([row("a")])
    with pytest.raises(SchemaError, match="column text holds a null"):
        table.write([row("a", 2, None)], kind)


def test_a_delete_needs_no_value_in_a_required_column(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, fields=REQUIRED)
    table.write([row("a"), row("b")])
    apply(table, WriteKind.MERGE, [({"id": "a"}, Change.DELETE)])
    assert texts(table) == {"b": "x"}


def test_version_6_logs_are_named_after_their_slice_and_count_up(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, version=6, mor=True)
    (base,) = table.write([row("a")])
    (first,) = table.write([row("a", 2)], WriteKind.APPEND, change=Change.UPDATE)
    (second,) = table.write([row("a", 3)], WriteKind.APPEND, change=Change.UPDATE)
    opened = "20261115200001000"
    # The time of the write in the token tells apart what writers at the same time would name alike.
    names = [f".{GROUP}_{opened}.log.{at}_3-20000{at + 1}000-11" for at in (1, 2)]
    assert [first.path, second.path] == [f"{PARTITION}/{name}" for name in names]
    assert (first.log_version, second.log_version) == (1, 2)
    assert second.log_files == tuple(names)
    assert second.prev_commit == opened
    assert second.base_file == (base.path or "").rpartition("/")[2]


def test_later_logs_are_named_after_their_own_instant(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, mor=True)
    table.write([row("a")])
    table.write([row("a", 2)], WriteKind.APPEND)
    (stat,) = table.write([row("a", 3)], WriteKind.APPEND)
    name = f".{GROUP}_20261115200003000.log.1_3-7-11"
    assert stat.path == f"{PARTITION}/{name}"
    assert (stat.log_files, stat.base_file, stat.prev_commit) == ((name,), "", "20261115200003000")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_group_of_logs_alone(tmp_path: Path, version: int) -> None:
    table = WrittenTable(tmp_path, version=version, mor=True)
    table.write([row("a"), row("b")], WriteKind.APPEND)
    apply(table, WriteKind.APPEND, [({"id": "b"}, Change.DELETE), (row("c"), Change.INSERT)])
    assert texts(table) == {"a": "x", "c": "x"}


def test_large_appends_are_cut_into_blocks_and_files(tmp_path: Path) -> None:
    settings = LogSettings(max_block_size_bytes=20_000, max_file_size_bytes=120_000)
    table = WrittenTable(tmp_path, mor=True, log=settings)
    table.write([row("a")])
    spec = table.begin()
    target = table.target(WriteKind.APPEND)
    rows = [row(f"{key:06}") for key in range(2_000)]
    batches = (b for at in range(0, 2_000, 100) for b in table.batches(rows[at : at + 100]))
    stats = write_group(batches, target, TOKEN, spec)
    table.commit(spec, stats)
    assert len(stats) > 1
    assert [stat.log_version for stat in stats] == list(range(1, len(stats) + 1))
    assert all((stat.file_size_in_bytes or 0) <= 120_000 for stat in stats)
    blocks = decode_blocks((tmp_path / (stats[0].path or "")).read_bytes())
    assert [block.kind for block in blocks] == [BlockKind.AVRO_DATA] * len(blocks)
    assert len(blocks) > 1
    assert len(texts(table)) == 2_001


def test_commit_time_order_lets_the_later_write_win(tmp_path: Path) -> None:
    assert COMMIT.mode is MergeMode.COMMIT_TIME
    table = WrittenTable(tmp_path, merge=COMMIT)
    table.write([row("a", 5, "old")])
    table.write([row("a", 1, "new")], WriteKind.MERGE)
    assert texts(table) == {"a": "new"}


def test_keys_with_separators_and_beyond_the_basic_plane(tmp_path: Path) -> None:
    keys = ["a,b:c", "日本語", "😀", "x" * 5_000, " ", "a/b", "é"]
    table = WrittenTable(tmp_path)
    table.write([row(key) for key in keys])
    (stat,) = table.write([row(key, 2, "new") for key in keys], WriteKind.MERGE)
    assert stat.num_update_writes == len(keys)
    assert texts(table) == dict.fromkeys(keys, "new")


@pytest.mark.parametrize("kind", [WriteKind.MERGE, WriteKind.CONCAT])
@pytest.mark.parametrize("cdc", [None, CdcMode.DATA_BEFORE_AFTER])
@pytest.mark.parametrize("fill", [Fill.NONE, Fill.IGNORE_DEFAULTS])
def test_columns_of_few_texts_stay_right_through_a_rewrite(
    tmp_path: Path, kind: WriteKind, cdc: CdcMode | None, fill: Fill
) -> None:
    table = WrittenTable(tmp_path, merge=replace(EVENT, fill=fill), cdc=cdc, combine=True)
    words = ["red", None, "", "日本"]
    held = {f"{at:05}": row(f"{at:05}", 1, words[at % 4]) for at in range(6_000)}
    (base,) = table.write(list(held.values()))
    task = SliceTask(partition=PARTITION, file_id=GROUP, base_path=base.path, base_instant="1")
    opened = BaseFile(table.storage, task, read_spec(table.spec), with_dictionaries=True)
    assert opened.repetitive >= {"text", "city", "_hoodie_commit_time"}
    new = [row(f"{at:05}", 2, "new") for at in range(6_000, 6_003)]
    if kind is WriteKind.MERGE:
        new += [row("00001", 2, "blue"), row("00002", 2, None), row("00003", 0, "stale")]
    table.write(new, kind, change=Change.UPDATE)
    held.update({r["id"]: r for r in new if r["ts"] == 2})
    if kind is WriteKind.MERGE and fill is Fill.IGNORE_DEFAULTS:
        held["00002"]["text"] = ""
    expected = [held[key] for key in sorted(held)]
    assert table.ours() == expected
    assert table.theirs() == expected
    stored = table.ours(meta=True)
    assert len({r["_hoodie_file_name"] for r in stored}) == 1
    assert sum(r["_hoodie_commit_time"] == "20261115200002000" for r in stored) == (
        5 if kind is WriteKind.MERGE else 3
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("in_log", [False, True])
def test_a_row_that_comes_back_older_than_it_was_deleted_loses_to_the_base_file(
    tmp_path: Path, version: int, in_log: bool
) -> None:
    table = WrittenTable(tmp_path, version=version, mor=True)
    table.write([row("a", 10, "base")])
    if in_log:
        table.write([row("a", 20, "log")], WriteKind.APPEND, change=Change.UPDATE)
    table.write([{"id": "a"}], WriteKind.APPEND, change=Change.DELETE)
    assert table.ours() == table.theirs() == []
    table.write([row("a", 5, "back")], WriteKind.APPEND, change=Change.UPDATE)
    assert table.ours() == table.theirs() == [row("a", 10, "base")]
