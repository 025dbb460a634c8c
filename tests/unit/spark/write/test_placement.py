from __future__ import annotations

import pytest

from tidelake.spark.write.placement import _murmur3, salts


def test_the_hash_is_that_of_spark() -> None:
    # select hash(0), hash(1), hash(-1), hash(42)
    assert [_murmur3(n) for n in (0, 1, -1, 42)] == [933211791, -559580957, -1604776387, 29417773]


WEIGHTS = {("p", name): weight for name, weight in zip("abcde", (9, 5, 4, 3, 3), strict=True)}


def test_groups_are_spread_by_weight() -> None:
    found = salts(WEIGHTS, 2)
    loads = [sum(w for at, w in WEIGHTS.items() if _murmur3(found[at]) % 2 == n) for n in (0, 1)]
    assert loads == [12, 12]


@pytest.mark.parametrize("tasks", [1, 2, 5, 64])
def test_no_two_groups_have_one_number(tasks: int) -> None:
    assert len(set(salts(WEIGHTS, tasks).values())) == len(WEIGHTS)


@pytest.mark.parametrize("tasks", [5, 6, 64])
def test_where_there_are_enough_tasks_each_group_has_one_of_its_own(tasks: int) -> None:
    weights = {**WEIGHTS, ("p", "a"): 0, ("p", "b"): 0}
    assert len({_murmur3(n) % tasks for n in salts(weights, tasks).values()}) == len(weights)
