"""The table's schema as its commits tell it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.model import Instant
from tidelake.model.table_format import TableFormat
from tidelake.timeline.timeline import Timeline

#: Operations that move rows about; they may carry an older schema than the table has.
_SERVICES = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER", "INDEX"})


def writes_in_order(table_version: int, timeline: Timeline) -> tuple[Instant, ...]:
    """Return completed writes by the time that this table version goes by, newest last."""
    writes = timeline.writes()
    if not TableFormat(table_version).has_completion_times:
        return writes
    return tuple(sorted(writes, key=lambda i: i.completion_time or ""))


class Contents(Protocol):
    """What commits say, whether they are active or archived."""

    def commit_metadata(self, instant: Instant) -> CommitMetadata:
        """Return what a completed write says of itself."""


def commit_with_schema(writes: Iterable[Instant], contents: Contents) -> tuple[Instant, str] | None:
    """Return the newest of `writes`, which are in order, that says the table's schema."""
    for instant in reversed(tuple(writes)):
        metadata = contents.commit_metadata(instant)
        if metadata.schema and metadata.operation_type not in _SERVICES:
            return instant, metadata.schema
    return None
