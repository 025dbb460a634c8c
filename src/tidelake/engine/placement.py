"""How the rows of a write are spread over Spark tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tidelake.engine.incoming_rows import GROUP
from tidelake.records.schema import PARTITION_PATH

#: So many rows, beside so many bytes of base files to rewrite, are done in one task before a
#: shuffle would have begun.
_ONE_TASK_ROWS = 50_000
_ONE_TASK_BYTES = 12 << 20
#: Each row looks for its group in a list; more work than this and a hash is quicker.
_PLACED_LOOKS = 40_000_000
_PLACED_GROUPS = 400
_GROUPS_PER_CORE = 2

At = tuple[str, str]


def fits_one_task(rows: int, rewritten_bytes: int) -> bool:
    """Return whether a write is so small that a shuffle would cost more than it saves."""
    return rows <= _ONE_TASK_ROWS and rewritten_bytes <= _ONE_TASK_BYTES


def spread(
    frame: DataFrame, weights: Mapping[At, int], rows: int, cores: int, wanted: int | None
) -> DataFrame:
    """Return the rows with each group whole in one partition, partitions of similar weight."""
    groups = len(weights)
    tasks = wanted or min(groups, cores * _GROUPS_PER_CORE)
    if groups <= _PLACED_GROUPS and groups * rows <= _PLACED_LOOKS:
        salts = salts_for(tasks)
        at_bin = _bins(weights, tasks)
        pairs = [
            F.lit(text)
            for (partition, group), number in at_bin.items()
            for text in (f"{group}/{partition}", salts[number])
        ]
        name = F.concat(F.col(GROUP), F.lit("/"), F.col(PARTITION_PATH))
        frame = frame.withColumn("_tidelake_salt", F.element_at(F.create_map(*pairs), name))
        frame = frame.repartition(tasks, "_tidelake_salt").drop("_tidelake_salt")
    else:
        frame = frame.repartition(tasks, PARTITION_PATH, GROUP)
    return frame.sortWithinPartitions(PARTITION_PATH, GROUP)


def _bins(weights: Mapping[At, int], count: int) -> dict[At, int]:
    loads = [0] * count
    found = {}
    for at in sorted(weights, key=lambda at: (-weights[at], at)):
        lightest = loads.index(min(loads))
        found[at] = lightest
        loads[lightest] += weights[at] + 1
    return found


def salts_for(count: int) -> Sequence[int]:
    """Return for each partition a number that Spark's hash partitioning sends there."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < count:
        found.setdefault(_murmur3(number) % count, number)
        number += 1
    return [found[at] for at in range(count)]


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
