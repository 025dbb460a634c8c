"""Metadata tables that Apache Hudi wrote, beside a plain listing and the files themselves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.conftest import Unpack
from tidelake.errors import CorruptFileError, MissingFileError
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.formats.hfile import HFile
from tidelake.formats.log_block import BlockKind, decode_blocks, encode_block, join_avro_block
from tidelake.metadata import MetadataTable
from tidelake.metadata.file_group import Keys, MetadataFileGroup
from tidelake.model import Action, FileGroupId, FileSlice, Instant, State
from tidelake.storage import LocalStorage, Storage
from tidelake.timeline import Timeline, load_table_config, load_timeline
from tidelake.view import Listing, StorageListing

#: Versions 6, 8 and 9; with compacted and uncompacted metadata; cleaned, replaced, rolled back.
LISTED = [
    "v6_cow_mdt_full",
    "v6_mor_mdt_full",
    "v6_cow_mdt_late",
    "v6_mor_by_12",
    "mor_avro_v8_trips_8i3u1d",
    "v8_cow_clustering_executed",
    "v8_mor_failed_write_rolled_back",
    "cow_v9_txns_nonpart_meta",
    "v9_cow_full_mdt_default",
    "v9_mor_archived_lsm_mdt",
    "v9_mor_record_index_full_mdt",
    "v9_mor_types_full_mdt",
]


def opened(root: Path, timeline: Timeline | None = None) -> MetadataTable | None:
    storage: Storage = LocalStorage(str(root))
    config = load_table_config(storage)
    return MetadataTable.open(storage, config, timeline or load_timeline(storage, config))


def metadata_of(root: Path, timeline: Timeline | None = None) -> MetadataTable:
    found = opened(root, timeline)
    assert found is not None
    return found


def data_files(listing: Listing) -> dict[str, dict[str, int]]:
    return {
        partition: {
            info.name: info.size_bytes
            for info in files
            if parse_base(partition, info.name, 0) or parse_log(partition, info.name, 0)
        }
        for partition, files in listing.files_of(listing.partitions()).items()
    }


@pytest.mark.parametrize("name", LISTED)
def test_listing_equals_that_of_storage(name: str, golden_table: Unpack) -> None:
    root = golden_table(name)
    listed = data_files(metadata_of(root))
    assert listed == data_files(StorageListing(LocalStorage(str(root))))
    assert any(listed.values())


@pytest.mark.parametrize("name", ["p/../../other", "/p", ".hoodie/timeline", "a//b"])
def test_a_partition_out_of_the_table_is_damage(
    name: str, golden_table: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = metadata_of(golden_table("v9_mor_types_full_mdt"))
    monkeypatch.setattr("tidelake.metadata.table._live_names", lambda _: {name: 1})
    with pytest.raises(CorruptFileError, match="metadata"):
        found.partitions()


@pytest.mark.parametrize("name", ["../aa-0_1-2-3_20260101000000000.parquet", "", ".."])
def test_a_file_out_of_its_partition_is_damage(
    name: str, golden_table: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = metadata_of(golden_table("v9_mor_types_full_mdt"))
    monkeypatch.setattr("tidelake.metadata.table._live_names", lambda _: {name: 1})
    with pytest.raises(CorruptFileError, match="metadata"):
        found.files("one")


def test_unknown_partition_has_no_files(golden_table: Unpack) -> None:
    assert metadata_of(golden_table("v9_cow_full_mdt_default")).files("nowhere") == []


def test_table_without_the_property_has_no_metadata_table(golden_table: Unpack) -> None:
    assert opened(golden_table("v6_cow_types")) is None


@pytest.fixture
def copied(tmp_path: Path, golden_table: Unpack) -> Callable[[str], Path]:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(golden_table(name), tmp_path / name))

    return copy


def test_folder_that_is_gone_means_no_metadata_table(copied: Callable[[str], Path]) -> None:
    root = copied("v9_cow_full_mdt_default")
    shutil.rmtree(root / ".hoodie" / "metadata")
    assert opened(root) is None


def as_pending(instant: Instant) -> Instant:
    return replace(instant, state=State.INFLIGHT, completion_time=None)


@pytest.mark.parametrize("name", ["v6_mor_mdt_full", "v9_mor_record_index_full_mdt"])
def test_files_of_a_write_that_is_pending_on_the_table_are_not_listed(
    name: str, golden_table: Unpack
) -> None:
    root = golden_table(name)
    storage = LocalStorage(str(root))
    timeline = load_timeline(storage, load_table_config(storage))
    last = [i for i in timeline.writes() if i.action is Action.DELTACOMMIT][-1]
    others = tuple(i for i in timeline.instants if i is not last)
    before = Timeline(instants=(*others, as_pending(last)))
    everything = data_files(metadata_of(root, timeline))
    without = data_files(metadata_of(root, before))
    gone = {
        name
        for partition, files in everything.items()
        for name in files.keys() - without.get(partition, {}).keys()
    }
    assert gone
    assert all(any(t in name for t in (last.requested_time, ".log.")) for name in gone)


STATS = [
    "v6_cow_mdt_full",
    "mor_avro_v8_trips_8i3u1d",
    "cow_v9_txns_nonpart_meta",
    "v9_mor_types_full_mdt",
]


@pytest.mark.parametrize("name", STATS)
def test_column_stats_are_those_of_the_base_files(name: str, golden_table: Unpack) -> None:
    root = golden_table(name)
    metadata = metadata_of(root)
    compared = 0
    for partition, files in data_files(metadata).items():
        for file_name in files:
            path = f"{partition}/{file_name}" if partition else file_name
            if not file_name.endswith(".parquet"):
                continue
            rows = pq.ParquetFile(root / path).read()
            stats = metadata.column_stats(rows.column_names, [partition])[path]
            for column, known in stats.items():
                values = rows[column].drop_null().to_pylist()
                assert known.min == min(values, default=None)
                assert known.max == max(values, default=None)
                assert known.value_count == len(rows)
                assert known.null_count == rows[column].null_count
                compared += 1
    assert compared > 20


def test_partition_stats_hold_the_stats_of_the_files(golden_table: Unpack) -> None:
    metadata = metadata_of(golden_table("v9_cow_full_mdt_default"))
    column = "_hoodie_record_key"
    by_partition = metadata.partition_stats([column])
    assert set(by_partition) == set(metadata.partitions())
    for path, stats in metadata.column_stats([column]).items():
        whole = by_partition[path.rpartition("/")[0]][column]
        part = stats[column]
        assert whole.min <= part.min
        assert part.max <= whole.max


def test_stats_of_some_partitions_are_a_part_of_all_stats(golden_table: Unpack) -> None:
    metadata = metadata_of(golden_table("v9_mor_record_index_full_mdt"))
    columns = ["_hoodie_record_key", "_hoodie_commit_time"]
    everything = metadata.column_stats(columns)
    for partition in metadata.partitions():
        some = metadata.column_stats(columns, [partition])
        assert some
        assert some == {p: s for p, s in everything.items() if p.startswith(f"{partition}/")}


def test_unknown_column_and_missing_index_give_nothing(golden_table: Unpack) -> None:
    assert metadata_of(golden_table("v9_mor_types_full_mdt")).column_stats(["nope"]) == {}
    late = metadata_of(golden_table("v8_cow_clustering_executed"))
    assert late.column_stats(["_hoodie_record_key"]) == {}
    assert late.record_index_lookup(["k"]) is None


@pytest.mark.parametrize("name", ["v6_cow_mdt_full", "v9_mor_record_index_full_mdt"])
def test_record_index_names_the_file_group_of_every_key(name: str, golden_table: Unpack) -> None:
    root = golden_table(name)
    metadata = metadata_of(root)
    held: dict[str, set[tuple[str, str]]] = {}
    for partition, files in data_files(metadata).items():
        for file_name in files:
            if file_name.endswith(".parquet"):
                rows = pq.ParquetFile(root / partition / file_name).read(["_hoodie_record_key"])
                for key in rows["_hoodie_record_key"].to_pylist():
                    held.setdefault(key, set()).add((partition, file_name.split("_")[0]))
    found = metadata.record_index_lookup([*held, "no such key"])
    assert found
    assert "no such key" not in found
    assert all(place in held[key] for key, place in found.items())


def test_bloom_filters_hold_the_keys_of_their_files(golden_table: Unpack) -> None:
    root = golden_table("v6_cow_mdt_full")
    metadata = metadata_of(root)
    wanted = [(p, f) for p, files in data_files(metadata).items() for f in files]
    filters = metadata.bloom_filters([*wanted, ("p", "unknown.parquet")])
    assert len(filters) == len(wanted)
    for path, bloom in filters.items():
        keys = pq.ParquetFile(root / path).read(["_hoodie_record_key"])["_hoodie_record_key"]
        assert bloom.may_contain(keys.to_pylist()).all()


def a_file_of(root: Path, pattern: str) -> Path:
    return max((root / ".hoodie" / "metadata").glob(pattern))


@pytest.mark.parametrize("pattern", ["files/*.hfile", "files/.files-*.log.1_[1-9]*"])
@pytest.mark.parametrize("damage", ["cut", "zeros"])
def test_damaged_file_is_named_with_the_way_out(
    pattern: str, damage: str, copied: Callable[[str], Path]
) -> None:
    root = copied("v9_mor_types_full_mdt")
    broken = a_file_of(root, pattern)
    data = broken.read_bytes()
    broken.write_bytes(data[:-50] if damage == "cut" else data[:-6500] + bytes(300) + data[-6200:])
    with pytest.raises(CorruptFileError) as caught:
        data_files(metadata_of(root))
    assert caught.value.path == f".hoodie/metadata/files/{broken.name}"
    assert "hoodie.metadata.enable=false" in caught.value.next_step


def test_half_a_block_of_a_crashed_writer_is_tolerated_in_version_6(
    copied: Callable[[str], Path],
) -> None:
    root = copied("v6_mor_mdt_full")
    listed = data_files(metadata_of(root))
    newest = a_file_of(root, "files/.files-*.log.*")
    name, _, token = newest.name.rpartition("_")
    stem, _, version = name.rpartition(".")
    torn = newest.with_name(f"{stem}.{int(version) + 100}_{token}")
    torn.write_bytes(newest.read_bytes()[:300])
    assert data_files(metadata_of(root)) == listed


def test_damaged_log_of_a_completed_write_is_an_error_in_version_6(
    copied: Callable[[str], Path],
) -> None:
    root = copied("v6_mor_mdt_full")
    newest = a_file_of(root, "files/.files-*.log.*")
    newest.write_bytes(newest.read_bytes()[:-20])
    with pytest.raises(CorruptFileError, match=r"files/\.files"):
        data_files(metadata_of(root))


@pytest.mark.parametrize("content", [b"", b"hoodie.table.name=x\n"], ids=["empty", "no version"])
def test_damaged_properties_of_the_metadata_table_are_named(
    content: bytes, copied: Callable[[str], Path]
) -> None:
    root = copied("v9_mor_types_full_mdt")
    a_file_of(root, ".hoodie/hoodie.properties").write_bytes(content)
    with pytest.raises(CorruptFileError) as caught:
        opened(root)
    assert caught.value.path.startswith(".hoodie/metadata")
    assert "hoodie.metadata.enable=false" in caught.value.next_step


def test_file_that_vanished_is_named_with_the_way_out(tmp_path: Path) -> None:
    base = parse_base("files", "files-0000-0_0-1-1_20260301101500123.hfile", 5000)
    group = MetadataFileGroup(
        LocalStorage(str(tmp_path)),
        FileSlice(group=FileGroupId("files", "files-0000-0"), base_instant_time="", base_file=base),
        is_visible=lambda _: True,
        may_be_torn=lambda _: False,
    )
    with pytest.raises(MissingFileError, match=r"files-0000-0_0-1-1.*\n.*metadata\.enable=false"):
        group.find(Keys(["k"]))


def test_metadata_table_that_a_writer_left_behind_is_not_used(
    copied: Callable[[str], Path],
) -> None:
    root = copied("v9_mor_types_full_mdt")
    timeline = root / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    last = max(name.name.split(".")[0] for name in timeline.glob("*.deltacommit.requested"))
    for file in timeline.glob(f"{last}*"):
        file.unlink()
    assert opened(root) is None


def test_avro_blocks_are_read_like_hfile_blocks(copied: Callable[[str], Path]) -> None:
    root = copied("v9_mor_types_full_mdt")
    listed = data_files(metadata_of(root))
    for path in (root / ".hoodie" / "metadata" / "files").glob(".files-*.log.1_[1-9]*"):
        (block,) = decode_blocks(path.read_bytes())
        file = HFile.of_bytes(block.content)
        schema = json.loads(file.schema)
        records = []
        for key, value in file.scan():
            record: Any = fastavro.schemaless_reader(BytesIO(value), schema, None)
            sink = BytesIO()
            fastavro.schemaless_writer(sink, schema, {**record, "key": key.decode()})
            records.append(sink.getvalue())
        content = join_avro_block(records)
        path.write_bytes(encode_block(BlockKind.AVRO_DATA, block.headers, content))
    assert data_files(metadata_of(root)) == listed
