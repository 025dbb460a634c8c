"""Find slices whose rows depend on the order in which a reader takes their logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from tidelake.files import read_slice
from tidelake.formats.table_schema import column_names
from tidelake.model import FileGroupId, FileSlice
from tidelake.read.scan import read_spec, slice_tasks
from tidelake.records._polars import polars as pl
from tidelake.records.schema import RECORD_KEY
from tidelake.state.table_state import TableState
from tidelake.view import TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class Tied:
    """Keys of a file group whose rows are others by requested than by completion time."""

    group: FileGroupId
    count: int
    example: str


def tied_keys(state: TableState, view: TableView) -> Iterator[Tied]:
    """Yield the file groups in which writes that overlapped gave a key the same ordering value.

    The later completion wins here, whenever a compaction runs. A reader that goes by requested
    times inside a slice gives another row, until a compaction between the two has the last word.
    """
    if not state.by_completion_time:
        return
    if not state.config.populate_meta_fields or not state.timeline.writes():
        return
    for group in view.groups():
        slices = view.slices(group)
        if view.is_replaced(group.id) or not slices:
            continue
        by_request = _by_request(slices)
        if by_request is None:
            continue
        ours, others = _rows(state, slices[-1]), _rows(state, by_request)
        unlike = ours.filter(~ours.hash_rows().is_in(others.hash_rows().implode()))
        gone = others.join(ours, on=RECORD_KEY, how="anti")
        keys = pl.concat([unlike[RECORD_KEY], gone[RECORD_KEY]])
        if len(keys):
            yield Tied(group=group.id, count=len(keys), example=str(keys.min()))


def _by_request(slices: list[FileSlice]) -> FileSlice | None:
    """Return the newest slice as one that goes by requested times sees it; None if it is the same.

    A log that was requested before the base file is one of the slice before, had nobody compacted.
    """
    newest = slices[-1]
    logs = newest.log_files
    is_late = any(log.instant_time < newest.base_instant_time for log in logs)
    if is_late and len(slices) > 1:
        newest = slices[-2]
        logs = (*newest.log_files, *logs)
    by_request = tuple(sorted(logs, key=lambda log: log.instant_time))
    return None if by_request == logs else replace(newest, log_files=by_request)


def _rows(state: TableState, found: FileSlice) -> pl.DataFrame:
    schema = state.schema()
    spec = read_spec(state, schema, (RECORD_KEY, *column_names(schema.avro)))
    batches = [b for task in slice_tasks(state, [found]) for b in read_slice(task, spec)]
    rows = pa.Table.from_batches(batches) if batches else None
    frame = pl.DataFrame(schema={RECORD_KEY: pl.String}) if rows is None else pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame
