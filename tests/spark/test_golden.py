"""A part of the golden set with every kind of table and query; `make golden` asks all of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Unpack
from tests.golden import harness
from tests.golden.harness import Verdict
from tidelake import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHOSEN = [
    "cow_v6_empty",
    "cow_v8_complexkeygen_hivestyle",
    "mor_parquet_v6_nonpartitioned",
    "v6_cow_archived",
    "v6_cow_cdc_key",
    "v6_cow_clean",
    "v6_cow_kg_urlencoded",
    "v6_cow_no_meta",
    "v6_cow_occ",
    "v6_mor_compaction_pending",
    "v6_mor_evolve",
    "v6_mor_failed_lazy",
    "v6_mor_mdt_full",
    "v6_mor_non_defaults",
    "v6_mor_rollback_direct",
    "v8_mor_clustering_inflight",
    "v8_mor_partial_update",
    "v9_cow_cdc_data_before_after",
    "v9_cow_delete_partition",
    "v9_cow_schema_on_read",
    "v9_cow_types_ntz",
    "v9_mor_archived_lsm_mdt",
    "v9_mor_delete_marker",
    "v9_mor_log_compaction_executed",
    "v9_mor_log_truncated",
    "v9_mor_nbcc_overlap_compacted",
    "v9_mor_two_ordering_fields",
    "v9_mor_types_full_mdt",
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", CHOSEN)
def test_answers_are_those_of_apache_hudi(
    name: str, spark: SparkSession, golden_table: Unpack
) -> None:
    golden, root = harness.load(name), golden_table(name)
    wrong = []
    for options in harness.settings(golden, root):
        open_table = partial(Table.open, spark, str(root), options=options)
        for question in golden.questions:
            outcome = harness.judge(question, open_table)
            if outcome.verdict is Verdict.DIFFERS:
                wrong.append(f"{question.label} {options}: {outcome.story}")
    assert not wrong, "\n".join(wrong)
