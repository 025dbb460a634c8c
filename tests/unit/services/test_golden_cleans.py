"""Tables that Apache Hudi cleaned, put back to where they were before, and planned by us."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import harness
from tests.golden.local_table import LocalTable
from tests.unit.txn.toy_table import environment
from tidelake.config import CleanOptions, CleanPolicy
from tidelake.formats.plans import CleanMetadata
from tidelake.model import Action, Instant
from tidelake.services.clean import clean
from tidelake.services.clean_plan import plan_clean
from tidelake.services.service_context import ServiceContext
from tidelake.state.table_state import TableState
from tidelake.storage import LocalStorage

CLEANED = [
    "v6_cow_archived",
    "v6_cow_clean",
    "v6_cow_savepoint",
    "v6_mor_clean",
    "v9_cow_archived_lsm",
    "v9_cow_cleaned",
    "v9_mor_cleaned",
]


def unpacked(table: str, folder: Path) -> LocalStorage:
    return LocalStorage(str(harness.unpack(harness.load(table), folder)))


def cleans(state: TableState) -> list[Instant]:
    return [i for i in state.timeline.completed if i.action is Action.CLEAN]


def before(storage: LocalStorage, instant: Instant) -> CleanMetadata:
    """Put the table back to where it was before a clean: later instants go, deleted files return.

    Files of later instants stay, as those of writes that are under way would.
    """
    now = ServiceContext.load(environment(storage))
    metadata = now.state.contents.clean_metadata(instant)
    for later in reversed(cleans(now.state)):
        if later.requested_time < instant.requested_time:
            break
        for partition, found in now.state.contents.clean_metadata(later).partition_metadata.items():
            for name in found.success_delete_files:
                storage.put(f"{partition}/{name}", b"gone")
    for name in now.state.timeline.file_names:
        if name.partition(".")[0].partition("_")[0] >= instant.requested_time:
            storage.delete(f"{now.state.config.timeline_folder}/{name}")
    return metadata


@pytest.mark.parametrize("table", CLEANED)
def test_the_plan_is_apaches_own(table: str, tmp_path: Path) -> None:
    look = ServiceContext.load(environment(unpacked(table, tmp_path / "look")))
    first = look.state.timeline.instants[0].requested_time
    compared = 0
    for instant in cleans(look.state):
        if instant.requested_time == first:
            continue  # all that came before it is archived
        storage = unpacked(table, tmp_path / instant.requested_time)
        apache = before(storage, instant)
        now = ServiceContext.load(environment(storage))
        order = [i.requested_time for i in now.state.timeline.writes()]
        if apache.earliest_commit_to_retain not in order[1:]:
            continue  # the commits before it were archived since
        compared += 1
        commits = len(order) - order.index(apache.earliest_commit_to_retain)
        plan = plan_clean(now, CleanOptions(commits=commits))
        assert plan.retained is not None
        assert plan.retained.requested_time == apache.earliest_commit_to_retain
        assert plan.last_completed == apache.last_completed_commit_timestamp
        ours = {p: {f.path.rpartition("/")[2] for f in files} for p, files in plan.deleted.items()}
        theirs = {
            p: set(part.success_delete_files)
            for p, part in apache.partition_metadata.items()
            if part.success_delete_files
        }
        assert ours == theirs
    assert compared


@pytest.mark.parametrize("table", ["v9_cow_cleaned", "v6_mor_clean"])
def test_the_files_of_a_clean_are_apaches_own(table: str, tmp_path: Path) -> None:
    storage = unpacked(table, tmp_path)
    now = ServiceContext.load(environment(storage))
    instant = cleans(now.state)[-1]
    theirs = (now.state.contents.clean_plan(instant), now.state.contents.clean_metadata(instant))
    before(storage, instant)
    kept = sum(
        i.requested_time >= theirs[1].earliest_commit_to_retain
        for i in ServiceContext.load(environment(storage)).state.timeline.writes()
    )
    clean(environment(storage), CleanOptions(commits=kept))
    now = ServiceContext.load(environment(storage))
    instant = cleans(now.state)[-1]
    ours = (now.state.contents.clean_plan(instant), now.state.contents.clean_metadata(instant))
    assert ours[0].earliest_instant_to_retain == theirs[0].earliest_instant_to_retain
    for name in ("policy", "version", "files_to_be_deleted_per_partition", "extra_metadata"):
        assert getattr(ours[0], name) == getattr(theirs[0], name)
    assert set(ours[1].partition_metadata) == set(theirs[1].partition_metadata)
    for partition, found in ours[1].partition_metadata.items():
        apache = theirs[1].partition_metadata[partition]
        assert set(found.success_delete_files) == set(apache.success_delete_files)
        assert set(found.delete_path_patterns) == set(apache.delete_path_patterns)
        assert found.is_partition_deleted is apache.is_partition_deleted
    assert ours[1].version == theirs[1].version
    assert ours[1].total_files_deleted == theirs[1].total_files_deleted


def test_a_clean_that_apache_began_is_finished(tmp_path: Path) -> None:
    storage = unpacked("v6_cow_clean_pending", tmp_path)
    root = storage.spec.uri
    rows = sorted(LocalTable(root, {}).read().collect())
    now = ServiceContext.load(environment(storage))
    (pending,) = now.state.timeline.pending
    planned = now.state.contents.clean_plan(pending).file_paths_to_be_deleted_per_partition or {}
    (done,) = clean(environment(storage), CleanOptions(commits=1))
    assert done.requested_time == pending.requested_time
    assert done.files_deleted == sum(map(len, planned.values())) == 3
    for partition, files in planned.items():
        for file in files:
            name = (file.file_path or "").rpartition("/")[2]
            assert storage.stat(f"{partition}/{name}") is None
    assert sorted(LocalTable(root, {}).read().collect()) == rows


#: Tables in which something other than plain writes decides what is current.
MANIFOLD = [
    name
    for name in harness.names()
    if any(
        word in name
        for word in (
            *("archived", "cdc", "clean", "cluster", "compact", "delete_p", "nbcc"),
            *("overwrit", "planned", "restore", "rollback", "savepoint", "schema"),
        )
    )
]


@pytest.mark.sampled(30)
@pytest.mark.parametrize("table", MANIFOLD)
def test_a_clean_by_any_policy_leaves_the_rows(table: str, tmp_path: Path) -> None:
    case = harness.load(table)
    for policy in CleanPolicy:
        root = harness.unpack(case, tmp_path / policy.value)
        given = {**case.options, "hoodie.metadata.enable": "false"}
        rows = sorted(LocalTable(str(root), given).read().collect())
        clean(
            environment(LocalStorage(str(root))),
            CleanOptions(policy=policy, commits=1, hours=0, file_versions=1),
        )
        assert sorted(LocalTable(str(root), given).read().collect()) == rows
