"""How tasks are shared out."""

from __future__ import annotations

from itertools import chain

import pytest

from tidelake.operations.bins import in_order


@pytest.mark.parametrize("tasks", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_bins_in_order_hold_every_task_once_and_about_as_many_each(tasks: int, count: int) -> None:
    bins = in_order(range(tasks), count)
    assert list(chain.from_iterable(bins)) == list(range(tasks))
    assert max(map(len, bins)) - min(map(len, bins)) <= 1


def test_no_tasks_need_no_bins() -> None:
    assert in_order((), 0) == []
