"""The file groups that a write may touch, as they stand now."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from tidelake.config import TableConfig
from tidelake.model import FileGroupId, FileSlice
from tidelake.view import FileGroup, TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGroup:
    """A file group with its latest slice.

    `log_instant` and `log_names` are the instant of the slice to which a log would go now, and the
    logs that lie there. Up to table version 7 the instant names those logs, and they count whether
    committed or not: `log_version` is the first that is free. `is_reserved` says that a pending
    compaction or clustering has plans with the base file.
    """

    slice: FileSlice
    log_instant: str | None = None
    log_names: tuple[str, ...] = ()
    log_version: int = 1
    is_reserved: bool = False

    @property
    def id(self) -> FileGroupId:
        """Return the group's identity."""
        return self.slice.group


def live_groups(
    view: TableView,
    config: TableConfig,
    partitions: Sequence[str],
    clustered: Set[FileGroupId] = frozenset(),
) -> list[LiveGroup]:
    """Return the file groups of `partitions` that hold rows, ordered by partition and file id.

    `clustered` are those that pending clusterings name. Raises `SnapshotLostError` when the listing
    lacks files that the view's timeline knows: a key is not new because the file that has it was
    cleaned away.
    """
    found = []
    groups = view.groups(partitions)
    for group in groups:
        if view.is_replaced(group.id):
            continue
        latest = view.latest_slice(group)
        if latest is None or not (latest.base_file or latest.log_files):
            continue
        pending = view.pending_compactions(group.id)
        if config.table_version >= 8:
            found.append(
                LiveGroup(
                    slice=latest,
                    log_instant=latest.base_instant_time,
                    log_names=tuple(log.name for log in latest.log_files),
                    is_reserved=bool(pending) or group.id in clustered,
                )
            )
        else:
            made = _with_logs(group, latest, pending)
            found.append(replace(made, is_reserved=made.is_reserved or group.id in clustered))
    view.refuse_lost_snapshot(partitions, groups, [live.slice for live in found])
    return found


def _with_logs(group: FileGroup, latest: FileSlice, pending: frozenset[str]) -> LiveGroup:
    # Logs behind a planned compaction belong to the slice that it will open.
    at = max(pending, default=latest.base_instant_time)
    logs = sorted(
        (log for log in group.log_files if log.instant_time == at), key=lambda log: log.version
    )
    return LiveGroup(
        slice=latest,
        log_instant=at,
        log_names=tuple(log.name for log in logs),
        log_version=1 + max((log.version for log in logs), default=0),
        is_reserved=bool(pending),
    )
