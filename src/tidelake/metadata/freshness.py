"""Whether the metadata table knows of everything that the table has committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelake.metadata.names import BUILD_PREFIX, FILES, is_build
from tidelake.model import Action, Instant
from tidelake.timeline import Timeline, TimelineContents

_PLANS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION})
#: After every time.
_NEVER = "~"


def unknown(
    completed: Iterable[Instant],
    timeline: Timeline,
    metadata: Timeline,
    contents: TimelineContents,
) -> Sequence[Instant]:
    """Return those completed instants of the table that never reached the metadata table.

    Hudi commits to the metadata table first, under the same requested time. A writer that does not
    know the metadata table leaves a gap, and a listing with a gap would silently lose rows. Writes
    from before the list of files was built need no instant there. `timeline` is the table's own.
    """
    known = {instant.requested_time for instant in metadata.writes()}
    gaps = [
        instant
        for instant in completed
        if instant.requested_time not in known and not metadata.is_archived(instant.requested_time)
    ]
    build = _last_build(metadata, contents) if gaps else None
    if build is None:
        return gaps
    built_at = build.completion_time or ""
    # Up to version 7 logs behind a plan are named after it, and Apache Hudi, which builds the list
    # while it carries the plan out, takes them for its own unfinished work.
    plans = () if build.requested_time.startswith(BUILD_PREFIX) else timeline.instants
    first_plan = min(
        (
            plan.requested_time
            for plan in plans
            if plan.planned_as in _PLANS and (plan.completion_time or _NEVER) > built_at
        ),
        default=_NEVER,
    )
    return [
        instant
        for instant in gaps
        if (instant.completion_time or "") > built_at or instant.requested_time > first_plan
    ]


def built(metadata: Timeline, contents: TimelineContents) -> str:
    """Return when the list of files was last built, or "" where that is not known."""
    build = _last_build(metadata, contents)
    return "" if build is None else build.completion_time or ""


def _last_build(metadata: Timeline, contents: TimelineContents) -> Instant | None:
    """Return the instant that built the list of files last.

    Apache Hudi builds it anew in the folder that is there once somebody took it out of use.
    """
    builds = sorted(
        (i for i in metadata.writes() if is_build(i.requested_time) and i.completion_time),
        key=lambda i: i.completion_time or "",
    )
    for instant in reversed(builds):
        if FILES in contents.commit_metadata(instant).partition_to_write_stats:
            return instant
    return None
