"""The file groups that a write may touch, as they stand now."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from tidelake.config import TableConfig
from tidelake.errors import UnsupportedTableError
from tidelake.formats.file_name import bucket_number
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
        if config.format.has_own_logs:
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


def refuse_split_buckets(live: Sequence[LiveGroup], wanted: Set[tuple[str, str | None]]) -> None:
    """Raise `UnsupportedTableError` when a bucket to be written to has two live file groups.

    Its keys may be in either, so that a row that went to one of them would leave a stale one in the
    other. `wanted` are partitions with the numbers of buckets as eight digits.
    """
    found: dict[tuple[str, str | None], str] = {}
    for group in live:
        number = bucket_number(group.id.file_id)
        at = (group.id.partition, None if number is None else f"{number:08d}")
        other = found.setdefault(at, group.id.file_id)
        if number is not None and other != group.id.file_id and at in wanted:
            raise UnsupportedTableError(
                f"bucket {number} of partition {group.id.partition!r} has two file groups, {other} "
                f"and {group.id.file_id}, and its keys may be in either",
                next_step="read the partition, leave one row a key, and write them back with "
                "Table.insert_overwrite; `tidelake check` lists all such buckets. The table is as "
                "it was",
            )
