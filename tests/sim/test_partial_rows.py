from __future__ import annotations

import pytest

from tests.sim.partial_rows import wrong

RUNS = 500


def test_a_compaction_changes_no_row() -> None:
    assert [found for seed in range(RUNS) for found in wrong(seed)] == []


def test_a_seed_finds_records_that_are_merged_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidelake.records.merge.merges_by_column", lambda _spec: False)
    assert next(found for seed in range(RUNS) if (found := wrong(seed)))
