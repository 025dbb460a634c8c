"""Snapshot, read-optimized and time-travel queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tidelake.read.prune import Pruner
from tidelake.read.scan import ScanPlan, read_spec, slice_tasks
from tidelake.read.state import TableState


def plan_snapshot(
    state: TableState,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    as_of: str | int | datetime | None = None,
    meta: bool = False,
    base_only: bool = False,
) -> ScanPlan:
    """Return the scan of the newest slices, now or as of a point in time.

    `where` only leaves out partitions and files in which no row can match; it filters no rows.
    `base_only` reads base files and leaves every log aside.
    """
    at = None if as_of is None else state.as_of(as_of)
    schema = state.schema(at)
    spec = read_spec(state, schema, columns=columns, meta=meta, as_of=at)
    pruner = Pruner(state, schema, where)
    slices = state.view.latest_slices(pruner.partitions(), as_of=at)
    kept = pruner.slices(slices, base_only=base_only)
    return ScanPlan(spec=spec, tasks=slice_tasks(state, kept, base_only=base_only))
