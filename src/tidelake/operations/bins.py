"""How slices are shared out among Spark tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from tidelake.files import SliceTask

T = TypeVar("T")

#: A Spark task costs a tenth of a second in its worker, so small slices travel together.
_BIN_BYTES = 256 << 20


def weight(task: SliceTask) -> int:
    """Return the bytes that reading a slice touches; log bytes cost more than others."""
    return task.base_size_bytes + 4 * task.log_size_bytes


def pack(tasks: Sequence[SliceTask], parallelism: int) -> list[tuple[SliceTask, ...]]:
    """Return the tasks in bins of similar weight, heavy slices alone, at least one bin a core."""
    if not tasks:
        return []
    total = sum(weight(task) for task in tasks)
    count = min(len(tasks), max(parallelism, -(-total // _BIN_BYTES)))
    bins: list[list[SliceTask]] = [[] for _ in range(count)]
    loads = [0] * count
    for task in sorted(tasks, key=weight, reverse=True):
        lightest = loads.index(min(loads))
        bins[lightest].append(task)
        loads[lightest] += weight(task) + 1
    return [tuple(of) for of in bins]


def in_order(tasks: Sequence[T], count: int) -> list[Sequence[T]]:
    """Return the tasks in `count` bins of about as many, which have them in their order."""
    bounds = [len(tasks) * at // max(1, count) for at in range(count + 1)]
    return [tasks[begin:end] for begin, end in pairwise(bounds)]
