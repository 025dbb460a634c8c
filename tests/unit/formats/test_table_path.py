from __future__ import annotations

import json

import pytest

from tidelake.errors import Malformed
from tidelake.formats import commit_metadata, lsm_history, plans, table_path
from tidelake.formats.commit_metadata import CommitMetadata, WriteStat
from tidelake.formats.instant_name import InstantName
from tidelake.formats.marker_name import marker_folder, parse_marker
from tidelake.formats.plans import (
    CleanerPlan,
    CleanFileInfo,
    CompactionOperation,
    CompactionPlan,
    InstantInfo,
    RestorePlan,
    RollbackPlan,
    RollbackRequest,
    SavepointMetadata,
    SavepointPartitionMetadata,
)

BASE = "aa-0_1-2-3_20260101000000000.parquet"
LOG = ".aa-0_20260101000000000.log.1_0-1-2"

FOREIGN_FOLDERS = (
    "..",
    "p/../../other",
    "/p",
    "p/",
    "a//b",
    "p/.",
    "./p",
    ".hoodie",
    ".hoodie/timeline",
    "p\0",
)
FOREIGN_NAMES = ("hoodie.properties", "20260101000000000.commit", "", ".", "..", "p/" + BASE)


@pytest.mark.parametrize("path", [*FOREIGN_FOLDERS, "p\udcff"])
def test_no_partition_leads_out_of_the_table_or_into_its_metadata(path: str) -> None:
    with pytest.raises(Malformed):
        table_path.partition(path)


@pytest.mark.parametrize("path", ["", "a", "city=oslo/day=1", "a b", "a:b", ".hidden", "x..y"])
def test_partitions_of_the_table(path: str) -> None:
    assert table_path.partition(path) == path


@pytest.mark.parametrize("name", FOREIGN_NAMES)
def test_only_data_files_are_data_files(name: str) -> None:
    with pytest.raises(Malformed):
        table_path.data_file("p", name)
    assert table_path.data_file("p", BASE) == f"p/{BASE}"
    assert table_path.data_file("", LOG) == LOG


def _clean(partition: str, path: str) -> CleanerPlan:
    files = (CleanFileInfo(file_path=path),)
    return CleanerPlan(policy="X", file_paths_to_be_deleted_per_partition={partition: files})


def _rollback(
    partition: str = "p", path: str = BASE, time: str = "20260101000000000", version: int = 1
) -> RollbackPlan:
    return RollbackPlan(
        instant_to_rollback=InstantInfo(commit_time=time, action="commit"),
        rollback_requests=(RollbackRequest(partition_path=partition, files_to_be_deleted=(path,)),),
        version=version,
    )


def _compaction(partition: str, file_id: str = "aa-0") -> CompactionPlan:
    one = CompactionOperation(base_instant_time="1", file_id=file_id, partition_path=partition)
    return CompactionPlan(operations=(one,))


def _take_back(file_id: str, base_instant: str) -> RollbackPlan:
    return RollbackPlan(
        instant_to_rollback=InstantInfo(commit_time="20260101000000000", action="deltacommit"),
        rollback_requests=(
            RollbackRequest(
                partition_path="p",
                file_id=file_id,
                latest_base_instant=base_instant,
                log_blocks_to_be_deleted={LOG: 1},
            ),
        ),
    )


def _savepoint(partition: str, path: str) -> SavepointMetadata:
    kept = SavepointPartitionMetadata(partition_path=partition, savepoint_data_file=(path,))
    return SavepointMetadata(
        savepointed_by="me", savepointed_at=0, comments="", partition_metadata={partition: kept}
    )


FOREIGN_PLANS = (
    *(_clean(folder, BASE) for folder in FOREIGN_FOLDERS),
    *(_rollback(folder) for folder in FOREIGN_FOLDERS),
    *(_savepoint(folder, BASE) for folder in FOREIGN_FOLDERS),
    *(_clean("p", f"s3://b/t/p/{name}") for name in FOREIGN_NAMES[:-1]),
    *(_rollback(path=f"/t/p/{name}") for name in FOREIGN_NAMES[:-1]),
    *(_rollback(time=time) for time in ("", ".", "..", "../1", "1/2", "now")),
    *(
        RestorePlan(instants_to_rollback=(InstantInfo(commit_time=time, action="commit"),))
        for time in ("", ".", "../1")
    ),
    CleanerPlan(policy="X", files_to_be_deleted_per_partition={"p": ("hoodie.properties",)}),
    CleanerPlan(policy="X", partitions_to_be_deleted=("",)),
    CleanerPlan(policy="X", partitions_to_be_deleted=(".hoodie/.temp",)),
    CleanerPlan(policy="X", version=3),
    _rollback(version=3),
    _rollback(path=BASE.replace("20260101000000000", "20260101000000001")),
    *(_take_back(file_id, time) for file_id in ("", "..", "a/b", "a_b") for time in ("1", "")),
    *(_take_back("aa-0", time) for time in ("", "../1", "x")),
    *(_compaction(folder) for folder in FOREIGN_FOLDERS),
    *(_compaction("p", file_id) for file_id in ("", "..", "../x", "/x", "a/b", "a\0")),
    RestorePlan(version=3),
)


@pytest.mark.parametrize("plan", FOREIGN_PLANS)
def test_no_plan_names_what_is_not_of_the_table(plan: object) -> None:
    with pytest.raises(Malformed):
        plans.decode(type(plan), plans.encode(plan))


@pytest.mark.parametrize(
    "plan",
    [
        _clean("", f"/t/{LOG}"),
        _clean("p", f"/t/p/{BASE}"),
        _rollback(),
        _compaction("p"),
        _take_back("aa-0", "20260101000000000"),
        _savepoint("", LOG),
    ],
)
def test_plans_that_name_data_files(plan: object) -> None:
    assert plans.decode(type(plan), plans.encode(plan)) == plan


@pytest.mark.parametrize("path", [f"../t/{BASE}", f".hoodie/{BASE}", "p/readme.txt", f"/p/{BASE}"])
def test_no_commit_names_what_is_not_of_the_table(path: str) -> None:
    stat = WriteStat(file_id="aa-0", path=path, prev_commit="null")
    metadata = CommitMetadata(partition_to_write_stats={"p": (stat,)})
    for data in (commit_metadata.encode_json(metadata), commit_metadata.encode_avro(metadata)):
        with pytest.raises(Malformed):
            commit_metadata.decode(data)


@pytest.mark.parametrize("name", ["../../../other/1_2_0.parquet", "/1_2_0.parquet", "", ".."])
def test_no_manifest_names_files_of_another_folder(name: str) -> None:
    with pytest.raises(Malformed):
        lsm_history.decode_manifest(
            json.dumps({"files": [{"fileName": name, "fileLen": 1}]}).encode()
        )


@pytest.mark.parametrize(
    "path", [".hoodie/hoodie.properties", f"../other/{BASE}", f"p/../{BASE}", "p/readme.txt"]
)
def test_no_marker_is_of_anything_but_a_data_file(path: str) -> None:
    assert parse_marker(f"{path}.marker.CREATE") is None
    assert parse_marker(f"p/{BASE}.marker.CREATE") is not None


@pytest.mark.parametrize("time", ["", ".", "..", "a/b"])
def test_no_folder_of_markers_is_that_of_all(time: str) -> None:
    with pytest.raises(Malformed):
        marker_folder(time)


@pytest.mark.parametrize("digits", [1, 17, 33, 200])
def test_an_instant_of_any_length_has_a_folder_of_markers(digits: int) -> None:
    name = InstantName.parse(f"{'9' * digits}.deltacommit.requested", 2)
    assert name is not None
    assert marker_folder(name.requested_time).endswith("9" * digits)
