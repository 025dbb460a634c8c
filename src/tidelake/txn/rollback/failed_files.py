"""What a failed write has left in the partitions, and how it is taken away.

A file that only the failed write can have written is deleted. Up to table version 7 logs are
shared: a block behind them takes back what the failed write appended.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidelake.config import TableConfig
from tidelake.errors import Malformed
from tidelake.formats import table_path
from tidelake.formats.file_name import UNKNOWN_WRITE_TOKEN, format_log, parse_base, parse_log
from tidelake.formats.log_block import block_instants, decode_blocks, encode_rollback
from tidelake.formats.marker_name import Marker, MarkerKind
from tidelake.formats.plans import RollbackPartitionMetadata, RollbackRequest
from tidelake.model import LogFile
from tidelake.storage import Storage
from tidelake.txn.liveness.markers import list_markers
from tidelake.txn.metadata_keeper import FileChanges

_log = logging.getLogger(__name__)

_META_FOLDER = ".hoodie"


def plan_requests(
    storage: Storage,
    config: TableConfig,
    failed_time: str,
    *,
    use_markers: bool = True,
    base_files_only: bool = False,
) -> Iterable[RollbackRequest]:
    """Return what is left of a failed instant, as its markers say.

    Without markers, or when they are not to be used, the whole table is listed: a writer that left
    none may have left files all the same. `base_files_only` is for compactions: up to table version
    7 logs that others wrote since have the compaction's time in their names.
    """
    markers = list_markers(storage, failed_time) if use_markers else None
    if markers is None:
        found = files_by_listing(storage, config, failed_time)
        return _of_base_files(found) if base_files_only else found
    return _by_markers(storage, config, failed_time, markers)


def absolute_path(storage: Storage, path: str) -> str:
    """Return a path as plans hold it: from the root of the storage, without scheme and bucket.

    Hudi resolves it against the table's own file system, whatever scheme its user knows that by.
    """
    scheme, separator, rest = storage.spec.uri.partition("://")
    root = f"/{rest.partition('/')[2]}" if separator else scheme
    return f"{root.rstrip('/')}/{path}"


def _by_markers(
    storage: Storage, config: TableConfig, failed_time: str, markers: Iterable[Marker]
) -> Iterator[RollbackRequest]:
    logs: dict[LogFile, None] = {}
    for marker in markers:
        partition, name = _split(marker.path)
        base = parse_base(partition, name, 0)
        log = parse_log(partition, name, 0)
        found = base or log
        if found is not None and found.instant_time == failed_time:
            yield _delete(storage, failed_time, marker.path)
        elif found is None or config.format.has_own_logs:
            # Such a file is not of this write: nothing else may be deleted on a marker's word.
            _log.warning("marker of %s names %s, which is left", failed_time, marker.path)
        elif log is not None:
            if storage.stat(log.path) is not None:
                logs[log] = None
        elif base is not None and marker.kind is MarkerKind.APPEND:
            # Hudi 0.14 marks an append with the name of the base file.
            slice_key = (partition, base.file_id, base.instant_time)
            in_folder = _logs(partition, (f.name for f in storage.list(partition).files))
            in_slice = (f for f in in_folder if _slice_key(f) == slice_key)
            logs.update((f, None) for f in in_slice if _holds(storage, f, failed_time))
    yield from _take_back(logs)


def files_by_listing(
    storage: Storage,
    config: TableConfig,
    failed_time: str,
    *,
    partitions: Iterable[str] | None = None,
) -> Iterator[RollbackRequest]:
    """Yield what is left of an instant, as the names of the files in some or all partitions say."""
    files: list[LogFile] = []
    newest_base: dict[tuple[str, str], str] = {}
    for path in _data_files(storage, partitions):
        partition, name = _split(path)
        base = parse_base(partition, name, 0)
        log = parse_log(partition, name, 0)
        found = base or log
        if found is None:
            continue
        if found.instant_time == failed_time:
            yield _delete(storage, failed_time, path)
            continue
        if log is not None:
            files.append(log)
        if found.instant_time < failed_time:
            group = (partition, found.file_id)
            newest_base[group] = max(newest_base.get(group, ""), found.instant_time)
    if not config.format.has_own_logs:
        # A write appends to the newest slice that it knows; logs of older ones need not be opened.
        recent = (f for f in files if f.instant_time == newest_base.get((f.partition, f.file_id)))
        yield from _take_back([f for f in recent if _holds(storage, f, failed_time)])


def _of_base_files(requests: Iterable[RollbackRequest]) -> Iterator[RollbackRequest]:
    for request in requests:
        names = [path.rpartition("/")[2] for path in request.files_to_be_deleted]
        if any(parse_base(request.partition_path, name, 0) for name in names):
            yield request


def _delete(storage: Storage, failed_time: str, path: str) -> RollbackRequest:
    partition, name = _split(path)
    found = parse_base(partition, name, 0) or parse_log(partition, name, 0)
    return RollbackRequest(
        partition_path=partition,
        file_id=found.file_id if found else "",
        latest_base_instant=failed_time,
        files_to_be_deleted=(absolute_path(storage, path),),
        log_blocks_to_be_deleted={},
    )


def _take_back(logs: Iterable[LogFile]) -> Iterator[RollbackRequest]:
    slices: dict[tuple[str, str, str], dict[str, int]] = {}
    for log in logs:
        slices.setdefault(_slice_key(log), {})[log.name] = 1
    for (partition, file_id, base_instant), names in slices.items():
        yield RollbackRequest(
            partition_path=partition,
            file_id=file_id,
            latest_base_instant=base_instant,
            log_blocks_to_be_deleted=names,
        )


@dataclass(kw_only=False)
class Undone:
    """What a rollback has undone so far, by partition."""

    storage: Storage
    config: TableConfig
    deleted: dict[str, list[str]] = field(default_factory=dict)
    written: dict[str, dict[str, int]] = field(default_factory=dict)
    taken_back: dict[str, dict[str, int]] = field(default_factory=dict)

    def undo(self, request: RollbackRequest, *, rollback_time: str, failed_time: str) -> None:
        """Do what a request of a plan says; what has been done already counts as done."""
        partition = request.partition_path
        deleted = self.deleted.setdefault(partition, [])
        # Plans hold the paths of the place where they were made; the table may have moved.
        paths = [
            table_path.data_file(partition, planned.rpartition("/")[2])
            for planned in request.files_to_be_deleted
        ]
        self.storage.delete_all(paths)
        deleted += [absolute_path(self.storage, path) for path in paths]
        blocks = request.log_blocks_to_be_deleted or {}
        if not blocks:
            return
        self.taken_back.setdefault(partition, {}).update(blocks)
        key = (partition, request.file_id or "", request.latest_base_instant or "")
        log, size_bytes = self._append_command(key, rollback_time, failed_time)
        path = absolute_path(self.storage, log.path)
        self.written.setdefault(partition, {})[path] = size_bytes

    def _append_command(
        self, key: tuple[str, str, str], rollback_time: str, failed_time: str
    ) -> tuple[LogFile, int]:
        """Make sure that the slice ends with a block that takes the failed instant back."""
        partition, file_id, base_instant = key
        command = encode_rollback(instant_time=rollback_time, target_instant_time=failed_time)
        while True:
            names = [f.name for f in self.storage.list(partition).files]
            logs = [f for f in _logs(partition, names) if _slice_key(f) == key]
            for log in logs:
                if log.write_token == UNKNOWN_WRITE_TOKEN and _takes_back(
                    self.storage, log, failed_time
                ):
                    return log, len(command)
            version = 1 + max((log.version for log in logs), default=0)
            name = format_log(
                file_id=file_id,
                instant_time=base_instant,
                version=version,
                write_token=UNKNOWN_WRITE_TOKEN,
            )
            added = parse_log(partition, name, len(command))
            assert added is not None  # the name has just been spelt
            if self.storage.put_if_absent(added.path, command):
                return added, len(command)

    def changes(self, *, with_deletes: bool) -> FileChanges:
        """Return what the metadata table has to know of it."""
        written = {
            partition: {path.rpartition("/")[2]: size for path, size in logs.items()}
            for partition, logs in self.written.items()
        }
        # Logs of the failed instant stay where they are, and a clean has to find them one day.
        for partition, logs in self.taken_back.items():
            for name in logs:
                there = self.storage.stat(_join(partition, name))
                if there is not None and there.size_bytes:
                    written[partition][name] = there.size_bytes
        return FileChanges(
            written=written,
            deleted={
                partition: [path.rpartition("/")[2] for path in paths]
                for partition, paths in self.deleted.items()
                if with_deletes and paths
            },
        )

    def by_partition(self) -> Mapping[str, RollbackPartitionMetadata]:
        """Return it as the rollback's own record holds it."""
        return {
            partition: RollbackPartitionMetadata(
                partition_path=partition,
                success_delete_files=tuple(deleted),
                failed_delete_files=(),
                rollback_log_files=self.written.get(partition, {}),
                log_files_from_failed_commit=self.taken_back.get(partition, {}),
            )
            for partition, deleted in self.deleted.items()
        }


def _data_files(storage: Storage, partitions: Iterable[str] | None = None) -> Iterator[str]:
    if partitions is not None:
        for partition in partitions:
            yield from (_join(partition, file.name) for file in storage.list(partition).files)
        return
    top = storage.list("")
    yield from (file.name for file in top.files)
    for folder in top.folders:
        if folder != _META_FOLDER:
            yield from storage.files_below(folder)


def _logs(partition: str, names: Iterable[str]) -> Iterator[LogFile]:
    for name in names:
        log = parse_log(partition, name, 0)
        if log is not None and not log.is_cdc:
            yield log


def _holds(storage: Storage, log: LogFile, instant_time: str) -> bool:
    with storage.open(log.path) as file:
        try:
            return instant_time in block_instants(file)
        except Malformed:
            return True  # to take back what is not there does no harm


def _takes_back(storage: Storage, log: LogFile, instant_time: str) -> bool:
    try:
        blocks = decode_blocks(storage.read(log.path))
        return any(b.is_rollback and b.target_instant_time == instant_time for b in blocks)
    except Malformed:
        return False  # to take it back twice does no harm


def _slice_key(log: LogFile) -> tuple[str, str, str]:
    return log.partition, log.file_id, log.instant_time


def _split(path: str) -> tuple[str, str]:
    partition, _, name = path.rpartition("/")
    return partition, name


def _join(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name
