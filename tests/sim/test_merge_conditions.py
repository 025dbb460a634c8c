from __future__ import annotations

import re

import pytest

from tests.sim.merge_conditions import wrong
from tidelake.spark.merge.conditions import Qualifiers

RUNS = 2_000


def split_by_words(condition: str, _qualifiers: Qualifiers) -> str | None:
    """Take a condition apart without a look at literals and comments."""
    if re.search(r"(?i)\b(?:or|not|case|between)\b|[()]|--|/\*", condition):
        return None
    comparison = re.compile(r"\s*(?:target|t)\.(\w+)\s*(=|<=|>=|<|>)\s*('[^'\\]*'|-?\d+)\s*")
    found = [comparison.fullmatch(part) for part in re.split(r"(?i)\band\b", condition)]
    return " AND ".join(f"`{m[1]}` {m[2]} {m[3]}" for m in found if m is not None) or None


def test_a_merge_prunes_no_row_that_matches() -> None:
    assert [found for seed in range(RUNS) for found in wrong(seed)] == []


def test_a_seed_finds_a_condition_that_is_split_by_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidelake.spark.merge.conditions.table_condition", split_by_words)
    assert next(found for seed in range(RUNS) if (found := wrong(seed)))


def test_a_seed_finds_an_alias_of_the_source_that_is_taken_for_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Qualifiers, "is_table", lambda _, word: word in ("target", "t"))
    assert next(found for seed in range(RUNS) if (found := wrong(seed)))
