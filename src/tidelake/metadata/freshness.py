"""Whether the metadata table knows of everything that the table has committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelake.metadata.names import BUILD_PREFIX
from tidelake.model import Instant
from tidelake.timeline import Timeline


def unknown(completed: Iterable[Instant], metadata: Timeline) -> Sequence[Instant]:
    """Return those completed instants of the table that never reached the metadata table.

    Hudi commits to the metadata table first, under the same requested time. A writer that does not
    know the metadata table leaves a gap, and a listing with a gap would silently lose rows. Writes
    from before the metadata table was built need no instant there.
    """
    known = {instant.requested_time for instant in metadata.completed}
    built_at = built(metadata)
    return [
        instant
        for instant in completed
        if instant.requested_time not in known
        and not metadata.is_archived(instant.requested_time)
        and (instant.completion_time or "") > built_at
    ]


def built(metadata: Timeline) -> str:
    """Return when the metadata table was built, from table version 8 on; "" where it is unknown."""
    return min(
        (
            instant.completion_time
            for instant in metadata.writes()
            if instant.requested_time.startswith(BUILD_PREFIX) and instant.completion_time
        ),
        default="",
    )
