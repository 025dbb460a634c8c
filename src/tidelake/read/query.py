"""A query as read options describe it."""

from __future__ import annotations

from tidelake.config import IncrementalFormat, QueryType
from tidelake.read.changes import ChangesPlan, plan_changes
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import ScanPlan, Selection
from tidelake.read.snapshot import plan_snapshot
from tidelake.state.table_state import TableState


def is_changes_query(state: TableState) -> bool:
    """Return whether the options ask for changes rather than rows."""
    return state.options.incremental_format is IncrementalFormat.CDC


def plan_rows(state: TableState, selection: Selection) -> ScanPlan:
    """Return the scan that the options ask for."""
    options = state.options
    if options.query_type is QueryType.INCREMENTAL:
        return plan_incremental(state, selection, start=options.begin_time, end=options.end_time)
    base_only = options.query_type is QueryType.READ_OPTIMIZED
    return plan_snapshot(state, selection, as_of=options.as_of, base_only=base_only)


def plan_change_rows(state: TableState) -> ChangesPlan:
    """Return the changes that the options ask for."""
    return plan_changes(state, start=state.options.begin_time, end=state.options.end_time)
