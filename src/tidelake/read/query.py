"""A query as read options describe it."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.config import IncrementalFormat, QueryType
from tidelake.read.changes import ChangesPlan, plan_changes
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import ScanPlan
from tidelake.read.snapshot import plan_snapshot
from tidelake.read.state import TableState


def is_changes_query(state: TableState) -> bool:
    """Return whether the options ask for changes rather than rows."""
    return state.options.incremental_format is IncrementalFormat.CDC


def plan_rows(
    state: TableState, columns: Sequence[str] | None = None, *, meta: bool = True
) -> ScanPlan:
    """Return the scan that the options ask for; Hudi's five columns come first unless told otherwise."""
    options = state.options
    if options.query_type is QueryType.INCREMENTAL:
        return plan_incremental(
            state, start=options.begin_time, end=options.end_time, columns=columns, meta=meta
        )
    return plan_snapshot(
        state,
        columns=columns,
        as_of=options.as_of,
        meta=meta,
        base_only=options.query_type is QueryType.READ_OPTIMIZED,
    )


def plan_change_rows(state: TableState) -> ChangesPlan:
    """Return the changes that the options ask for."""
    return plan_changes(state, start=state.options.begin_time, end=state.options.end_time)
