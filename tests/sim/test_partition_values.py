from __future__ import annotations

import pytest

from tests.sim.partition_values import wrong

RUNS = 1_000


def test_every_partition_that_is_written_is_found_again() -> None:
    assert [found for seed in range(RUNS) for found in wrong(seed)] == []


@pytest.mark.parametrize(
    ("rule", "without"),
    [
        ("tidelake.write.arrow_keys.unreadable", lambda *_args, **_how: None),
        ("tidelake.files.new_file._refuse_nested", lambda *_args: None),
    ],
)
def test_without_a_rule_a_seed_finds_what_it_is_for(
    rule: str, without: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, without)
    assert next(found for seed in range(RUNS) if (found := wrong(seed)))
