"""Taking a failed write off the table.

A rollback is an instant itself. It keeps an order, in which a crash leaves these states:

1. The heartbeat of the failed instant goes. A task of it that is still running finds that out once
   it has written its file, and deletes the file itself; all others have left a marker by then.
2. `rollback.requested` says which files are to go. Before it, nothing has happened. After it, the
   plan is the truth, and whoever comes next, Apache Hudi included, carries out the same plan again.
3. `rollback.inflight`, then the metadata table forgets the failed instant, then the files of the
   plan go; one that is gone already counts as done. On table versions up to 7 a log file is not
   deleted, because others may have written to it: a log file behind it takes back the blocks of the
   failed instant.
4. The files of the failed instant on the timeline go, and after them its markers.
5. The metadata table learns of logs that were added, and of deleted files that it still lists.
6. The completed rollback appears. From then on nothing but its record is left of the failed write.

Where several write, step 2 is made under the table's lock, as commits are: a write that finds a
rollback of its own does not commit, and one that has committed is not rolled back. Data files are
deleted without the lock, by whoever keeps the rollback's heartbeat; all else is done under it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidelake.config import TableConfig
from tidelake.env import Env
from tidelake.errors import (
    CorruptFileError,
    Malformed,
    MissingFileError,
    PlanRunningError,
    UnsupportedTableError,
)
from tidelake.formats import plans
from tidelake.formats.file_name import UNKNOWN_WRITE_TOKEN, format_log, parse_base, parse_log
from tidelake.formats.instant_name import InstantName
from tidelake.formats.log_block import block_instants, decode_blocks, encode_rollback
from tidelake.formats.marker_name import Marker, MarkerKind, heartbeat_path
from tidelake.formats.plans import (
    InstantInfo,
    RollbackMetadata,
    RollbackPartitionMetadata,
    RollbackPlan,
    RollbackRequest,
)
from tidelake.model import WRITE_ACTIONS, Action, Instant, LogFile, State
from tidelake.storage import Storage
from tidelake.timeline import Publisher, Timeline, TimelineContents, load_timeline
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.heartbeat import Heartbeat, is_alive, last_beats
from tidelake.txn.keeper import FileChanges, MetadataKeeper, NoMetadataTable
from tidelake.txn.markers import delete_markers, list_markers
from tidelake.txn.time import InstantTimes

_log = logging.getLogger(__name__)

#: Table version from which a log file has one writer, and goes with it.
_FIRST_OWN_LOGS = 8
_META_FOLDER = ".hoodie"


def failed_writes(timeline: Timeline, contents: TimelineContents) -> Sequence[Instant]:
    """Return the writes that never completed, newest first; services keep their plans."""
    pending = [i for i in timeline.pending if i.planned_as in WRITE_ACTIONS]
    return [i for i in reversed(pending) if not _is_service(i, timeline, contents)]


def roll_back_failed(
    env: Env,
    config: TableConfig,
    timeline: Timeline,
    contents: TimelineContents,
    times: InstantTimes,
    *,
    use_markers: bool = True,
    keeper: MetadataKeeper | None = None,
    spared: Collection[str] = (),
) -> bool:
    """Finish rollbacks that somebody began, then roll back every failed write but the `spared`.

    Return whether anything was done: the timeline has changed then.
    """
    rollback = Rollback(env, config, timeline, times, keeper or NoMetadataTable(env))
    done: set[str] = set()
    begun = [i for i in timeline.pending if i.action is Action.ROLLBACK]
    for instant in begun:
        done |= rollback.resume(instant, contents)
    done.update(spared)
    failed = [i for i in failed_writes(timeline, contents) if i.requested_time not in done]
    for instant in failed:
        rollback.run(instant, use_markers=use_markers)
    return bool(begun or failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A rollback on the timeline that waits to be carried out."""

    requested_time: str
    target: InstantInfo
    plan: RollbackPlan
    keep_plan: bool = False


class Rollback:
    """Rolls back instants of one table, as the timeline shows them."""

    def __init__(
        self,
        env: Env,
        config: TableConfig,
        timeline: Timeline,
        times: InstantTimes,
        keeper: MetadataKeeper,
        concurrency: Concurrency | None = None,
    ) -> None:
        self._env = env
        self._keeper = keeper
        self._concurrency = concurrency or Concurrency()
        self._storage = env.storage
        self._config = config
        self._timeline = timeline
        self._times = times
        self._publisher = Publisher(env.storage, config)

    def run(self, instant: Instant, *, use_markers: bool = True, keep_plan: bool = False) -> None:
        """Roll back one instant that never completed.

        With `keep_plan` it is an attempt at a service, after which the service is requested again.
        """
        self.carry_out(self.schedule(instant, use_markers=use_markers, keep_plan=keep_plan))

    def schedule(
        self, instant: Instant, *, use_markers: bool = True, keep_plan: bool = False
    ) -> Scheduled:
        """Put the rollback of an instant that never completed on the timeline.

        Where several write, the timeline must have been loaded under the lock that is held now.
        """
        self._storage.delete(heartbeat_path(instant.requested_time))
        action = instant.planned_as if keep_plan else instant.planned_as.completed_as
        target = InstantInfo(commit_time=instant.requested_time, action=action.value)
        requests = plan_requests(
            self._storage,
            self._config,
            instant.requested_time,
            use_markers=use_markers,
            base_files_only=instant.planned_as is Action.COMPACTION,
        )
        plan = RollbackPlan(instant_to_rollback=target, rollback_requests=tuple(requests))
        return Scheduled(
            requested_time=self._request(plan), target=target, plan=plan, keep_plan=keep_plan
        )

    def run_completed(self, instant: Instant, partitions: Sequence[str]) -> RollbackMetadata:
        """Roll back an instant that completed, and that wrote to these partitions alone.

        Whoever calls this knows that nothing was built on it since.
        """
        target = InstantInfo(commit_time=instant.requested_time, action=instant.action.value)
        requests = _by_listing(
            self._storage, self._config, instant.requested_time, partitions=partitions
        )
        plan = RollbackPlan(instant_to_rollback=target, rollback_requests=tuple(requests))
        return self.carry_out(
            Scheduled(requested_time=self._request(plan), target=target, plan=plan)
        )

    def take_off(
        self, target: InstantInfo, *, rollback_time: str, partitions: Sequence[str] | None
    ) -> RollbackMetadata:
        """Undo an instant without a rollback on the timeline: a restore stands for all of its own.

        Without `partitions` the whole table is looked at. Calling this again finishes the work.
        """
        requests = tuple(
            _by_listing(self._storage, self._config, target.commit_time, partitions=partitions)
        )
        began_ms = self._env.clock.now_ms()
        self._hide(target)
        done = self._delete(requests, rollback_time, target)
        self._forget(target, keep_plan=False)
        return self._metadata(rollback_time, target, done, began_ms)

    def _request(self, plan: RollbackPlan) -> str:
        requested_time = self._times.next()
        self._concurrency.ensure()
        while not self._publisher.request(requested_time, Action.ROLLBACK, plans.encode(plan)):
            requested_time = self._times.next()
        return requested_time

    def resume(self, rollback: Instant, contents: TimelineContents) -> set[str]:
        """Carry out a rollback that somebody began; return the instants that are off the table."""
        found = self.find(rollback, contents)
        if found is None:
            return set()
        self.carry_out(found)
        return {found.target.commit_time}

    def find(self, rollback: Instant, contents: TimelineContents) -> Scheduled | None:
        """Return a rollback that somebody began; None when it had not done anything, and is gone.

        Where several write, one that cannot be read is kept: somebody may be at it.
        """
        try:
            plan = contents.rollback_plan(rollback)
        except MissingFileError:
            # It is done and archived; a process that was stopped for long put this file back.
            self._publisher.remove([_file_name(rollback)])
            return None
        except CorruptFileError as cause:
            if rollback.state is not State.REQUESTED or self._concurrency.is_shared:
                raise
            # As Apache Hudi does: before it is inflight, a rollback has not touched anything.
            _log.warning("rollback %s has no readable plan and is removed", cause.path)
            self._publisher.remove([_file_name(rollback)])
            return None
        target = plan.instant_to_rollback
        if target is None or target.action not in set(Action):
            raise UnsupportedTableError(
                f"the pending rollback {rollback.requested_time} does not say what to roll back",
                next_step=f"remove {rollback.requested_time}.rollback.* from the timeline folder; "
                "the write that failed is then rolled back anew",
            )
        # The plan of a service is not taken back with an attempt to carry it out.
        keep_plan = any(
            _is_service(i, self._timeline, contents)
            for i in self._timeline.pending
            if i.requested_time == target.commit_time
        )
        return Scheduled(
            requested_time=rollback.requested_time, target=target, plan=plan, keep_plan=keep_plan
        )

    def carry_out(self, scheduled: Scheduled) -> RollbackMetadata:
        """Do what a rollback says, all of it or what is left.

        Raises `PlanRunningError` where several write and somebody else is at it.
        """
        time, target = scheduled.requested_time, scheduled.target
        began_ms = self._env.clock.now_ms()
        heartbeat = self._heartbeat(time)
        with self._concurrency.section():
            if heartbeat is not None:
                self._refuse_running(time)
                heartbeat.beat()
                heartbeat.keep_beating()
                # Whoever was stopped for long might put a file back that others have archived.
                self._concurrency.ensure()
            self._publisher.start(time, Action.ROLLBACK)
            is_forgotten = self._hide(target)
        try:
            done = self._delete(scheduled.plan.rollback_requests or (), time, target)
            with self._concurrency.section():
                if heartbeat is not None:
                    self._refuse_taken_over(time, heartbeat)
                    self._concurrency.ensure()
                self._forget(target, keep_plan=scheduled.keep_plan)
                metadata = self._metadata(time, target, done, began_ms)
                changes = done.changes(with_deletes=not is_forgotten)
                if changes:
                    self._keeper.record(time, changes, self._times)
                completion_time = self._times.next()
                self._concurrency.ensure()
                path = self._publisher.completed_path(time, Action.ROLLBACK, completion_time)
                self._storage.put_if_absent(path, plans.encode(metadata))
        finally:
            if heartbeat is not None:
                heartbeat.stop()
        if heartbeat is not None:
            heartbeat.end()
        return metadata

    def _heartbeat(self, rollback_time: str) -> Heartbeat | None:
        """Return what says that somebody is at the rollback; a writer that is alone needs none."""
        if not self._concurrency.is_shared:
            return None
        return Heartbeat(
            self._env,
            rollback_time,
            interval_ms=self._concurrency.heartbeat_ms,
            expires_ms=self._concurrency.expires_after_ms,
            owner=self._env.ids.new(),
        )

    def _refuse_running(self, rollback_time: str) -> None:
        timeline = load_timeline(self._storage, self._config)
        self._times.see(timeline)
        is_pending = any(
            i.requested_time == rollback_time and i.action is Action.ROLLBACK
            for i in timeline.pending
        )
        beats, now_ms = last_beats(self._storage), self._env.clock.now_ms()
        expires_ms = self._concurrency.expires_after_ms
        is_running = is_alive(beats, rollback_time, now_ms=now_ms, expires_ms=expires_ms)
        if is_running or not is_pending:
            raise PlanRunningError(
                f"rollback {rollback_time} is carried out by somebody else",
                next_step="nothing is left to do; if it died, the next clean goes on with it once "
                f"it has given no sign of life for {expires_ms // 1000} s",
            )

    def _refuse_taken_over(self, rollback_time: str, heartbeat: Heartbeat) -> None:
        # A writer that was taken for dead may have gone on, and put another file on the timeline.
        self._timeline = load_timeline(self._storage, self._config)
        self._times.see(self._timeline)
        if not heartbeat.is_ours():
            raise PlanRunningError(
                f"rollback {rollback_time} was taken over by somebody else",
                next_step="nothing is left to do; this one gave no sign of life for too long",
            )

    def _hide(self, target: InstantInfo) -> bool:
        """Take the instant out of readers' sight; return whether the metadata table forgot it."""
        self._storage.delete(heartbeat_path(target.commit_time))
        names = self._files_on_timeline(target)
        # Readers must not see half of it, should it have completed once.
        self._publisher.remove(n for n in names if names[n] is State.COMPLETED)
        return self._keeper.undo(target.commit_time, self._times)

    def _delete(
        self, requests: Iterable[RollbackRequest], rollback_time: str, target: InstantInfo
    ) -> _Done:
        done = _Done(self._storage, self._config)
        for request in requests:
            done.undo(request, rollback_time=rollback_time, failed_time=target.commit_time)
        return done

    def _forget(self, target: InstantInfo, *, keep_plan: bool) -> None:
        """Take what is left of the instant off the timeline, and its markers after that."""
        names = self._files_on_timeline(target)
        pending = {State.INFLIGHT} if keep_plan else {State.INFLIGHT, State.REQUESTED}
        self._publisher.remove(n for n in names if names[n] in pending)
        delete_markers(self._storage, target.commit_time)

    def _metadata(
        self, rollback_time: str, target: InstantInfo, done: _Done, began_ms: int
    ) -> RollbackMetadata:
        return RollbackMetadata(
            start_rollback_time=rollback_time,
            time_taken_in_millis=max(0, self._env.clock.now_ms() - began_ms),
            total_files_deleted=sum(len(deleted) for deleted in done.deleted.values()),
            commits_rollback=(target.commit_time,),
            partition_metadata=done.by_partition(),
            instants_rollback=(target,),
        )

    def _files_on_timeline(self, target: InstantInfo) -> Mapping[str, State]:
        found = {}
        for file_name in self._timeline.file_names:
            name = InstantName.parse(file_name, self._config.layout_version)
            if (
                name is not None
                and name.requested_time == target.commit_time
                and name.action.completed_as is Action(target.action).completed_as
            ):
                found[file_name] = name.state
        return found


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
        found = _by_listing(storage, config, failed_time)
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
        elif found is None or config.table_version >= _FIRST_OWN_LOGS:
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


def _by_listing(
    storage: Storage,
    config: TableConfig,
    failed_time: str,
    *,
    partitions: Iterable[str] | None = None,
) -> Iterator[RollbackRequest]:
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
    if config.table_version < _FIRST_OWN_LOGS:
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
class _Done:
    """What a rollback has undone so far, by partition."""

    storage: Storage
    config: TableConfig
    deleted: dict[str, list[str]] = field(default_factory=dict)
    written: dict[str, dict[str, int]] = field(default_factory=dict)
    taken_back: dict[str, dict[str, int]] = field(default_factory=dict)

    def undo(self, request: RollbackRequest, *, rollback_time: str, failed_time: str) -> None:
        partition = request.partition_path
        deleted = self.deleted.setdefault(partition, [])
        for planned in request.files_to_be_deleted:
            # Plans hold the paths of the place where they were made; the table may have moved.
            path = _join(partition, planned.rpartition("/")[2])
            self.storage.delete(path)
            deleted.append(absolute_path(self.storage, path))
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
                if log.write_token == UNKNOWN_WRITE_TOKEN:
                    blocks = decode_blocks(self.storage.read(log.path))
                    if any(b.is_rollback and b.target_instant_time == failed_time for b in blocks):
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


def _is_service(instant: Instant, timeline: Timeline, contents: TimelineContents) -> bool:
    if instant.planned_as is Action.REPLACECOMMIT:
        # Layout 1 has one word for clusterings and overwrites.
        return timeline.has_file(instant, State.REQUESTED) and contents.is_clustering(instant)
    return instant.planned_as not in WRITE_ACTIONS


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


def _slice_key(log: LogFile) -> tuple[str, str, str]:
    return log.partition, log.file_id, log.instant_time


def _split(path: str) -> tuple[str, str]:
    partition, _, name = path.rpartition("/")
    return partition, name


def _join(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name


def _file_name(instant: Instant) -> str:
    assert instant.file_name is not None  # only archived instants have none
    return instant.file_name
