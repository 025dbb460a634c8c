"""Late partial records: which of their columns count, when other records of the key are newer.

A whole row that is the newest of its key stands for all before it, wherever it lies: in a base file
or, until a compaction puts it there, in a log. Partial records that come after it are compared with
each other column by column. So a compaction of the whole row changes no answer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelake.model import MergeMode
from tidelake.records.merge_spec import Fill, MergeSpec

Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

_NO_ROW = -3


def merges_by_column(spec: MergeSpec) -> bool:
    """Return whether a late partial record is compared with each column, and not with the record.

    Otherwise it gives only what no record before it has brought, be that newer or older.
    """
    return spec.mode is MergeMode.EVENT_TIME and not spec.groups and spec.fill is Fill.NONE


class LateColumns:
    """What is known of the records of each key so far, to judge the next one of it.

    `ranks` order rows as their ordering values do; `is_partial` marks rows of partial records.
    """

    def __init__(self, ranks: Rows, is_partial: Flags, *, keys: int, ties_to_earlier: bool) -> None:
        self._ranks = ranks
        self._is_partial = is_partial
        self._ties_to_earlier = ties_to_earlier
        # The whole row of each key that counts as its base row.
        self._whole: Rows = np.full(keys, _NO_ROW, np.int64)
        # Keys of which a partial record has come since.
        self._has_partial: Flags = np.zeros(keys, np.bool_)

    def begin(self, keys: Rows, row: Rows) -> None:
        """Take the row as the first of its key, or the first after a delete; below zero is none."""
        partial = (row >= 0) & self._is_partial[row]
        self._whole[keys] = np.where(partial | (row < 0), _NO_ROW, row)
        self._has_partial[keys] = partial

    def won(self, keys: Rows, row: Rows) -> None:
        """Take the row, which is the newest of its key, to those before it."""
        partial = self._is_partial[row]
        self._whole[keys] = np.where(partial, self._whole[keys], row)
        self._has_partial[keys] = partial

    def brings(self, keys: Rows, old: Rows, new: Rows) -> Flags:
        """Return where late rows `new` bring a column that rows `old` have given so far.

        They do when that is older, or stems from the whole row. They bring nothing to a whole row
        alone, which is newer.
        """
        of_whole = (old < 0) | (old == self._whole[keys])
        theirs = self._ranks[np.maximum(old, 0)]
        ours = self._ranks[np.maximum(new, 0)]
        newer = ours > theirs if self._ties_to_earlier else ours >= theirs
        found: Flags = self._has_partial[keys] & (new >= 0) & (of_whole | newer)
        return found
