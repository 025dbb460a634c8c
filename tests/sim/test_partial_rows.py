from __future__ import annotations

import random  # noqa: TID251 - seeded

import pytest

from tests import partial_model as model
from tests.sim.partial_rows import drawn, wrong

RUNS = 150


def test_a_compaction_changes_no_row() -> None:
    assert [found for seed in range(RUNS) for found in wrong(seed)] == []


def test_many_compactions_are_held_to_that() -> None:
    logs = [drawn(random.Random(seed)) for seed in range(RUNS)]
    free = [not model.may_differ(None, log, at) for log in logs for at in range(1, len(log))]
    assert sum(free) > len(free) / 3


def test_a_seed_finds_records_that_are_merged_by_what_came_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidelake.records.late_columns.merges_by_column", lambda _spec: False)
    assert next(found for seed in range(RUNS) if (found := wrong(seed)))
