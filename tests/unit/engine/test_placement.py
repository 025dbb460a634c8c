from __future__ import annotations

import pytest

from tidelake.engine.placement import _bins, _murmur3, salts_for


def test_the_hash_is_that_of_spark() -> None:
    # select hash(0), hash(1), hash(-1), hash(42)
    assert [_murmur3(n) for n in (0, 1, -1, 42)] == [933211791, -559580957, -1604776387, 29417773]


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_every_partition_has_a_number_that_leads_there(count: int) -> None:
    assert [_murmur3(n) % count for n in salts_for(count)] == list(range(count))


def test_groups_are_spread_by_weight() -> None:
    weights = {("p", name): weight for name, weight in zip("abcde", (9, 5, 4, 3, 3), strict=True)}
    bins = _bins(weights, 2)
    loads = [sum(w for at, w in weights.items() if bins[at] == n) for n in (0, 1)]
    assert loads == [12, 12]
