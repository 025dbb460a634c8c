"""Rows of a base file with some of them changed where they stand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelake.records.merge import Flags, Rows
from tidelake.records.schema import conform


def put_in_place(rows: pa.Table, kept: Flags, changed: Rows, fresh: pa.Table) -> pa.Table:
    """Return the `kept` rows in their order, with `fresh` in the places `changed`.

    Columns that `fresh` has and `rows` has not are left out.
    """
    if not len(changed):
        return rows.filter(pa.array(kept))
    order = np.arange(rows.num_rows)
    order[changed] = rows.num_rows + np.arange(len(changed))
    both = pa.concat_tables([rows, conform(fresh, rows.schema)]).combine_chunks()
    return both.take(pa.array(order[kept]))
