"""Putting instants into the history, so that they may leave the active timeline.

Layout 2 keeps them in Parquet files that a manifest names: the file appears, then a new manifest,
then `_version_` points to that. Until then the file is litter; afterwards the instants are in the
history, and still on the active timeline, where readers take them from. Files of one level are
merged into one of the next. Layout 1 keeps them in log files, each of which appears whole.

An archival whose lock ran out while it stood still must not undo what another did since. So nobody
writes a manifest, or a file that one names, or an archive of layout 1 that is there, and the
pointer moves only if it is where it was.

An archival that crashed before it could take its instants off the active timeline has left them in
the newest file of the history. That is looked at first, so nothing is archived twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidelake.config import ArchiveOptions, TableConfig
from tidelake.errors import LockLostError, MissingFileError, reading
from tidelake.formats import archived_log, lsm_history
from tidelake.formats.archived_log import TimelineFile
from tidelake.formats.instant_name import InstantName
from tidelake.formats.lsm_history import HistoryFileName, HistoryInstant, Manifest, ManifestFile
from tidelake.model import Action, Instant, State
from tidelake.storage import FileInfo, Folder, Storage
from tidelake.timeline.load import completion_time_from
from tidelake.timeline.timeline import Timeline, pending_file

#: Actions whose plan the history keeps beside what they did.
_WITH_PLAN = frozenset(
    {Action.CLEAN, Action.COMPACTION, Action.LOGCOMPACTION, Action.REPLACECOMMIT, Action.CLUSTERING}
)
#: Of these, those that may have said more when they began.
_REPLACING = frozenset({Action.REPLACECOMMIT, Action.CLUSTERING})


class LsmArchive:
    """The history of layout 2, for whoever adds to it; one at a time."""

    def __init__(self, storage: Storage, config: TableConfig, options: ArchiveOptions) -> None:
        self._storage = storage
        self._config = config
        self._folder = config.history_folder
        self._options = options

    def add(self, timeline: Timeline, instants: Sequence[Instant]) -> None:
        """Put completed instants into the history, unless they are there already."""
        history = self._load()
        known = self._newest(history)
        new = [i for i in instants if (i.requested_time, i.action) not in known]
        if new:
            added = self._put(self._contents(timeline, new), level=0)
            self._publish(history, (*history.files, added))

    def tidy(self) -> None:
        """Merge small files, and delete what no manifest that is kept names."""
        history = self._load()
        merged = 0
        level = 0
        while chosen := self._to_merge(history.files, level):
            instants = {
                (instant.requested_time, instant.action): instant
                for file in chosen
                for instant in self._read(file.file_name)
            }
            level += 1
            merged += 1
            added = self._put(instants.values(), level=level)
            kept = (file for file in history.files if file not in chosen)
            history = self._publish(history, (*kept, added))
        self._delete_unnamed(history, self._options.history_manifests + merged)

    def _contents(self, timeline: Timeline, instants: Sequence[Instant]) -> list[HistoryInstant]:
        wanted: list[str] = []
        for instant in instants:
            assert instant.file_name is not None  # only archived instants have none
            wanted.append(instant.file_name)
            if instant.planned_as in _WITH_PLAN:
                states = [State.REQUESTED]
                if instant.planned_as in _REPLACING:
                    states.append(State.INFLIGHT)
                names = (pending_file(instant, state) for state in states)
                wanted += [name for name in names if name in timeline.file_names]
        folder = self._config.timeline_folder
        found = self._storage.read_many([f"{folder}/{name}" for name in wanted])
        data = dict(zip(wanted, found, strict=True))
        return [
            HistoryInstant(
                requested_time=instant.requested_time,
                completion_time=instant.completion_time or "",
                action=instant.action,
                metadata=data[instant.file_name or ""] or None,
                plan=_plan(instant, data),
            )
            for instant in instants
        ]

    def _newest(self, history: _Version) -> set[tuple[str, Action]]:
        parsed = ((HistoryFileName.parse(f.file_name), f.file_name) for f in history.files)
        ranked = [(max(name.first, name.last), file) for name, file in parsed if name]
        if not ranked:
            return set()
        instants = self._read(max(ranked)[1], with_contents=False)
        return {(i.requested_time, i.action) for i in instants}

    def _to_merge(self, files: Iterable[ManifestFile], level: int) -> Sequence[ManifestFile]:
        """Return the oldest files of a level that become one of the next, or none."""
        named = ((HistoryFileName.parse(file.file_name), file) for file in files)
        of_level = sorted(
            (file for name, file in named if name is not None and name.level == level),
            key=lambda file: file.file_name,
        )
        if len(of_level) < self._options.history_batch:
            return ()
        chosen: list[ManifestFile] = []
        size_bytes = 0
        for file in of_level:
            if len(chosen) == self._options.history_batch:
                break
            if size_bytes + file.file_len > self._options.history_file_size_bytes:
                if chosen:
                    break
                continue  # it is large enough by itself
            chosen.append(file)
            size_bytes += file.file_len
        return chosen if len(chosen) > 1 else ()

    def _read(self, file_name: str, *, with_contents: bool = True) -> list[HistoryInstant]:
        path = f"{self._folder}/{file_name}"
        with self._storage.open(path) as source, reading(path):
            return lsm_history.decode_instants(source, with_contents=with_contents)

    def _put(self, instants: Iterable[HistoryInstant], *, level: int) -> ManifestFile:
        ordered = sorted(instants, key=lambda i: (i.requested_time, i.action))
        name = HistoryFileName(
            first=ordered[0].requested_time, last=ordered[-1].requested_time, level=level
        ).format()
        content = lsm_history.encode_instants(ordered)
        path = f"{self._folder}/{name}"
        if not self._storage.put_if_absent(path, content):
            # One that no manifest names is what a crash left, and may hold other instants.
            found = self._storage.read_tagged(path)
            is_named = any(file.file_name == name for file in self._load().files)
            if is_named or self._storage.put_if_tagged(path, content, found.tag) is None:
                raise _overtaken(self._folder)
        return ManifestFile(file_name=name, file_len=len(content))

    def _publish(self, history: _Version, files: Iterable[ManifestFile]) -> _Version:
        number = history.newest + 1
        manifest = Manifest(files=tuple(files))
        path = f"{self._folder}/{lsm_history.manifest_name(number)}"
        if not self._storage.put_if_absent(path, lsm_history.encode_manifest(manifest)):
            raise _overtaken(self._folder)
        tag = self._point_to(number, history.pointer_tag)
        return _Version(number=number, files=manifest.files, newest=number, pointer_tag=tag)

    def _point_to(self, number: int, tag: str | None) -> str:
        """Let the pointer name a manifest, if nobody has moved it since it had `tag`."""
        path = f"{self._folder}/{lsm_history.VERSION_FILE}"
        content = lsm_history.encode_version(number)
        if tag is not None:
            moved = self._storage.put_if_tagged(path, content, tag)
        elif self._storage.put_if_absent(path, content):
            moved = self._storage.read_tagged(path).tag
        else:
            moved = None
        if moved is None:
            raise _overtaken(self._folder)
        return moved

    def _load(self) -> _Version:
        # What is seen of the pointer here has to be older than what is seen of the rest.
        path = f"{self._folder}/{lsm_history.VERSION_FILE}"
        try:
            tag: str | None = self._storage.read_tagged(path).tag
        except MissingFileError:
            tag = None
        newest = max(_manifest_numbers(self._storage.list(self._folder)), default=0)
        number = current_manifest(self._storage, self._folder)
        files = () if number is None else self._manifest(number).files
        return _Version(number=number or 0, files=files, newest=newest, pointer_tag=tag)

    def _manifest(self, number: int) -> Manifest:
        path = f"{self._folder}/{lsm_history.manifest_name(number)}"
        data = self._storage.read(path)
        with reading(path):
            return lsm_history.decode_manifest(data)

    def _delete_unnamed(self, history: _Version, keep: int) -> None:
        """Delete old manifests, and the files that they alone name.

        A file that no manifest names may be one that somebody is about to name.
        """
        numbers = sorted(_manifest_numbers(self._storage.list(self._folder)))
        old = [number for number in numbers if number <= history.number - keep]
        if not old:
            return
        named = {
            number: {file.file_name for file in self._manifest(number).files} for number in numbers
        }
        kept = set().union(*(named[number] for number in numbers if number not in old))
        for number in old:
            for name in sorted(named[number] - kept):
                self._storage.delete(f"{self._folder}/{name}")
            self._storage.delete(f"{self._folder}/{lsm_history.manifest_name(number)}")


class LogArchive:
    """The archive of layout 1, for whoever adds to it; one at a time."""

    def __init__(self, storage: Storage, config: TableConfig, options: ArchiveOptions) -> None:
        self._storage = storage
        self._config = config
        self._options = options

    def add(self, timeline: Timeline, instants: Sequence[Instant]) -> None:
        """Put completed instants into the archive, unless they are there already."""
        folder = self._config.history_folder
        names = [file.name for file in self._storage.list(folder).files]
        versions = {v: name for name in names if (v := archived_log.version_of(name)) is not None}
        newest = max(versions, default=0)
        known: set[tuple[str, Action]] = set()
        if newest:
            path = f"{folder}/{versions[newest]}"
            data = self._storage.read(path)
            with reading(path):
                entries = archived_log.decode(data)
            known = {(e.requested_time, e.action) for e in entries if e.state is State.COMPLETED}
        new = [i for i in instants if (i.requested_time, i.action) not in known]
        if new:
            records = self._entries(timeline, new)
            content = archived_log.encode(records, batch=self._options.batch)
            path = f"{folder}/{archived_log.file_name(newest + 1)}"
            if not self._storage.put_if_absent(path, content):
                raise _overtaken(folder)

    def tidy(self) -> None:
        """Do nothing: Apache Hudi does not merge archives unless it is told to, and nor do we."""

    def _entries(self, timeline: Timeline, instants: Iterable[Instant]) -> Sequence[bytes]:
        folder = self._config.timeline_folder
        infos = {file.name: file for file in self._storage.list(folder).files}
        chosen = [
            (name, infos[file_name])
            for instant in instants
            for file_name, name in timeline.files_of(instant)
            if file_name in infos
        ]
        found = self._storage.read_many([f"{folder}/{info.name}" for _, info in chosen])
        entries = []
        for (name, info), data in zip(chosen, found, strict=True):
            with reading(f"{folder}/{info.name}"):
                entries.append(
                    archived_log.encode_entry(_timeline_file(name, info, data, self._config))
                )
        return entries


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    """One state of the history; number 0 is the empty one."""

    number: int
    files: tuple[ManifestFile, ...]
    newest: int
    """The greatest number of a manifest; a crash may have left one that does not count."""
    pointer_tag: str | None


def _overtaken(folder: str) -> LockLostError:
    return LockLostError(
        f"somebody else has put instants into {folder} meanwhile, for which the lock of this "
        "archival must have run out",
        next_step="nothing is left to do: the instants that it was about are still there, and the "
        "next archival takes them",
    )


def current_manifest(storage: Storage, folder: str) -> int | None:
    """Return the number of the manifest that counts, or None for an empty history.

    A crash between manifest and pointer leaves the pointer behind, and Hudi deletes the pointer
    before it writes it anew: without a good one the newest manifest counts. Raises
    `MissingFileError` when the pointer names one that is gone: older ones lack instants.
    """
    listed = storage.list(folder)
    numbers = _manifest_numbers(listed)
    current = None
    if any(file.name == lsm_history.VERSION_FILE for file in listed.files):
        current = lsm_history.decode_version(storage.read(f"{folder}/{lsm_history.VERSION_FILE}"))
    if current is not None and current > max(numbers, default=0):
        numbers = _manifest_numbers(storage.list(folder))  # it may have come since
        if current > max(numbers, default=0):
            raise MissingFileError(
                f"{folder}/{lsm_history.manifest_name(current)}",
                next_step=f"restore it; if it is lost, delete {folder}/{lsm_history.VERSION_FILE}: "
                "the history then is that of the newest manifest, without what was archived since",
            )
    return current if current in numbers else max(numbers, default=None)


def _manifest_numbers(listed: Folder) -> list[int]:
    found = (lsm_history.manifest_number(file.name) for file in listed.files)
    return [number for number in found if number is not None]


def _timeline_file(
    name: InstantName, info: FileInfo, data: bytes, config: TableConfig
) -> TimelineFile:
    return TimelineFile(
        requested_time=name.requested_time,
        action=name.action,
        state=name.state,
        transition_time=completion_time_from(info.modified_ms, config),
        content=data,
    )


def _plan(instant: Instant, data: dict[str, bytes]) -> bytes | None:
    if instant.planned_as not in _WITH_PLAN:
        return None
    plan = data.get(pending_file(instant, State.REQUESTED))
    if instant.planned_as in _REPLACING:
        plan = data.get(pending_file(instant, State.INFLIGHT)) or plan
    return plan or None
