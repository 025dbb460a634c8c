from __future__ import annotations

import io
from typing import Any

import pytest

from tests.golden.timelines import UPGRADED, files_ending, meta_files
from tidelake.errors import Malformed
from tidelake.formats import lsm_history, plans
from tidelake.model import Action

GOLDEN: list[tuple[str, str, type[Any]]] = [
    ("v9_mor_compaction_pending", ".compaction.requested", plans.CompactionPlan),
    ("v9_mor_log_compaction_pending", ".logcompaction.requested", plans.CompactionPlan),
    ("v9_cow_clustering_requested", ".clustering.requested", plans.RequestedReplaceMetadata),
    ("v9_cow_insert_overwrite", ".replacecommit.requested", plans.RequestedReplaceMetadata),
    ("v9_cow_cleaned", ".clean.requested", plans.CleanerPlan),
    ("v9_cow_cleaned", ".clean", plans.CleanMetadata),
    ("v6_cow_clean_pending", ".clean.inflight", plans.CleanerPlan),
    ("v6_mor_rollback_direct", ".rollback.requested", plans.RollbackPlan),
    ("v6_mor_rollback_direct", ".rollback", plans.RollbackMetadata),
    ("v9_cow_restored", ".restore.requested", plans.RestorePlan),
    ("v9_cow_restored", ".restore", plans.RestoreMetadata),
    ("v9_mor_savepoint", ".savepoint", plans.SavepointMetadata),
    ("cow_v9_txns_nonpart_meta", ".indexing.requested", plans.IndexPlan),
    ("cow_v9_txns_nonpart_meta", ".indexing", plans.IndexCommitMetadata),
]


@pytest.mark.parametrize(("table", "suffix", "kind"), GOLDEN)
def test_files_of_hudi_come_back_byte_for_byte(table: str, suffix: str, kind: type[Any]) -> None:
    for raw in files_ending(table, suffix):
        encoded = plans.encode(plans.decode(kind, raw))
        # The sync marker at the end of a container is drawn at random.
        assert encoded.replace(encoded[-16:], b"") == raw.replace(raw[-16:], b"")


@pytest.mark.parametrize(
    ("table", "suffix", "kind"),
    [
        ("v6_mor_compaction_pending", ".compaction.requested", plans.CompactionPlan),
        ("v6_cow_clustering_pending", ".replacecommit.requested", plans.RequestedReplaceMetadata),
    ],
)
def test_plans_of_hudi_015_lack_a_field_and_mean_the_same(
    table: str, suffix: str, kind: type[Any]
) -> None:
    for raw in files_ending(table, suffix):
        plan = plans.decode(kind, raw)
        assert plans.decode(kind, plans.encode(plan)) == plan


def test_a_compaction_plan_names_slices() -> None:
    raw = files_ending("v9_mor_compaction_pending", ".compaction.requested")[0]
    plan = plans.decode(plans.CompactionPlan, raw)
    assert plan.version == 2
    assert plan.operations
    for operation in plan.operations:
        assert all(path.startswith(f".{operation.file_id}_") for path in operation.delta_file_paths)


def test_a_log_compaction_plan_carries_its_strategy() -> None:
    raw = files_ending("v9_mor_log_compaction_pending", ".logcompaction.requested")[0]
    strategy = plans.decode(plans.CompactionPlan, raw).strategy
    assert strategy is not None
    assert strategy.compactor_class_name is not None
    assert strategy.compactor_class_name.endswith("LogCompactionExecutionHelper")


@pytest.mark.parametrize(
    ("table", "suffix", "is_clustering"),
    [
        ("v6_cow_clustering_pending", ".replacecommit.requested", True),
        ("v6_cow_delete_partition", ".replacecommit.requested", False),
        ("v9_mor_clustering_inflight", ".clustering.requested", True),
    ],
)
def test_a_clustering_is_told_from_an_overwrite(
    table: str, suffix: str, is_clustering: bool
) -> None:
    raw = files_ending(table, suffix)[0]
    found = plans.decode(plans.RequestedReplaceMetadata, raw)
    assert found.is_clustering is is_clustering


def test_a_restore_lists_what_it_took_back() -> None:
    plan = plans.decode(plans.RestorePlan, files_ending("v9_cow_restored", ".restore.requested")[0])
    done = plans.decode(plans.RestoreMetadata, files_ending("v9_cow_restored", ".restore")[0])
    assert plan.savepoint_to_restore_timestamp is not None
    planned = [instant.commit_time for instant in plan.instants_to_rollback]
    assert planned == sorted(planned, reverse=True)
    assert set(done.hoodie_restore_metadata) == set(planned)


def test_another_kind_of_file_is_not_taken_for_an_empty_plan() -> None:
    with pytest.raises(Malformed, match="HoodieIndexPlan and no HoodieCompactionPlan"):
        plans.decode(plans.CompactionPlan, plans.encode(plans.IndexPlan()))


def test_an_empty_file_is_no_plan() -> None:
    with pytest.raises(Malformed):
        plans.decode(plans.CompactionPlan, b"")


def test_history_that_an_upgrade_wrote_holds_plans_without_a_container() -> None:
    seen = 0
    for path, data in meta_files(UPGRADED).items():
        if not path.endswith(".parquet"):
            continue
        for instant in lsm_history.decode_instants(io.BytesIO(data), with_contents=True):
            if instant.action is Action.CLEAN and instant.metadata:
                clean = plans.decode_archived(plans.CleanMetadata, instant.metadata)
                assert clean.start_clean_time == instant.requested_time
                seen += 1
            if instant.action is Action.COMMIT and instant.plan:
                assert plans.decode_archived(plans.CompactionPlan, instant.plan).operations
                seen += 1
    assert seen > 0
