"""Instants that archival moved off the active timeline.

Nothing here is read to open a table: only questions about archived instants come here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Protocol

from tidelake.config import TableConfig
from tidelake.errors import reading
from tidelake.formats import archived_log, commit_metadata, lsm_history, plans
from tidelake.formats.archived_log import ArchivedEntry
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.formats.instant_name import LAYOUT_1
from tidelake.formats.lsm_history import HistoryInstant
from tidelake.model import WRITE_ACTIONS, Action, Instant, State
from tidelake.storage import Storage
from tidelake.timeline.archive import current_manifest
from tidelake.timeline.archived_times import ArchivedTimes
from tidelake.timeline.history_file import HistoryFile
from tidelake.timeline.own_content import refuse_content_of_another
from tidelake.timeline.timeline import requested_order


class History(Protocol):
    """The archived instants of a table; each part is loaded when first asked for."""

    def completion_times(self) -> ArchivedTimes:
        """Return requested to completion time of the archived writes.

        Services are left out: one may have the requested time of a write that was rolled back.
        """

    def instants(self) -> tuple[Instant, ...]:
        """Return the archived instants by requested time; they have no file name."""

    def instants_at(self, requested_time: str) -> tuple[Instant, ...]:
        """Return the archived instants that have this requested time."""

    def instants_since(self, time: str) -> tuple[Instant, ...]:
        """Return the instants requested or completed from `time` on, and perhaps others.

        What is older is left out where that spares reading it.
        """

    def instants_of(self, action: Action) -> tuple[Instant, ...]:
        """Return the archived instants of one action by requested time."""

    def writes_holding(self, text: str) -> tuple[Instant, ...]:
        """Return the archived writes in whose metadata `text` may occur, and perhaps others.

        This is how to look for a word without decoding the metadata of a long history.
        """

    def writes_under(self, write_id: str) -> tuple[Instant, ...]:
        """Return the archived writes that were made under `write_id`, and perhaps others.

        The metadata of files of the history whose footer rules the id out is not read.
        """

    def commit_metadata(self, instant: Instant) -> CommitMetadata:
        """Return what an archived commit, deltacommit or replacecommit wrote."""

    def clean_metadata(self, instant: Instant) -> plans.CleanMetadata | None:
        """Return what an archived clean deleted, or None when the archive does not say."""

    def rollback_metadata(self, instant: Instant) -> plans.RollbackMetadata | None:
        """Return what an archived rollback undid, or None when the archive does not say."""


def open_history(storage: Storage, config: TableConfig) -> History:
    """Return the table's history without reading any of it."""
    if config.layout_version == LAYOUT_1:
        return ArchivedLogHistory(storage, config.history_folder)
    return LsmHistory(storage, config.history_folder)


def load_history_times(storage: Storage, config: TableConfig) -> ArchivedTimes:
    """Return requested to completion time of the archived writes."""
    return open_history(storage, config).completion_times()


class LsmHistory:
    """History of layout 2; times, instants and contents are separate columns of its files."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    def completion_times(self) -> ArchivedTimes:
        """Return requested to completion time of the archived writes."""
        return self._completion_times

    def instants(self) -> tuple[Instant, ...]:
        """Return the archived instants by requested time; they have no file name."""
        return self._instants

    def instants_at(self, requested_time: str) -> tuple[Instant, ...]:
        """Return the archived instants that have this requested time."""
        files = [file for file in self._files if file.may_hold_time(requested_time)]
        return tuple(i for i in _instants_in(files) if i.requested_time == requested_time)

    def instants_since(self, time: str) -> tuple[Instant, ...]:
        """Return the instants requested or completed from `time` on, and perhaps others."""
        return _instants_in([file for file in self._files if file.may_reach(time)])

    def instants_of(self, action: Action) -> tuple[Instant, ...]:
        """Return the archived instants of one action by requested time."""
        files = [file for file in self._files if file.may_hold_action(action)]
        return tuple(i for i in _instants_in(files) if i.action is action)

    def writes_holding(self, text: str) -> tuple[Instant, ...]:
        """Return the archived writes in whose metadata `text` occurs."""
        return self._holding(text, self._files)

    def writes_under(self, write_id: str) -> tuple[Instant, ...]:
        """Return the archived writes that were made under `write_id`, and perhaps others."""
        files = [file for file in self._files if file.may_hold_write_id(write_id)]
        return self._holding(write_id, files)

    def _holding(self, text: str, files: Iterable[HistoryFile]) -> tuple[Instant, ...]:
        held = {file: set(file.holding(text)) for file in files}
        found = set().union(*held.values())
        return tuple(
            i
            for i in _instants_in([file for file, those in held.items() if those])
            if (i.requested_time, i.action) in found and i.action.completed_as in WRITE_ACTIONS
        )

    def commit_metadata(self, instant: Instant) -> CommitMetadata:
        """Return what an archived commit, deltacommit or replacecommit wrote."""
        found, path = self._content_of(instant)
        is_replace = instant.action is Action.REPLACECOMMIT
        with reading(path):
            metadata = commit_metadata.decode_archived(found.metadata or b"", is_replace=is_replace)
            refuse_content_of_another(instant, metadata)
            return metadata

    def clean_metadata(self, instant: Instant) -> plans.CleanMetadata | None:
        """Return what an archived clean deleted, or None when the archive does not say."""
        found, path = self._content_of(instant)
        if found.metadata is None:
            return None
        with reading(path):
            return plans.decode_archived(plans.CleanMetadata, found.metadata)

    def rollback_metadata(self, instant: Instant) -> plans.RollbackMetadata | None:
        """Return what an archived rollback undid, or None when the archive does not say."""
        found, path = self._content_of(instant)
        if found.metadata is None:
            return None
        with reading(path):
            return plans.decode_archived(plans.RollbackMetadata, found.metadata)

    @cached_property
    def _completion_times(self) -> ArchivedTimes:
        return ArchivedTimes(self._files)

    @cached_property
    def _instants(self) -> tuple[Instant, ...]:
        return _instants_in(self._files)

    def _content_of(self, instant: Instant) -> tuple[HistoryInstant, str]:
        key = instant.requested_time, instant.action
        # Of an instant that is in several files the newest record counts.
        for file in reversed(self._files):
            if file.may_hold_time(instant.requested_time) and key in file.contents:
                return file.contents[key], file.path
        raise KeyError(key)

    @cached_property
    def _files(self) -> tuple[HistoryFile, ...]:
        """Return the files that the current manifest names; others in the folder do not count."""
        current = current_manifest(self._storage, self._folder)
        if current is None:
            return ()
        path = f"{self._folder}/{lsm_history.manifest_name(current)}"
        with reading(path):
            manifest = lsm_history.decode_manifest(self._storage.read(path))
        paths = [f"{self._folder}/{file.file_name}" for file in manifest.files]
        return tuple(HistoryFile(self._storage, path) for path in paths)


def _instants_in(files: Iterable[HistoryFile]) -> tuple[Instant, ...]:
    """Return the instants of some files by requested time, each once."""
    found = {(i.requested_time, i.action): i for file in files for i in file.instants}
    return tuple(sorted(found.values(), key=requested_order))


class ArchivedLogHistory:
    """History of layout 1; its log files hold everything of an instant in one record."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    def completion_times(self) -> ArchivedTimes:
        """Return requested to completion time of the archived writes."""
        return self._completion_times

    @cached_property
    def _completion_times(self) -> ArchivedTimes:
        writes = (i for i in self._instants if i.action in WRITE_ACTIONS)
        return ArchivedTimes.of({i.requested_time: i.completion_time or "" for i in writes})

    def instants(self) -> tuple[Instant, ...]:
        """Return the archived instants by requested time; they have no file name."""
        return self._instants

    def instants_at(self, requested_time: str) -> tuple[Instant, ...]:
        """Return the archived instants that have this requested time."""
        return tuple(i for i in self._instants if i.requested_time == requested_time)

    def instants_since(self, time: str) -> tuple[Instant, ...]:
        """Return the instants requested or completed from `time` on, and perhaps others."""
        del time  # the files do not say what is in them
        return self._instants

    def instants_of(self, action: Action) -> tuple[Instant, ...]:
        """Return the archived instants of one action by requested time."""
        return tuple(i for i in self._instants if i.action is action)

    def writes_holding(self, text: str) -> tuple[Instant, ...]:
        """Return the archived writes in whose metadata `text` may occur, and perhaps others."""
        word = text.encode()
        paths = {path for path, data in self._files if word in data}
        if not paths:
            return ()
        return tuple(
            i
            for i in self._instants
            if i.action.completed_as in WRITE_ACTIONS
            and self._completed[i.requested_time, i.action][1] in paths
        )

    def writes_under(self, write_id: str) -> tuple[Instant, ...]:
        """Return the archived writes that were made under `write_id`, and perhaps others."""
        return self.writes_holding(write_id)

    def commit_metadata(self, instant: Instant) -> CommitMetadata:
        """Return what an archived commit, deltacommit or replacecommit wrote."""
        entry, path = self._completed[instant.requested_time, instant.action]
        with reading(path):
            return entry.commit_metadata()

    def clean_metadata(self, instant: Instant) -> plans.CleanMetadata | None:
        """Return what an archived clean deleted, or None when the archive does not say."""
        entry, path = self._completed[instant.requested_time, instant.action]
        with reading(path):
            return entry.clean_metadata()

    def rollback_metadata(self, instant: Instant) -> plans.RollbackMetadata | None:
        """Return what an archived rollback undid, or None when the archive does not say."""
        entry, path = self._completed[instant.requested_time, instant.action]
        with reading(path):
            return entry.rollback_metadata()

    @cached_property
    def _instants(self) -> tuple[Instant, ...]:
        planned = {
            (entry.requested_time, entry.action.completed_as): entry.action
            for entry, _ in self._entries
            if entry.state is State.REQUESTED
        }
        found = []
        for key, (entry, _) in self._completed.items():
            pending_action = planned.get(key, entry.action)
            found.append(
                Instant(
                    requested_time=entry.requested_time,
                    action=entry.action,
                    state=State.COMPLETED,
                    # Archives of old releases do not say when an instant completed.
                    completion_time=entry.transition_time or entry.requested_time,
                    pending_action=None if pending_action is entry.action else pending_action,
                )
            )
        return tuple(sorted(found, key=requested_order))

    @cached_property
    def _completed(self) -> Mapping[tuple[str, Action], tuple[ArchivedEntry, str]]:
        return {
            (entry.requested_time, entry.action): (entry, path)
            for entry, path in self._entries
            if entry.state is State.COMPLETED
        }

    @cached_property
    def _entries(self) -> list[tuple[ArchivedEntry, str]]:
        entries = []
        for path, data in self._files:
            with reading(path):
                entries += [(entry, path) for entry in archived_log.decode(data)]
        return entries

    @cached_property
    def _files(self) -> list[tuple[str, bytes]]:
        names = [file.name for file in self._storage.list(self._folder).files]
        # Oldest first, so that of an instant archived twice the newest record stays.
        numbered = sorted(
            (number, name)
            for name in names
            if (number := archived_log.version_of(name)) is not None
        )
        paths = [f"{self._folder}/{name}" for _, name in numbered]
        return list(zip(paths, self._storage.read_many(paths), strict=True))
