"""Where statistics of files come from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from tidelake.model import ColumnStats


class FileStatistics(Protocol):
    """Statistics that a table keeps of its files."""

    def column_stats(
        self, columns: Collection[str], partitions: Sequence[str] | None = None
    ) -> Mapping[str, Mapping[str, ColumnStats]]:
        """Return by file name, then by column, what is known; what is missing is unknown."""

    def partition_stats(self, columns: Collection[str]) -> Mapping[str, Mapping[str, ColumnStats]]:
        """Return by partition, then by column, what is known; what is missing is unknown."""
