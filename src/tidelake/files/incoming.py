"""The rows that a write brings to one file group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidelake.errors import SchemaError
from tidelake.files.layout import Layout, as_series
from tidelake.files.log_records import deleted, without_ordering
from tidelake.files.task import ReadSpec
from tidelake.files.write_task import CHANGE, COLUMNS, POSITION, ROW, Change, ColumnSet, WriteSpec
from tidelake.formats.table_schema import column_names
from tidelake.records._polars import polars as pl
from tidelake.records.merge import (
    Flags,
    LogRecords,
    Ordering,
    Rows,
    Winners,
    concat_ordering,
    resolve,
)
from tidelake.records.schema import META_COLUMNS, PLACE_COLUMNS, RECORD_KEY, conform


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """Rows of one file group, brought to the table's schema.

    `rows` holds the columns of `layout.rows`: of the meta columns only the record key is filled.
    `ordering` are the ordering values; `by_arrival` marks the deletes that come without one.
    `absent` marks, for each column, the partial rows that do not bring it. `became` says which rows
    of the table became these, where they were read from it.
    """

    rows: pa.Table
    change: Rows
    position: pa.ChunkedArray | None
    is_delete: Flags
    by_arrival: Flags
    ordering: Ordering
    absent: Mapping[str, Flags] = field(default_factory=dict)
    became: pa.ChunkedArray | None = None

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def take(self, at: Rows) -> Incoming:
        """Return the rows `at`, in that order."""
        return Incoming(
            rows=self.rows.take(pa.array(at)),
            change=self.change[at],
            position=None if self.position is None else self.position.take(pa.array(at)),
            is_delete=self.is_delete[at],
            by_arrival=self.by_arrival[at],
            ordering=tuple(values.gather(at) for values in self.ordering),
            absent={name: flags[at] for name, flags in self.absent.items()},
            became=None if self.became is None else self.became.take(pa.array(at)),
        )


def read_spec(spec: WriteSpec) -> ReadSpec:
    """Return how a write reads the files of its table: all columns, as the table has them now."""
    user = [name for name in column_names(spec.schema) if name not in META_COLUMNS]
    return ReadSpec(
        storage=spec.storage,
        schema=spec.schema,
        columns=(*META_COLUMNS, *user),
        merge=spec.merge,
        keys=spec.keys,
        populate_meta_fields=spec.populate_meta_fields,
        history=spec.history,
    )


def incoming(table: pa.Table, layout: Layout, sets: Sequence[ColumnSet] = ()) -> Incoming:
    """Take a batch of incoming rows apart; `sets` are the columns of those that are partial.

    Raises `SchemaError` for a row without a key, and for a type that cannot become the table's.
    """
    keys = table.column(RECORD_KEY)
    if keys.null_count:
        raise SchemaError(
            f"{keys.null_count} rows have no record key",
            next_step="give every row a value in its key fields",
        )
    wanted = layout.with_rows(layout.ordering, layout.deletes)
    rows = conform(table, wanted)
    change = table.column(CHANGE).to_numpy().astype(np.int64)
    given = change == Change.DELETE
    ordering = layout.ordering_of(rows)
    is_delete = given | deleted(rows, layout)
    return Incoming(
        rows=rows.select(layout.rows.names),
        change=change,
        position=table.column(POSITION) if POSITION in table.column_names else None,
        is_delete=is_delete,
        by_arrival=given | (is_delete & without_ordering(ordering)),
        ordering=ordering,
        absent=_absent(table, layout, sets),
        became=table.column(ROW) if ROW in table.column_names else None,
    )


def _absent(table: pa.Table, layout: Layout, sets: Sequence[ColumnSet]) -> dict[str, Flags]:
    if COLUMNS not in table.column_names:
        return {}
    number = table.column(COLUMNS).fill_null(-1).to_numpy().astype(np.int64)
    found: dict[str, Flags] = {}
    for at, each in enumerate(sets):
        chosen = number == at
        if not chosen.any():
            continue
        kept = {*each.names, *META_COLUMNS} - set(PLACE_COLUMNS if each.is_known else ())
        for name in layout.rows.names:
            if name not in kept:
                found[name] = found[name] | chosen if name in found else chosen
    return found


def all_incoming(
    batches: Iterable[pa.RecordBatch], layout: Layout, sets: Sequence[ColumnSet] = ()
) -> Incoming | None:
    """Return all rows of the file group at once, or None when there are none."""
    tables = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
    return incoming(pa.concat_tables(tables).combine_chunks(), layout, sets) if tables else None


def each_incoming(
    batches: Iterable[pa.RecordBatch], layout: Layout, sets: Sequence[ColumnSet] = ()
) -> Iterator[Incoming]:
    """Return the rows batch by batch."""
    for batch in batches:
        if batch.num_rows:
            yield incoming(pa.Table.from_batches([batch]), layout, sets)


def joined(parts: Sequence[Incoming]) -> Incoming:
    """Return several runs of rows as one."""
    if len(parts) == 1:
        return parts[0]
    positions = [part.position for part in parts if part.position is not None]
    return Incoming(
        rows=pa.concat_tables([part.rows for part in parts]).combine_chunks(),
        change=np.concatenate([part.change for part in parts]),
        position=pa.chunked_array([chunk for each in positions for chunk in each.chunks])
        if len(positions) == len(parts)
        else None,
        is_delete=np.concatenate([part.is_delete for part in parts]),
        by_arrival=np.concatenate([part.by_arrival for part in parts]),
        ordering=concat_ordering([part.ordering for part in parts]),
        absent={
            name: np.concatenate(
                [part.absent.get(name, np.zeros(len(part), np.bool_)) for part in parts]
            )
            for name in dict.fromkeys(name for part in parts for name in part.absent)
        },
    )


def identity(keys: pl.Series, rows: pa.ChunkedArray) -> pl.Series:
    """Return what tells rows apart that may have one key: key and sequence number."""
    made: pl.Series = keys + "\0" + as_series(rows).cast(pl.String).fill_null("")
    return made


def combined(new: Incoming, layout: Layout) -> Winners:
    """Merge the rows of each key among themselves, in the order in which they came.

    Rows of one write come at once: what they merge to meets the table's row as one record. Rows
    that were read from the table go by their `identity`.
    """
    keys = as_series(new.rows.column(RECORD_KEY))
    made = resolve(
        LogRecords(
            keys=keys if new.became is None else identity(keys, new.became),
            is_delete=new.is_delete,
            by_arrival=new.by_arrival,
            ordering=new.ordering,
            row=np.arange(len(new), dtype=np.int64),
            rows=new.rows,
            absent=new.absent,
            defaults=layout.defaults,
        ),
        layout.merge,
    )
    return replace(made, played=None)


def lean(new: Incoming) -> Incoming:
    """Return the rows, partial ones without the meta columns that say where a row is.

    The table's row has them, and of a row that is new the log's own place tells.
    """
    if not new.absent:
        return new
    is_partial: Flags = np.logical_or.reduce(list(new.absent.values()))
    return replace(new, absent={**new.absent, **dict.fromkeys(PLACE_COLUMNS, is_partial)})


def distinct(new: Incoming, layout: Layout) -> Incoming:
    """Return one row for each key, merged as `combined` says."""
    keys = as_series(new.rows.column(RECORD_KEY))
    if keys.n_unique() == len(keys):
        return new
    winners = combined(new, layout)
    at = winners.row
    rows = winners.merged()
    return Incoming(
        rows=rows,
        change=new.change[at],
        position=None if new.position is None else new.position.take(pa.array(at)),
        is_delete=winners.is_delete,
        by_arrival=winners.by_arrival,
        ordering=winners.ordering,
        absent={name: flags for name, flags in winners.absent().items() if name in new.absent},
    )
