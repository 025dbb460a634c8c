"""Damaged files, one at a time: each decodes, or is refused with an error of ours."""

from __future__ import annotations

import pytest

from tests.fuzz import codecs
from tests.fuzz.cases import Case, Report, attempt_file, files_of, run

TABLES = [
    "v6_mor_archived",
    "v6_mor_kg_custom",
    "v6_mor_consistent",
    "v6_mor_rollback_direct",
    "v6_cow_mdt_full",
    "v6_cow_clustering_pending",
    "v6_cow_cdc_full",
    "v6_mor_parquet_log",
    "v8_mor_restored",
    "v8_mor_partial_update",
    "v9_cow_archived_lsm",
    "v9_cow_schema_on_read",
    "v9_mor_record_index_full_mdt",
    "v9_mor_types_full_mdt",
    "v9_mor_cleaned",
    "v9_mor_savepoint",
    "v9_mor_log_compaction_executed",
    "v9_mor_two_ordering_fields",
    "v9_mor_cdc_op_key_only",
    "v9_mor_consistent_hashing_resized",
]


def cases(per_kind: int, first_seed: int) -> list[Case]:
    """Return as many cases of every kind of file, spread over the tables."""
    by_kind: dict[str, list[tuple[str, str]]] = {}
    for table in TABLES:
        for kind, paths in codecs.kinds(p for p, d in files_of(table).items() if d).items():
            by_kind.setdefault(kind, []).extend((table, path) for path in sorted(paths))
    assert by_kind.keys() == codecs.CODECS.keys()
    found = []
    for places in by_kind.values():
        # A stride that visits all tables before it comes back to the first.
        step = max(1, len(places) // per_kind)
        chosen = places[::step]
        found += [Case(*chosen[i % len(chosen)], first_seed + i) for i in range(per_kind)]
    return found


def check(report: Report) -> None:
    assert not report.failures, f"{len(report.failures)} failures\n" + "\n".join(
        report.failures[:5]
    )
    assert report.ends["refused"] > report.ends.total() / 4, report.ends


def test_sound_files_decode() -> None:
    for table in TABLES:
        for path, data in files_of(table).items():
            kind = codecs.kind_of(path)
            if kind is not None and data:
                codecs.CODECS[kind][1](path, data)


def test_damaged_files() -> None:
    check(run(cases(per_kind=40, first_seed=0), attempt_file))


@pytest.mark.fuzz
@pytest.mark.timeout(1800)
def test_thousands_of_damaged_files() -> None:
    check(run(cases(per_kind=2000, first_seed=1000), attempt_file))
