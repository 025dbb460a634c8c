"""What the files of the active timeline say, read on demand and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar

from tidelake.config import TableConfig
from tidelake.errors import CorruptFileError, MissingFileError, reading
from tidelake.formats import commit_metadata, plans
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.model import Action, Instant, State
from tidelake.storage import Storage
from tidelake.timeline.history import History, open_history
from tidelake.timeline.own_content import refuse_content_of_another
from tidelake.timeline.timeline import Timeline, pending_file

V = TypeVar("V")
#: Files up to this size stay decoded: each look at a table meets mostly those of the look before.
_SMALL_BYTES = 16 * 1024


class TimelineContents:
    """Contents of instants of one active timeline.

    Timeline files never change, so each is read once. A damaged file raises `CorruptFileError`, one
    that a rollback has removed since the timeline was loaded `MissingFileError`. What archival has
    removed since is found in the history, as far as that keeps it: commits and cleans.
    """

    def __init__(self, storage: Storage, config: TableConfig) -> None:
        self._storage = storage
        self._config = config
        self._folder = config.timeline_folder
        self._kept: dict[str, Any] = {}
        self._history: History | None = None

    def commit_metadata(self, instant: Instant) -> CommitMetadata:
        """Return what a commit, deltacommit or replacecommit wrote or, inflight, is to write."""
        try:
            return self._read(_own_file(instant), self._commit_decoder(instant))
        except MissingFileError:
            history = self._history_with(instant)
            if history is None:
                raise
            found = history.commit_metadata(instant)
            self._kept[_own_file(instant)] = found
            return found

    def load_commit_metadata(self, instants: Iterable[Instant]) -> None:
        """Read the commit metadata of many instants at once, which storage may do in parallel."""
        wanted = [i for i in instants if _own_file(i) not in self._kept]
        paths = [f"{self._folder}/{_own_file(i)}" for i in wanted]
        try:
            contents = self._storage.read_many(paths)
        except MissingFileError:
            for instant in wanted:
                self.commit_metadata(instant)
            return
        for instant, path, data in zip(wanted, paths, contents, strict=True):
            with reading(path):
                self._kept[_own_file(instant)] = self._commit_decoder(instant)(data)

    def compaction_plan(self, instant: Instant) -> plans.CompactionPlan:
        """Return what a compaction or log compaction, pending or completed, set out to merge."""
        return self._read_plan(plans.CompactionPlan, pending_file(instant, State.REQUESTED))

    def requested_replace(self, instant: Instant) -> plans.RequestedReplaceMetadata:
        """Return what a replacecommit or clustering set out to do.

        An empty file of a replacecommit says nothing; a clustering is nothing without its plan.
        """

        def decode(data: bytes) -> plans.RequestedReplaceMetadata:
            if not data and instant.planned_as is not Action.CLUSTERING:
                return plans.RequestedReplaceMetadata()
            return _plan(plans.RequestedReplaceMetadata, data)

        return self._read(pending_file(instant, State.REQUESTED), decode)

    def is_clustering(self, instant: Instant) -> bool:
        """Return whether a pending replacecommit is a clustering.

        Layout 1 has one word for clusterings and overwrites; only the plan tells them apart. One
        without a plan is none: a write that was rolled back and did not notice put its file back.
        """
        if instant.planned_as is Action.CLUSTERING:
            return True
        if instant.planned_as is not Action.REPLACECOMMIT:
            return False
        try:
            return self.requested_replace(instant).is_clustering
        except MissingFileError:
            return False

    def clustering_plan(self, instant: Instant) -> plans.ClusteringPlan | None:
        """Return which file groups a clustering set out to rewrite; None for an overwrite."""
        return self.requested_replace(instant).clustering_plan

    def clean_plan(self, instant: Instant) -> plans.CleanerPlan:
        """Return what a clean set out to delete."""
        return self._read_plan(plans.CleanerPlan, pending_file(instant, State.REQUESTED))

    def clean_metadata(self, instant: Instant) -> plans.CleanMetadata:
        """Return what a completed clean deleted."""
        try:
            return self._read_result(plans.CleanMetadata, instant)
        except MissingFileError:
            history = self._history_with(instant)
            found = None if history is None else history.clean_metadata(instant)
            if found is None:
                raise
            return found

    def rollback_plan(self, instant: Instant) -> plans.RollbackPlan:
        """Return what a rollback set out to undo."""
        return self._read_plan(plans.RollbackPlan, pending_file(instant, State.REQUESTED))

    def rollback_metadata(self, instant: Instant) -> plans.RollbackMetadata:
        """Return what a completed rollback undid."""
        return self._read_result(plans.RollbackMetadata, instant)

    def ever_rolled_back(self, timeline: Timeline) -> frozenset[str]:
        """Return the writes that rollbacks took back, those in the history included."""
        done = [i for i in timeline.completed if i.action is Action.ROLLBACK]
        found = [self.rollback_metadata(i) for i in done]
        history = open_history(self._storage, self._config)
        archived = history.instants_of(Action.ROLLBACK)
        told = (history.rollback_metadata(i) for i in archived)
        found += [metadata for metadata in told if metadata is not None]
        return frozenset(time for metadata in found for time in metadata.commits_rollback)

    def rolled_back_by(self, timeline: Timeline) -> frozenset[str]:
        """Return the writes that rollbacks and restores of a timeline took back, or have begun to.

        Plans of services do not count: they stay when an attempt at them is rolled back. Damaged
        files tell nothing, nor do those that are archived by now: the history has these.
        """
        found: set[str] = set()
        for instant in timeline.instants:
            try:
                if instant.action is Action.ROLLBACK:
                    found.update(self._rolled_back(instant))
                elif instant.action is Action.RESTORE:
                    found.update(self._restored(instant))
            except (CorruptFileError, MissingFileError):
                continue
        return frozenset(found)

    def _rolled_back(self, rollback: Instant) -> Iterable[str]:
        if rollback.is_completed:
            done = self.rollback_metadata(rollback)
            plans_stay = {i.commit_time for i in done.instants_rollback if _is_plan(i)}
            return [time for time in done.commits_rollback if time not in plans_stay]
        target = self.rollback_plan(rollback).instant_to_rollback
        return [] if target is None or _is_plan(target) else [target.commit_time]

    def _restored(self, restore: Instant) -> Iterable[str]:
        if restore.is_completed:
            return self.restore_metadata(restore).instants_to_rollback
        return [info.commit_time for info in self.restore_plan(restore).instants_to_rollback]

    def restore_plan(self, instant: Instant) -> plans.RestorePlan:
        """Return which instants a restore set out to take back."""
        return self._read_plan(plans.RestorePlan, pending_file(instant, State.REQUESTED))

    def restore_metadata(self, instant: Instant) -> plans.RestoreMetadata:
        """Return what a completed restore took back."""
        return self._read_result(plans.RestoreMetadata, instant)

    def savepoint_metadata(self, instant: Instant) -> plans.SavepointMetadata:
        """Return which files a savepoint keeps."""
        return self._read_plan(plans.SavepointMetadata, _completed_file(instant))

    def index_plan(self, instant: Instant) -> plans.IndexPlan:
        """Return which indexes an index build set out to make."""
        return self._read_plan(plans.IndexPlan, pending_file(instant, State.REQUESTED))

    def index_metadata(self, instant: Instant) -> plans.IndexCommitMetadata:
        """Return which indexes a completed index build made."""
        return self._read_plan(plans.IndexCommitMetadata, _completed_file(instant))

    def _history_with(self, instant: Instant) -> History | None:
        """Return the history as it is now, if the instant is in it."""
        for history in (self._history, open_history(self._storage, self._config)):
            if history is not None and any(
                i.key == instant.key for i in history.instants_at(instant.requested_time)
            ):
                self._history = history
                return history
        return None

    def _read_plan(self, kind: type[V], file_name: str) -> V:
        return self._read(file_name, lambda data: _plan(kind, data))

    def _commit_decoder(self, instant: Instant) -> Callable[[bytes], CommitMetadata]:
        is_pending = not instant.is_completed
        is_replace = instant.action is Action.REPLACECOMMIT and not is_pending
        own_logs = self._config.logs_name_their_write

        def decode(data: bytes) -> CommitMetadata:
            decode_commit = _small_commit if len(data) <= _SMALL_BYTES else commit_metadata.decode
            found = decode_commit(data, is_replace=is_replace, is_pending=is_pending)
            refuse_content_of_another(instant, found, logs_name_their_write=own_logs)
            return found

        return decode

    def _read_result(self, kind: type[V], instant: Instant) -> V:
        def decode(data: bytes) -> V:
            found = _plan(kind, data)
            refuse_content_of_another(instant, found)
            return found

        return self._read(_completed_file(instant), decode)

    def _read(self, file_name: str, decode: Callable[[bytes], V]) -> V:
        if file_name not in self._kept:
            path = f"{self._folder}/{file_name}"
            data = self._storage.read(path)
            with reading(path):
                self._kept[file_name] = decode(data)
        found: V = self._kept[file_name]
        return found


@lru_cache(maxsize=512)
def _small_commit(data: bytes, *, is_replace: bool, is_pending: bool) -> CommitMetadata:
    return commit_metadata.decode(data, is_replace=is_replace, is_pending=is_pending)


def _plan(kind: type[V], data: bytes) -> V:
    if len(data) > _SMALL_BYTES:
        return plans.decode(kind, data)
    hashable: Any = kind
    found: V = _small_plan(hashable, data)
    return found


@lru_cache(maxsize=512)
def _small_plan(kind: Any, data: bytes) -> Any:
    return plans.decode(kind, data)


def _is_plan(info: plans.InstantInfo) -> bool:
    return info.action in (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)


def _own_file(instant: Instant) -> str:
    if instant.file_name is None:
        raise ValueError(f"{instant.requested_time} is archived: ask its history for the content")
    return instant.file_name


def _completed_file(instant: Instant) -> str:
    if not instant.is_completed:
        raise ValueError(f"{instant.action} {instant.requested_time} is still {instant.state}")
    return _own_file(instant)
