from __future__ import annotations

import pytest

from tests.lanes import spread


@pytest.mark.parametrize(
    ("size", "chosen", "positions"),
    [(6, 1, {5}), (6, 2, {0, 5}), (6, 3, {0, 2, 5}), (2, 3, {0, 1}), (1, 2, {0})],
)
def test_a_sample_is_spread_over_all_cases(size: int, chosen: int, positions: set[int]) -> None:
    assert spread(size, chosen) == positions


def test_a_sample_has_as_many_as_asked_for() -> None:
    assert all(len(spread(size, n)) == min(n, size) for size in range(1, 90) for n in range(1, 90))
