"""Read one file slice: its base file, or base file and logs merged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import CorruptFileError
from tidelake.files.base_file import BaseFile
from tidelake.files.layout import Layout, as_series
from tidelake.files.log_records import (
    PlacedBlock,
    Share,
    decode_log,
    positions_of,
    scan_logs,
)
from tidelake.files.task import ReadSpec, SliceTask
from tidelake.records._polars import polars as pl
from tidelake.records.merge import Flags, Ordering, Rows, Winners, meet, resolve
from tidelake.records.schema import (
    COMMIT_TIME,
    FILE_NAME,
    PARTITION_PATH,
    PLACE_COLUMNS,
    RECORD_KEY,
    constant_column,
)
from tidelake.storage import Storage, open_storage

Mask = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What the logs of a slice decide, without the base rows that they leave alone.

    Bit `i % 64` of `mask[i // 64]` is set when row `i` of the base file is not to be taken from
    there: it is deleted, or stands in `rows` in its new form.
    """

    rows: pa.Table
    mask: Mask
    base_rows: int


def read_base(task: SliceTask, spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    """Return the rows of the slice's base file."""
    layout = Layout.of(spec)
    if task.base_path is not None:
        file = BaseFile(open_storage(spec.storage), task, spec)
        for table in file.batches(layout.rows):
            yield from _output(table, spec, layout)


def read_slice(task: SliceTask, spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    """Return the merged rows of the slice.

    The base file is streamed and the log records are held; logs larger than the budget are merged
    in several passes, each over the keys of one share.
    """
    if answers_from_logs(task, spec):
        yield from _rows_of_window(task, spec).to_batches()
        return
    layout = Layout.of(spec)
    storage = open_storage(spec.storage)
    for table in merged_tables(storage, task, spec, layout):
        yield from _output(table, spec, layout)


def answers_from_logs(task: SliceTask, spec: ReadSpec) -> bool:
    """Return whether no base row can be in the answer: all are older than the query's window."""
    return (
        spec.keep_instants is not None
        and task.base_instant is not None
        and task.base_instant < min(spec.keep_instants, default="")
        and task.log_size_bytes <= spec.log_budget_bytes
    )


def merged_tables(
    storage: Storage, task: SliceTask, spec: ReadSpec, layout: Layout
) -> Iterator[pa.Table]:
    """Return the merged rows of the slice, in the columns of `layout.rows`."""
    base = None if task.base_path is None else BaseFile(storage, task, spec)
    blocks = scan_logs(storage, task, spec)
    if not blocks:
        if base is not None:
            yield from base.batches(layout.rows)
        return
    shares = max(1, -(-task.log_size_bytes // spec.log_budget_bytes))
    for index in range(shares):
        for table in _merge(storage, base, blocks, spec, layout, Share(index, shares)):
            yield placed(table, task)


def decide_slice(task: SliceTask, spec: ReadSpec) -> Decided:
    """Return what the logs of the slice decide, reading no more of the base file than that takes.

    A base row that beats its log record stays unmasked. When every block names the base rows of its
    records, the keys of the base file are not read.
    """
    layout = Layout.of(spec)
    storage = open_storage(spec.storage)
    winners, by_position = _log_winners(storage, task, spec, layout)
    if task.base_path is None:
        rows = _final(placed(winners.inserted(_none_of(winners)), task), spec, layout)
        return Decided(rows=rows, mask=np.zeros(0, np.uint64), base_rows=0)
    base = BaseFile(storage, task, spec)
    return _decide(base, winners, task, spec, layout, by_position=by_position)


def _rows_of_window(task: SliceTask, spec: ReadSpec) -> pa.Table:
    """Return the rows that `decide_slice` does, for a task that `answers_from_logs`.

    Only records inside the window are looked for in the base file, and none of them when no base
    row can outrank one.
    """
    layout = Layout.of(spec)
    storage = open_storage(spec.storage)
    winners, by_position = _log_winners(storage, task, spec, layout)
    if not winners.needs_base_rows:
        winners = winners.only(_in_window(winners, spec))
    if task.base_path is not None and len(winners):
        base = BaseFile(storage, task, spec)
        if winners.needs_base_rows or _may_outrank(base, winners, layout):
            return _decide(base, winners, task, spec, layout, by_position=by_position).rows
    return _final(placed(winners.inserted(_none_of(winners)), task), spec, layout)


def _in_window(winners: Winners, spec: ReadSpec) -> Flags:
    kept = pa.array(sorted(spec.keep_instants or ()), pa.string())
    inside = pc.is_in(winners.rows.column(COMMIT_TIME), value_set=kept).to_numpy()
    chosen = ~winners.is_delete
    chosen[chosen] = inside[winners.row[chosen]]
    return chosen


def _may_outrank(base: BaseFile, winners: Winners, layout: Layout) -> bool:
    """Return whether some row of the base file may beat the record of its key."""
    if not winners.needs_base_ordering:
        return False
    if len(layout.ordering_fields) != 1:
        return True
    ours = winners.ordering[0]
    highest = base.highest(layout.ordering_fields[0])
    if highest is None or not ours.dtype.is_integer() or ours.null_count():
        return True
    lowest = ours.min()
    return not (isinstance(lowest, int) and highest < lowest)


def _log_winners(
    storage: Storage, task: SliceTask, spec: ReadSpec, layout: Layout
) -> tuple[Winners, bool]:
    """Return what the logs merge to among themselves, and whether they name base rows."""
    blocks = scan_logs(storage, task, spec)
    by_position = spec.merge.use_positions and positions_of(blocks, task.base_instant)
    records = decode_log(storage, blocks, spec, layout, by_position=by_position)
    return resolve(records, layout.merge), by_position


def _none_of(winners: Winners) -> Flags:
    return np.zeros(len(winners), np.bool_)


def _decide(
    base: BaseFile,
    winners: Winners,
    task: SliceTask,
    spec: ReadSpec,
    layout: Layout,
    *,
    by_position: bool,
) -> Decided:
    positions, chosen, looked_at = _find(base, winners, task, spec, layout, by_position=by_position)
    ordering: Ordering = ()
    if winners.needs_base_ordering:
        ordering = layout.ordering_of(looked_at.take(pa.array(positions)))
    base_rows = _rows_at(base, layout.rows, positions) if winners.needs_base_rows else None
    met = meet(winners, chosen, ordering, base_rows)
    matched = _none_of(winners)
    matched[chosen] = True
    rows = pa.concat_tables([met.rows, winners.inserted(matched)])
    taken = np.zeros(-(-base.num_rows // 64) * 64, np.bool_)
    taken[positions[met.replaced]] = True
    mask = np.packbits(taken, bitorder="little").view("<u8")
    rows = _final(placed(rows, task), spec, layout)
    return Decided(rows=rows, mask=mask, base_rows=base.num_rows)


def _find(
    base: BaseFile,
    winners: Winners,
    task: SliceTask,
    spec: ReadSpec,
    layout: Layout,
    *,
    by_position: bool,
) -> tuple[Rows, Rows, pa.Table]:
    """Return base row numbers, the winners they meet, and the columns read to find out."""
    ordering = layout.ordering if winners.needs_base_ordering else pa.schema([])
    if by_position:
        positions = winners.keys.to_numpy()
        if len(positions) and int(positions.max()) >= base.num_rows:
            raise CorruptFileError(
                task.log_paths[-1],
                f"a record position lies beyond the {base.num_rows} rows of {task.base_path}",
            )
        looked_at = base.read(ordering) if len(ordering) else pa.table({})
        return positions, np.arange(len(winners), dtype=np.int64), looked_at
    base.require(layout.keys.names)
    looked_at = base.read(pa.schema({f.name: f for f in [*layout.keys, *ordering]}.values()))
    matcher = Matcher(winners)
    positions, chosen = matcher.match(row_keys(looked_at, spec))
    return positions, chosen, looked_at


def _rows_at(base: BaseFile, schema: pa.Schema, positions: Rows) -> pa.Table:
    """Return the rows of the base file at `positions`, in their order."""
    order = np.argsort(positions, kind="stable")
    ascending = positions[order]
    start = 0
    parts = [schema.empty_table()]
    for table in base.batches(schema):
        begin, end = np.searchsorted(ascending, [start, start + table.num_rows])
        if end > begin:
            parts.append(table.take(pa.array(ascending[begin:end] - start)))
        start += table.num_rows
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return pa.concat_tables(parts).combine_chunks().take(pa.array(back))


def _merge(
    storage: Storage,
    base: BaseFile | None,
    blocks: list[PlacedBlock],
    spec: ReadSpec,
    layout: Layout,
    share: Share,
) -> Iterator[pa.Table]:
    winners = resolve(decode_log(storage, blocks, spec, layout, share=share), layout.merge)
    matcher = Matcher(winners)
    if base is not None:
        base.require(layout.keys.names)
        twin = _twin_of_key(base, spec, layout)
        schema = layout.with_rows(*([] if twin else [layout.keys]), layout.ordering)
        for batch in base.batches(schema):
            table = batch
            keys = as_series(table.column(twin)) if twin else row_keys(table, spec)
            if share.of > 1:
                held = share.holds(keys)
                table, keys = table.filter(held.to_arrow()), keys.filter(held)
            yield from _merge_batch(table, keys, matcher, winners, layout)
    yield winners.inserted(matcher.matched)


def _twin_of_key(base: BaseFile, spec: ReadSpec, layout: Layout) -> str | None:
    """Return the column, read in any case, whose text is the record key, if there is one.

    Keys are long and compress badly: reading them twice would take a third of reading the file.
    """
    if not spec.populate_meta_fields or len(spec.keys.fields) != 1:
        return None
    name = spec.keys.fields[0]
    is_read = name in layout.rows.names and pa.types.is_string(layout.rows.field(name).type)
    return name if is_read and base.spell_the_same(name, RECORD_KEY) else None


def _merge_batch(
    table: pa.Table, keys: pl.Series, matcher: Matcher, winners: Winners, layout: Layout
) -> Iterator[pa.Table]:
    positions, chosen = matcher.match(keys)
    rows = table.select(layout.rows.names)
    if not len(positions):
        yield rows
        return
    touched = table.take(pa.array(positions))
    met = meet(winners, chosen, layout.ordering_of(touched), touched.select(layout.rows.names))
    keep = np.ones(table.num_rows, np.bool_)
    keep[positions[met.replaced]] = False
    yield rows.filter(pa.array(keep))
    yield met.rows


class Matcher:
    """Finds the base rows that have the key of a winner; of several, the first in the file."""

    def __init__(self, winners: Winners) -> None:
        self._index = pl.DataFrame(
            {"key": winners.keys, "winner": np.arange(len(winners), dtype=np.int64)}
        )
        self.matched: Flags = np.zeros(len(winners), np.bool_)

    def match(self, keys: pl.Series) -> tuple[Rows, Rows]:
        """Return the positions in `keys` that meet a winner not met before, and the winners."""
        found = (
            pl.DataFrame({"key": keys})
            .with_row_index("position")
            .join(self._index, on="key", how="inner")
            .sort("position")
        )
        positions = found["position"].to_numpy().astype(np.int64)
        chosen = found["winner"].to_numpy()
        chosen, first = np.unique(chosen, return_index=True)
        fresh = ~self.matched[chosen]
        chosen, positions = chosen[fresh], positions[first[fresh]]
        self.matched[chosen] = True
        return positions, chosen


def row_keys(table: pa.Table, spec: ReadSpec) -> pl.Series:
    """Return the record keys of rows that hold the columns of `Layout.keys`."""
    keys = table.column(RECORD_KEY) if spec.populate_meta_fields else spec.keys.keys(table)
    return as_series(keys)


def placed(table: pa.Table, task: SliceTask) -> pa.Table:
    """Return rows of logs that leave the partition columns out with the values of the path."""
    for name, value in task.partition_values:
        at = table.schema.get_field_index(name)
        if value is not None and at >= 0 and table.column(at).null_count:
            field = table.schema.field(at)
            known = constant_column(value, field.type, 1)[0]
            table = table.set_column(at, field, pc.fill_null(table.column(at), known))
    return _with_places(table, task)


def _with_places(table: pa.Table, task: SliceTask) -> pa.Table:
    """Return rows of which a partial record was the first with the meta columns it left out."""
    missing = [n for n in PLACE_COLUMNS if n in table.column_names and table.column(n).null_count]
    if not missing or not {COMMIT_TIME, RECORD_KEY}.issubset(table.column_names):
        return table
    time, key = table.column(COMMIT_TIME), table.column(RECORD_KEY)
    has_meta = pc.is_valid(time)
    for name in missing:
        known = {PARTITION_PATH: task.partition, FILE_NAME: task.file_id}.get(name)
        made = pc.binary_join_element_wise(time, key, "_") if known is None else known
        filled = pc.coalesce(table.column(name), pc.if_else(has_meta, made, None))
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), filled)
    return table


def _final(table: pa.Table, spec: ReadSpec, layout: Layout) -> pa.Table:
    """Return what the query asks for of merged rows."""
    if spec.keep_instants is not None:
        kept = pa.array(sorted(spec.keep_instants), pa.string())
        table = table.filter(pc.is_in(table.column(COMMIT_TIME), value_set=kept))
    return table.select(layout.output.names)


def _output(table: pa.Table, spec: ReadSpec, layout: Layout) -> Iterator[pa.RecordBatch]:
    for batch in _final(table, spec, layout).combine_chunks().to_batches():
        if batch.num_rows:
            yield batch
