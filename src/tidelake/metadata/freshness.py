"""Whether the metadata table knows of everything that the table has committed."""

from __future__ import annotations

from tidelake.timeline import Timeline

#: Instants that build a partition of the metadata table from version 8 on.
_BUILD_PREFIX = "0" * 14


def is_behind(table: Timeline, metadata: Timeline) -> bool:
    """Return whether a completed write of the table never reached the metadata table.

    Hudi commits to the metadata table first, under the same requested time. A writer that does not
    know the metadata table leaves a gap, and a listing with a gap would silently lose rows. Writes
    from before the metadata table was built need no instant there.
    """
    known = {instant.requested_time for instant in metadata.completed}
    built_at = min(
        (
            instant.completion_time
            for instant in metadata.writes()
            if instant.requested_time.startswith(_BUILD_PREFIX) and instant.completion_time
        ),
        default="",
    )
    return any(
        write.requested_time not in known
        and not metadata.is_archived(write.requested_time)
        and (write.completion_time or "") > built_at
        for write in table.writes()
    )
