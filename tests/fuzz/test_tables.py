"""Tables with one damaged file: the right rows, or an error of ours."""

from __future__ import annotations

import pytest

from tests.fuzz import codecs
from tests.fuzz.cases import Case, Report, attempt_table, files_of, run

TABLES = [
    "v6_mor_compaction_done",
    "v6_cow_mdt_full",
    "v6_mor_rollback_direct",
    "v9_mor_record_index_full_mdt",
    "v9_mor_schema_on_read",
    "v9_mor_two_ordering_fields",
    "v8_mor_partial_update",
    "v9_cow_archived_lsm",
    "v6_mor_parquet_log",
    "v6_mor_archived",
    "v9_mor_types_full_mdt",
    "v9_cow_cdc_data_before",
    "v9_mor_cdc_op_key_only",
    "v9_cow_clustering_executed",
]


def cases(per_table: int, first_seed: int) -> list[Case]:
    """Return cases for each table, every kind of file as often as another."""
    found = []
    for table in TABLES:
        by_kind = codecs.kinds(path for path, data in sorted(files_of(table).items()) if data)
        groups = list(by_kind.values())
        for i in range(per_table):
            paths = groups[i % len(groups)]
            seed = first_seed + i
            path = paths[(i // len(groups)) % len(paths)]
            found.append(Case(table, path, seed, cut=i % 4 == 3, whole=True))
    return found


def check(report: Report) -> None:
    assert not report.failures, f"{len(report.failures)} failures\n" + "\n".join(
        report.failures[:5]
    )
    assert report.ends["refused"], report.ends


@pytest.mark.deep
def test_damaged_tables() -> None:
    check(run(cases(per_table=6, first_seed=0), attempt_table))


@pytest.mark.fuzz
@pytest.mark.timeout(3600)
def test_thousands_of_damaged_tables() -> None:
    check(run(cases(per_table=150, first_seed=1000), attempt_table))
