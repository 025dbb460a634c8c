"""A write that completed although it had lost its lock: whether it may stay.

Between the last look at a lock and the file that completes a write, a process can be stopped, or
the storage may take its time. Whoever has the lock then does not see the write coming, and commits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from tidelake.config import TableConfig
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.model import Action, Instant
from tidelake.storage import Storage
from tidelake.timeline import Timeline, TimelineContents
from tidelake.txn.undone import conflict_with

_log = logging.getLogger(__name__)
#: Plans that name files, which have to stay until somebody has carried them out.
_PLANS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})


def refuse_late(
    ours: str,
    before: Timeline,
    now: Timeline,
    contents: TimelineContents,
    storage: Storage,
    config: TableConfig,
) -> None:
    """Raise `WriteConflictError` when ours and another write completed without seeing each other.

    `before` is what ours was compared with, and `now` the timeline, loaded under the lock, on which
    it has completed. Whether both touched the same files does not matter: ours has a completion
    time that lies in the past of the other. What appeared after the file that completed ours has
    seen it, and so has what names it: when somebody has completed or planned on top of it, it
    cannot go any more, and nothing is raised.
    """
    known = {i.key for i in before.completed}
    new = [i for i in now.writes() if i.key not in known]
    mine = [i for i in new if i.requested_time == ours]
    others = [i for i in new if i not in mine]
    plans = [i for i in now.pending if i.planned_as in _PLANS]
    appeared = {f.name: f.modified_ms for f in storage.list(config.timeline_folder).files}
    landed_ms = max(_times(now, mine, appeared), default=0)
    on_top = [
        i for i in (*others, *plans) if min(_times(now, [i], appeared), default=0) > landed_ms
    ]
    on_top += [i for i in others if _builds_on(contents.commit_metadata(i), ours)]
    if on_top:
        _log.warning(
            "%s completed when it had lost the lock, and %s began on top of it: whether rows got "
            "lost on the way, `tidelake check` tells",
            ours,
            on_top[0].requested_time,
        )
    elif others:
        rule = "it lost the table's lock before it completed, and the other completed meanwhile"
        raise conflict_with(ours, others[-1].requested_time, rule)


def _builds_on(metadata: CommitMetadata, ours: str) -> bool:
    """Return whether a commit says that it went on from files of ours.

    Storages that count time in seconds do not tell.
    """
    stats = (stat for of in metadata.partition_to_write_stats.values() for stat in of)
    return any(stat.prev_commit == ours for stat in stats)


def _times(
    now: Timeline, instants: Iterable[Instant], appeared: Mapping[str, int]
) -> Sequence[int]:
    """Return when the timeline files of instants appeared, by the storage's clock."""
    names = (name for instant in instants for name, _ in now.files_of(instant))
    return [appeared.get(name, 0) for name in names]
