"""The file groups that plans of services have spoken for."""

from __future__ import annotations

from tidelake.errors import MissingFileError
from tidelake.model import Action, FileGroupId
from tidelake.timeline import Timeline, TimelineContents


def clustered_groups(timeline: Timeline, contents: TimelineContents) -> frozenset[FileGroupId]:
    """Return the file groups that a pending clustering will replace."""
    found: set[FileGroupId] = set()
    for instant in timeline.pending:
        if instant.planned_as not in (Action.REPLACECOMMIT, Action.CLUSTERING):
            continue
        try:
            plan = contents.clustering_plan(instant)
        except MissingFileError:
            continue  # it was rolled back since the timeline was loaded
        if plan is None:
            continue
        for group in plan.input_groups:
            for piece in group.slices:
                if piece.file_id:
                    found.add(FileGroupId(piece.partition_path or "", piece.file_id))
    return frozenset(found)


def log_compacted_groups(timeline: Timeline, contents: TimelineContents) -> frozenset[FileGroupId]:
    """Return the file groups whose logs a pending log compaction will merge."""
    return frozenset(
        FileGroupId(operation.partition_path, operation.file_id)
        for instant in timeline.pending
        if instant.planned_as is Action.LOGCOMPACTION
        for operation in contents.compaction_plan(instant).operations
    )
