"""Buckets with more than one live file group: our writers leave none, and readers tell of them.

Two writers that knew nothing of each other left them. Each file group is read for itself, as Apache
Hudi does: a key that is in both comes twice. Which row is meant, no reader can tell.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from tidelake.formats.file_name import bucket_number
from tidelake.model import FileSlice

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitBucket:
    """A bucket of a partition, and the file ids of its live file groups."""

    partition: str
    number: int
    file_ids: tuple[str, ...]


def split_buckets(slices: Iterable[FileSlice]) -> list[SplitBucket]:
    """Return the buckets that have more than one of the file groups.

    An id that names no bucket says that the table has no bucket index: then there are none.
    """
    found: dict[tuple[str, int], set[str]] = {}
    for piece in slices:
        number = bucket_number(piece.group.file_id)
        if number is None:
            return []
        found.setdefault((piece.group.partition, number), set()).add(piece.group.file_id)
    return [
        SplitBucket(partition=partition, number=number, file_ids=tuple(sorted(ids)))
        for (partition, number), ids in sorted(found.items())
        if len(ids) > 1
    ]


def warn_of_split_buckets(slices: Iterable[FileSlice]) -> None:
    """Log a warning when a query will give rows of buckets that two file groups have."""
    found = split_buckets(slices)
    if found:
        first = found[0]
        _log.warning(
            "%d buckets have more than one file group, such as bucket %d of partition %r (%s): a "
            "key that is in both comes twice; `tidelake check` lists them",
            len(found),
            first.number,
            first.partition,
            ", ".join(first.file_ids),
        )
