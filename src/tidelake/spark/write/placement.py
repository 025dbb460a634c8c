"""How the rows of a write are spread over Spark tasks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tidelake.files.write_task import GROUP, PLACE
from tidelake.records.schema import PARTITION_PATH

#: So many rows, beside so many bytes of base files to rewrite, are done in one task before a
#: shuffle would have begun.
_ONE_TASK_ROWS = 50_000
_ONE_TASK_BYTES = 12 << 20
#: Each row looks for its group in a list; more work than this and a hash is quicker.
_PLACED_LOOKS = 40_000_000
_PLACED_GROUPS = 400
_GROUPS_PER_CORE = 2
#: So many groups for each core get a task of their own, which spares them to be sorted.
_ALONE_PER_CORE = 8

At = tuple[str, str]


def fits_one_task(rows: int, rewritten_bytes: int) -> bool:
    """Return whether a write is so small that a shuffle would cost more than it saves."""
    return rows <= _ONE_TASK_ROWS and rewritten_bytes <= _ONE_TASK_BYTES


def spread(
    frame: DataFrame, weights: Mapping[At, int], rows: int, cores: int, wanted: int | None
) -> tuple[DataFrame, Mapping[int, At]]:
    """Return the rows with each group whole in one partition, partitions of similar weight.

    The rows of a group follow each other. Where groups are few, a number says the partition and
    group of a row instead of the two columns; what it says comes with the rows.
    """
    groups = len(weights)
    tasks = wanted or (groups if groups <= cores * _ALONE_PER_CORE else cores * _GROUPS_PER_CORE)
    if groups > _PLACED_GROUPS or groups * rows > _PLACED_LOOKS:
        shuffled = frame.repartition(tasks, PARTITION_PATH, GROUP)
        return shuffled.sortWithinPartitions(PARTITION_PATH, GROUP), {}
    numbers = salts(weights, tasks)
    pairs = [
        F.lit(text)
        for (partition, group), number in numbers.items()
        for text in (f"{group}/{partition}", number)
    ]
    name = F.concat(F.col(GROUP), F.lit("/"), F.col(PARTITION_PATH))
    placed = frame.withColumn(PLACE, F.element_at(F.create_map(*pairs), name))
    shuffled = placed.drop(PARTITION_PATH, GROUP).repartition(tasks, PLACE)
    if groups > tasks:
        # One number is sorted by its bits; partition and group are compared as texts.
        shuffled = shuffled.sortWithinPartitions(PLACE)
    return shuffled, {number: at for at, number in numbers.items()}


def salts(weights: Mapping[At, int], tasks: int) -> dict[At, int]:
    """Return a number of its own for each group, which Spark's hash partitioning sends to a task.

    Tasks get groups of similar weight in all, and none gets two while another has none.
    """
    loads = [0] * tasks
    spare: list[list[int]] = [[] for _ in range(tasks)]
    numbers = count()
    found = {}
    for at in sorted(weights, key=lambda at: (-weights[at], at)):
        lightest = loads.index(min(loads))
        while not spare[lightest]:
            number = next(numbers)
            spare[_murmur3(number) % tasks].append(number)
        found[at] = spare[lightest].pop()
        loads[lightest] += weights[at] + 1
    return found


def _murmur3(value: int, seed: int = 42) -> int:
    """Return Spark's hash of an integer column, as a signed number."""
    mask = 0xFFFFFFFF
    mixed = value * 0xCC9E2D51 & mask
    mixed = (mixed << 15 | mixed >> 17) & mask
    mixed = mixed * 0x1B873593 & mask
    hashed = seed ^ mixed
    hashed = (hashed << 13 | hashed >> 19) & mask
    hashed = (hashed * 5 + 0xE6546B64) & mask
    hashed ^= 4
    hashed ^= hashed >> 16
    hashed = hashed * 0x85EBCA6B & mask
    hashed ^= hashed >> 13
    hashed = hashed * 0xC2B2AE35 & mask
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed
