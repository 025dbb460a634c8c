"""A golden table asked without Spark: the same plans and the same executors, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.files import decide_slice, read_base, read_changes, read_slice
from tidelake.files.row_json import row_json
from tidelake.files.task import ReadSpec, SliceTask
from tidelake.operations.open_table import open_state
from tidelake.read.changes import plan_changes
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import ScanPlan
from tidelake.read.snapshot import plan_snapshot
from tidelake.records import COMMIT_TIME

Batches = Iterator[pa.RecordBatch]


class Rows:
    """Rows that answer to what is asked of a DataFrame."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._texts = [row_json(row) for b in batches for row in _as_shown(b).to_pylist()]

    def toJSON(self) -> Rows:  # noqa: N802 - Spark's name
        """Return the rows as texts, behind `collect`."""
        return self

    def collect(self) -> list[str]:
        """Return the rows as texts."""
        return self._texts


class LocalTable:
    """The reading doors of a table, with one of the two ways to merge."""

    def __init__(self, path: str, options: Mapping[str, str]) -> None:
        self._state = open_state(path, options)
        masked = options.get("hoodie.read.merge.path") == "mask"
        self._read: Callable[[SliceTask, ReadSpec], Batches] = (
            masked_slice if masked else read_slice
        )

    def read(self, *, as_of: str | None = None) -> Rows:
        """Return the snapshot, or the table as of a time."""
        return self._rows(plan_snapshot(self._state, as_of=as_of))

    def read_optimized(self) -> Rows:
        """Return the base files' rows."""
        return self._rows(plan_snapshot(self._state, base_only=True))

    def incremental(self, *, start: str | None = None, end: str | None = None) -> Rows:
        """Return the rows written in a window."""
        return self._rows(plan_incremental(self._state, start=start, end=end))

    def changes(self, *, start: str | None = None, end: str | None = None) -> Rows:
        """Return the changes made in a window."""
        plan = plan_changes(self._state, start=start, end=end)
        return Rows(batch for task in plan.tasks for batch in read_changes(task, plan.spec))

    def _rows(self, plan: ScanPlan) -> Rows:
        return Rows(batch for task in plan.tasks for batch in self._read(task, plan.spec))


def masked_slice(task: SliceTask, spec: ReadSpec) -> Batches:
    """Return the rows of a slice as the mask has it: untouched base rows, then the others."""
    if not task.log_paths:
        yield from read_base(task, spec)
        return
    decided = decide_slice(task, spec)
    if task.base_path is not None:
        yield from _untouched(task, spec, pa.py_buffer(decided.mask.tobytes()))
    yield from decided.rows.to_batches()


def _untouched(task: SliceTask, spec: ReadSpec, mask: pa.Buffer) -> Batches:
    columns = tuple(dict.fromkeys((*spec.columns, COMMIT_TIME)))
    row = 0
    for batch in read_base(task, replace(spec, columns=columns, keep_instants=None)):
        overruled = pa.Array.from_buffers(pa.bool_(), batch.num_rows, [None, mask], offset=row)
        row += batch.num_rows
        kept = batch.filter(pc.invert(overruled))
        if spec.keep_instants is not None:
            wanted = pa.array(sorted(spec.keep_instants), pa.string())
            kept = kept.filter(pc.is_in(kept.column(COMMIT_TIME), value_set=wanted))
        yield kept.select(list(spec.columns))


def _as_shown(batch: pa.RecordBatch) -> pa.Table:
    """Return rows whose single-precision numbers print as such."""
    table = pa.Table.from_batches([batch])
    for index, column in enumerate(table.schema):
        if column.type == pa.float32():
            text = table.column(index).cast(pa.string())
            table = table.set_column(index, column.name, text.cast(pa.float64()))
    return table
