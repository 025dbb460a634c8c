"""Whether the metadata table knows of everything that the table has committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelake.metadata.names import FILES, is_build
from tidelake.model import Instant
from tidelake.timeline import Timeline, TimelineContents


def unknown(
    completed: Iterable[Instant], metadata: Timeline, contents: TimelineContents
) -> Sequence[Instant]:
    """Return those completed instants of the table that never reached the metadata table.

    Hudi commits to the metadata table first, under the same requested time. A writer that does not
    know the metadata table leaves a gap, and a listing with a gap would silently lose rows. Writes
    from before the list of files was built need no instant there.
    """
    known = {instant.requested_time for instant in metadata.completed}
    gaps = [
        instant
        for instant in completed
        if instant.requested_time not in known and not metadata.is_archived(instant.requested_time)
    ]
    if not gaps:
        return ()
    built_at = built(metadata, contents)
    return [instant for instant in gaps if (instant.completion_time or "") > built_at]


def built(metadata: Timeline, contents: TimelineContents) -> str:
    """Return when the list of files was last built, or "" where that is not known.

    Apache Hudi builds it anew in the folder that is there once somebody took it out of use.
    """
    builds = sorted(
        (i for i in metadata.writes() if is_build(i.requested_time) and i.completion_time),
        key=lambda i: i.completion_time or "",
    )
    for instant in reversed(builds):
        if FILES in contents.commit_metadata(instant).partition_to_write_stats:
            return instant.completion_time or ""
    return ""
