"""Snapshot, read-optimized and time-travel queries."""

from __future__ import annotations

from datetime import datetime

from tidelake.read.prune import Pruner
from tidelake.read.scan import (
    EVERYTHING,
    ScanPlan,
    Selection,
    output_columns,
    read_spec,
    scan_columns,
    slice_tasks,
)
from tidelake.read.split_buckets import warn_of_split_buckets
from tidelake.state.table_state import TableState
from tidelake.view import refuse_missing_files


def plan_snapshot(
    state: TableState,
    selection: Selection = EVERYTHING,
    *,
    as_of: str | int | datetime | None = None,
    base_only: bool = False,
) -> ScanPlan:
    """Return the scan of the newest slices, now or as of a point in time.

    `base_only` reads base files and leaves every log aside.
    """
    at = None if as_of is None else state.as_of(as_of)
    schema = state.schema(at)
    spec = read_spec(state, schema, scan_columns(schema, selection), as_of=at)
    pruner = Pruner(state, schema, selection.where, as_of=at)
    partitions = pruner.partitions()
    if selection.partitions is not None:
        known = state.view.partitions() if partitions is None else partitions
        partitions = [p for p in known if p in selection.partitions]
    slices = state.view.latest_slices(partitions, as_of=at)
    if not state.is_listed_by_metadata:
        refuse_missing_files(state.view, slices, partitions, at)
    warn_of_split_buckets(slices)
    kept = pruner.slices(slices, base_only=base_only)
    return ScanPlan(
        spec=spec,
        tasks=slice_tasks(state, kept, base_only=base_only),
        output=output_columns(schema, selection),
    )
