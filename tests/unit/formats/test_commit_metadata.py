from __future__ import annotations

import io
import json

import pytest

from tests.golden.timelines import UPGRADED, files_ending, meta_files
from tidelake.errors import Malformed
from tidelake.formats import avro_file, commit_metadata, lsm_history, plans
from tidelake.formats.commit_metadata import CommitMetadata, RuntimeStats, WriteStat


def without_sync(data: bytes) -> bytes:
    """Drop the sync marker, the only part of a container that is drawn at random."""
    return data.replace(data[-16:], b"")


AVRO = [
    ("v9_mor_compaction_executed", ".deltacommit", False),
    ("v9_mor_compaction_executed", ".commit", False),
    ("v8_mor_compaction_executed", ".deltacommit", False),
    ("v9_cow_clustering_executed", ".replacecommit", True),
    ("v9_cow_insert_overwrite", ".replacecommit", True),
    ("v9_cow_cdc_data_before_after", ".commit", False),
    ("v9_mor_log_compaction_executed", ".deltacommit", False),
]


@pytest.mark.parametrize(("table", "suffix", "is_replace"), AVRO)
def test_avro_of_hudi_comes_back_byte_for_byte(table: str, suffix: str, is_replace: bool) -> None:
    for raw in files_ending(table, suffix):
        metadata = commit_metadata.decode(raw, is_replace=is_replace)
        assert metadata.write_stats
        encoded = commit_metadata.encode_avro(metadata, is_replace=is_replace)
        assert without_sync(encoded) == without_sync(raw)


JSON = [
    ("v6_mor_avro", ".deltacommit", False),
    ("v6_mor_compaction_done", ".commit", False),
    ("v6_cow_insert_overwrite", ".replacecommit", True),
    ("v6_cow_cdc_full", ".commit", False),
]


@pytest.mark.parametrize(("table", "suffix", "is_replace"), JSON)
def test_json_of_hudi_015_comes_back_byte_for_byte(
    table: str, suffix: str, is_replace: bool
) -> None:
    for raw in files_ending(table, suffix):
        metadata = commit_metadata.decode(raw, is_replace=is_replace)
        assert commit_metadata.encode_json(metadata, is_replace=is_replace) == raw


def test_json_of_hudi_12_has_other_keys_and_the_same_meaning() -> None:
    metadata = commit_metadata.decode(files_ending("v6_mor_by_12", ".deltacommit")[-1])
    stat = metadata.partition_to_write_stats["lima"][0]
    assert stat.num_updates == 0
    assert (stat.log_version, stat.log_offset, stat.file_size_in_bytes) == (1, 0, 990)
    assert stat.runtime_stats == RuntimeStats(
        total_scan_time=0, total_create_time=0, total_upsert_time=100
    )


def test_a_replacecommit_says_which_groups_it_retires() -> None:
    raw = files_ending("v6_cow_insert_overwrite", ".replacecommit")[0]
    metadata = commit_metadata.decode(raw, is_replace=True)
    assert metadata.operation_type == "INSERT_OVERWRITE"
    assert metadata.partition_to_replace_file_ids == {
        "lima": ("1b6125ef-9c94-4644-9e2a-1cf6f3f1df91-0",)
    }


def test_a_replacecommit_that_does_not_say_is_damaged() -> None:
    raw = files_ending("v6_cow_insert_overwrite", ".replacecommit")[0]
    with pytest.raises(Malformed, match="partitionToReplaceFileIds"):
        commit_metadata.decode(raw.replace(b"ToReplaceFile", b"ToReplaceFiles"), is_replace=True)


def test_the_schema_of_the_commit_is_found() -> None:
    metadata = commit_metadata.decode(files_ending("v9_cow_archived_lsm", ".commit")[-1])
    assert metadata.schema is not None
    assert json.loads(metadata.schema)["type"] == "record"


def test_only_a_pending_commit_may_be_an_empty_file() -> None:
    assert commit_metadata.decode(b"", is_pending=True) == CommitMetadata()
    assert CommitMetadata().schema is None
    with pytest.raises(Malformed, match="empty"):
        commit_metadata.decode(b"")
    with pytest.raises(Malformed, match="empty"):
        commit_metadata.decode_archived(b"")


@pytest.mark.parametrize(
    "data",
    [
        b"garbage",
        b"{",
        b"[]",
        b"{}",
        b'{"partitionToWriteStats": []}',
        b'{"partitionToWriteStats": {"p": [{"fileId": "f"}]}}',
        b'{"partitionToWriteStats": {"p": [{"fileId": "f", "path": 3}]}}',
        b'{"partitionToWriteStats": {}, "compacted": 1}',
        b'{"partitionToWriteStats": ' + b"[" * 100_000,
        b"\0\0\0",
        plans.encode(plans.CompactionPlan()),
    ],
)
def test_damage_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        commit_metadata.decode(data)


def test_json_needs_numbers_where_avro_has_nulls() -> None:
    path = "p/f_1-2-3_20260101000000000.parquet"
    stat = WriteStat(file_id="f", path=path, log_version=1, runtime_stats=RuntimeStats())
    written = commit_metadata.encode_json(CommitMetadata(partition_to_write_stats={"p": (stat,)}))
    raw = json.loads(written)["partitionToWriteStats"]["p"][0]
    assert (raw["numWrites"], raw["logOffset"], raw["runtimeStats"]["totalScanTime"]) == (0, 0, 0)
    assert raw["cdcStats"] is None
    assert commit_metadata.decode(written).write_stats[0].path == path


def test_history_that_an_upgrade_wrote_holds_avro_without_a_container() -> None:
    bare = 0
    for path, data in meta_files(UPGRADED).items():
        if not path.endswith(".parquet"):
            continue
        for instant in lsm_history.decode_instants(io.BytesIO(data), with_contents=True):
            if instant.action.value not in ("commit", "deltacommit"):
                continue
            assert instant.metadata is not None
            bare += not instant.metadata.startswith(avro_file.MAGIC)
            assert commit_metadata.decode_archived(instant.metadata).write_stats
    assert bare > 0


@pytest.mark.parametrize("half", ["\\ud800", "\\uDFFF", "\\ud83d \\ude00"])
def test_half_a_character_is_no_json(half: str) -> None:
    with pytest.raises(Malformed, match="no JSON"):
        commit_metadata.decode(f'{{"extraMetadata": {{"k": "{half}"}}}}'.encode())


def test_a_whole_pair_is_a_character() -> None:
    found = commit_metadata.decode(
        b'{"partitionToWriteStats": {}, "extraMetadata": {"k": "\\ud83d\\ude00"}}'
    )
    assert found.extra_metadata == {"k": "\U0001f600"}
