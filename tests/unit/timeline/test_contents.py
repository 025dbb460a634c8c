from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.golden.timelines import memory_table
from tidelake.errors import CorruptFileError, MissingFileError
from tidelake.formats import plans
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.model import Action, Instant, State
from tidelake.storage import MemoryStorage
from tidelake.timeline import Timeline, TimelineContents, load_table_config, load_timeline


def opened(table: str) -> tuple[MemoryStorage, Timeline, TimelineContents]:
    storage = memory_table(table)
    config = load_table_config(storage)
    return storage, load_timeline(storage, config), TimelineContents(storage, config)


def only(instants: Sequence[Instant], action: Action) -> Instant:
    found = [i for i in instants if action in (i.action, i.planned_as)]
    assert found
    return found[-1]


def test_commits_say_what_they_wrote() -> None:
    _, timeline, contents = opened("v9_mor_compaction_executed")
    compaction = only(timeline.completed, Action.COMPACTION)
    assert contents.commit_metadata(compaction).operation_type == "COMPACT"
    planned = {
        (o.partition_path, o.file_id) for o in contents.compaction_plan(compaction).operations
    }
    written = {
        (s.partition_path, s.file_id) for s in contents.commit_metadata(compaction).write_stats
    }
    assert written == planned


@pytest.mark.parametrize(
    ("table", "is_clustering"),
    [
        ("v6_cow_clustering_pending", True),
        ("v6_cow_delete_partition", False),
        ("v6_cow_clustering_done", True),
        ("v9_cow_clustering_executed", True),
        ("v9_cow_insert_overwrite", False),
    ],
)
def test_a_clustering_is_told_from_an_overwrite(table: str, is_clustering: bool) -> None:
    _, timeline, contents = opened(table)
    instant = only(timeline.instants, Action.REPLACECOMMIT)
    assert contents.is_clustering(instant) is is_clustering
    assert (contents.clustering_plan(instant) is not None) is is_clustering


def test_a_replacecommit_without_a_plan_is_no_clustering() -> None:
    """A write that was rolled back and did not notice may put its inflight file back."""
    storage, timeline, contents = opened("v6_cow_clustering_pending")
    instant = only(timeline.pending, Action.REPLACECOMMIT)
    storage.delete(f".hoodie/{instant.requested_time}.replacecommit.requested")
    assert not contents.is_clustering(instant)


def test_a_deltacommit_is_no_clustering() -> None:
    _, timeline, contents = opened("v9_mor_failed_write_left")
    assert not contents.is_clustering(only(timeline.pending, Action.DELTACOMMIT))


def test_services_say_what_they_planned_and_did() -> None:
    _, timeline, contents = opened("v9_cow_cleaned")
    clean = only(timeline.completed, Action.CLEAN)
    planned = contents.clean_plan(clean).file_paths_to_be_deleted_per_partition or {}
    deleted = contents.clean_metadata(clean).partition_metadata
    assert set(deleted) >= {partition for partition, files in planned.items() if files}

    _, timeline, contents = opened("v9_mor_failed_write_rolled_back")
    rollback = only(timeline.completed, Action.ROLLBACK)
    plan = contents.rollback_plan(rollback)
    assert plan.instant_to_rollback is not None
    assert contents.rollback_metadata(rollback).commits_rollback == (
        plan.instant_to_rollback.commit_time,
    )

    _, timeline, contents = opened("v9_cow_restored")
    restore = only(timeline.completed, Action.RESTORE)
    assert len(contents.restore_metadata(restore).hoodie_restore_metadata) == len(
        contents.restore_plan(restore).instants_to_rollback
    )

    _, timeline, contents = opened("v9_mor_savepoint")
    assert contents.savepoint_metadata(
        only(timeline.completed, Action.SAVEPOINT)
    ).partition_metadata

    _, timeline, contents = opened("cow_v9_txns_nonpart_meta")
    build = only(timeline.completed, Action.INDEXING)
    assert (
        contents.index_plan(build).index_partition_infos
        == contents.index_metadata(build).index_partition_infos
    )


@pytest.mark.parametrize("table", ["v9_cow_cleaned", "v6_cow_clean"])
def test_an_empty_file_of_a_completed_commit_is_damaged(table: str) -> None:
    storage, timeline, contents = opened(table)
    commit = timeline.writes()[0]
    folder = ".hoodie/timeline" if table.startswith("v9") else ".hoodie"
    storage.put(f"{folder}/{commit.file_name}", b"")
    with pytest.raises(CorruptFileError, match="empty"):
        contents.commit_metadata(commit)
    with pytest.raises(CorruptFileError, match="empty"):
        contents.load_commit_metadata([commit])


def test_a_clustering_with_an_empty_plan_is_damaged() -> None:
    storage, timeline, contents = opened("v9_cow_clustering_requested")
    clustering = only(timeline.pending, Action.CLUSTERING)
    storage.put(f".hoodie/timeline/{clustering.file_name}", b"")
    with pytest.raises(CorruptFileError):
        contents.clustering_plan(clustering)


def test_an_empty_file_of_a_pending_commit_says_nothing_yet() -> None:
    storage, timeline, contents = opened("v9_cow_cleaned")
    commit = replace(timeline.writes()[0], state=State.INFLIGHT, completion_time=None)
    storage.put(f".hoodie/timeline/{commit.file_name}", b"")
    assert contents.commit_metadata(commit) == CommitMetadata()


@pytest.mark.parametrize("damage", [b"garbage", b"Obj\x01", b"{"])
def test_a_damaged_file_is_named(damage: bytes) -> None:
    storage, timeline, contents = opened("v9_cow_cleaned")
    commit = only(timeline.completed, Action.COMMIT)
    path = f".hoodie/timeline/{commit.file_name}"
    storage.put(path, damage)
    with pytest.raises(CorruptFileError) as raised:
        contents.commit_metadata(commit)
    assert raised.value.path == path
    with pytest.raises(CorruptFileError):
        contents.load_commit_metadata([commit])


def test_a_truncated_plan_is_named() -> None:
    storage, timeline, contents = opened("v9_mor_compaction_pending")
    compaction = only(timeline.pending, Action.COMPACTION)
    path = f".hoodie/timeline/{compaction.requested_time}.compaction.requested"
    storage.put(path, storage.read(path)[:-20])
    with pytest.raises(CorruptFileError) as raised:
        contents.compaction_plan(compaction)
    assert raised.value.path == path


def test_a_plan_that_is_gone_is_missing() -> None:
    storage, timeline, contents = opened("v9_mor_compaction_pending")
    compaction = only(timeline.pending, Action.COMPACTION)
    storage.delete(f".hoodie/timeline/{compaction.requested_time}.compaction.requested")
    with pytest.raises(MissingFileError):
        contents.compaction_plan(compaction)


def test_a_file_is_read_once() -> None:
    storage, timeline, contents = opened("v9_cow_cleaned")
    contents.load_commit_metadata(timeline.writes())
    for name in timeline.file_names:
        storage.delete(f".hoodie/timeline/{name}")
    contents.load_commit_metadata(timeline.writes())
    assert all(contents.commit_metadata(instant).write_stats for instant in timeline.writes())


def test_contents_of_archived_or_pending_instants_are_asked_elsewhere() -> None:
    _, _, contents = opened("v9_cow_cleaned")
    archived = Instant(
        requested_time="1", action=Action.COMMIT, state=State.COMPLETED, completion_time="2"
    )
    with pytest.raises(ValueError, match="archived"):
        contents.commit_metadata(archived)
    pending = Instant(requested_time="1", action=Action.CLEAN, state=State.INFLIGHT)
    with pytest.raises(ValueError, match="still inflight"):
        contents.clean_metadata(pending)


@pytest.mark.parametrize(
    ("table", "action"),
    [
        ("v6_cow_clean", Action.COMMIT),
        ("v9_mor_types_full_mdt", Action.DELTACOMMIT),
        ("v9_cow_cleaned", Action.COMMIT),
        ("v9_cow_cleaned", Action.CLEAN),
        ("v6_mor_compaction_done", Action.COMMIT),
    ],
)
def test_a_completed_file_in_the_place_of_another_is_refused(table: str, action: Action) -> None:
    storage, timeline, contents = opened(table)
    own = only(timeline.completed, action)
    folder = ".hoodie" if table.startswith("v6") else ".hoodie/timeline"
    another = own.requested_time[:-1] + ("1" if own.requested_time[-1] != "1" else "2")
    assert own.file_name is not None
    storage.put(
        f"{folder}/{own.file_name.replace(own.requested_time, another, 1)}",
        storage.read(f"{folder}/{own.file_name}"),
    )
    loaded = load_timeline(storage, load_table_config(storage))
    (other,) = (i for i in loaded.completed if i.requested_time == another)
    read = contents.clean_metadata if action is Action.CLEAN else contents.commit_metadata
    read(own)
    with pytest.raises(CorruptFileError, match=f"what instant {own.requested_time} wrote"):
        read(other)
    if action is not Action.CLEAN:
        contents = TimelineContents(storage, load_table_config(storage))
        with pytest.raises(CorruptFileError, match=f"what instant {own.requested_time} wrote"):
            contents.load_commit_metadata([own, other])


def test_an_inflight_file_in_the_place_of_the_completed_one_is_refused() -> None:
    storage, timeline, contents = opened("v9_mor_cdc_op_key_only")
    own = only(timeline.completed, Action.DELTACOMMIT)
    inflight = f".hoodie/timeline/{own.requested_time}.deltacommit.inflight"
    storage.put(f".hoodie/timeline/{own.file_name}", storage.read(inflight))
    with pytest.raises(CorruptFileError, match="as an inflight file does"):
        contents.commit_metadata(own)


def test_rollbacks_and_restores_that_have_begun_say_what_they_take_back() -> None:
    storage, timeline, contents = opened("v9_mor_compaction_executed")
    done, begun = timeline.completed[-1].requested_time, State.INFLIGHT
    target = plans.InstantInfo(commit_time=done, action=Action.COMMIT)
    compaction = plans.InstantInfo(commit_time="3", action=Action.COMPACTION)
    folder = load_table_config(storage).timeline_folder
    for time, plan in {
        "7.rollback": plans.RollbackPlan(instant_to_rollback=target),
        "8.rollback": plans.RollbackPlan(instant_to_rollback=compaction),
        "9.restore": plans.RestorePlan(instants_to_rollback=(replace(target, commit_time="2"),)),
    }.items():
        storage.put(f"{folder}/{time}.requested", plans.encode(plan))
    pending = [
        Instant(requested_time=time, action=action, state=begun)
        for time, action in (("7", Action.ROLLBACK), ("8", Action.ROLLBACK), ("9", Action.RESTORE))
    ]
    assert contents.rolled_back_by(replace(timeline, instants=tuple(pending))) == {done, "2"}
