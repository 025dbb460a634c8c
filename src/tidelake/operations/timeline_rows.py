"""The timeline as rows, and what its commits say of themselves."""

from __future__ import annotations

import pyarrow as pa

from tidelake.model import WRITE_ACTIONS, Instant
from tidelake.state.table_state import TableState
from tidelake.timeline import with_history
from tidelake.txn.protocol.commits import commit_of

SCHEMA = pa.schema(
    [
        ("requested_time", pa.string()),
        ("completion_time", pa.string()),
        ("action", pa.string()),
        ("planned_as", pa.string()),
        ("state", pa.string()),
        ("is_archived", pa.bool_()),
        ("operation", pa.string()),
        ("inserts", pa.int64()),
        ("updates", pa.int64()),
        ("deletes", pa.int64()),
        ("files_written", pa.int64()),
        ("bytes_written", pa.int64()),
    ]
)


def timeline_rows(state: TableState) -> pa.Table:
    """Return every instant of the table, archived or not, newest last; counts are of writes."""
    state.contents.load_commit_metadata(state.timeline.writes())
    instants = with_history(state.timeline, state.history.instants())
    return pa.Table.from_pylist([_row(state, instant) for instant in instants], SCHEMA)


def _row(state: TableState, instant: Instant) -> dict[str, object]:
    is_archived = instant.file_name is None
    row: dict[str, object] = {
        "requested_time": instant.requested_time,
        "completion_time": instant.completion_time,
        "action": instant.action.value,
        "planned_as": instant.planned_as.value,
        "state": instant.state.value,
        "is_archived": is_archived,
    }
    if instant.is_completed and instant.action in WRITE_ACTIONS:
        contents = state.history if is_archived else state.contents
        commit = commit_of(instant, contents.commit_metadata(instant))
        row |= {
            "operation": commit.operation,
            "inserts": commit.inserts,
            "updates": commit.updates,
            "deletes": commit.deletes,
            "files_written": commit.files_written,
            "bytes_written": commit.bytes_written,
        }
    return row
