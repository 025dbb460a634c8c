"""Loading the active timeline from storage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import lru_cache

from tidelake.config import TableConfig
from tidelake.errors import CorruptFileError, Malformed, UnsupportedTableError, reading
from tidelake.formats.file_name import is_data_file
from tidelake.formats.instant_name import LAYOUT_1, LAYOUT_2, InstantName
from tidelake.model import Action, Instant, State
from tidelake.model.instant_digits import instant_digits
from tidelake.storage import FileInfo, Folder, Storage
from tidelake.timeline.late_commits import late_files
from tidelake.timeline.timeline import Timeline, requested_order

_META_FOLDER = ".hoodie"
_TIMELINE_FOLDER = "timeline"


def load_timeline(storage: Storage, config: TableConfig) -> Timeline:
    """Return the active timeline; the cost does not depend on how long its history is."""
    return _loaded(storage, config, *_both_folders(storage, config))


def reload_timeline(
    storage: Storage, config: TableConfig, folder: Folder | None = None
) -> Timeline:
    """Return the active timeline as it is now, to who has just loaded it with these settings.

    Whether half of it lies in the folder of another layout is not asked again. `folder` is that of
    the timeline, for who has listed it.
    """
    listed = storage.list(config.timeline_folder) if folder is None else folder
    return _loaded(storage, config, listed, None)


def _loaded(
    storage: Storage, config: TableConfig, folder: Folder, beside: frozenset[str] | None
) -> Timeline:
    _refuse_folders(config, folder)
    found = _collapse(folder.files, config)
    late = late_files(
        storage,
        config,
        found,
        {file.name: file.modified_ms for file in folder.files},
        lambda modified_ms: completion_time_from(modified_ms, config),
    )
    if late:
        found = _collapse((file for file in folder.files if file.name not in late), config)
        found = replace(found, late_files=late)
    if beside is not None:
        found = replace(found, meta_names=beside)
    if not found.instants:
        _refuse_lost(storage, config)
    return found


def completion_time_from(modified_ms: int, config: TableConfig) -> str:
    """Return a file's modification time as the completion time that layout 1 does not write down.

    The zone is that of the table's other times: UTC, or where the table says LOCAL that of this
    process, as in Hudi. Raise `Malformed` for a time that no calendar has.
    """
    try:
        moment = datetime.fromtimestamp(modified_ms // 1000, timezone.utc)
        moment += timedelta(milliseconds=modified_ms % 1000)
        if not config.timeline_timezone_utc:
            moment = moment.astimezone()
    except (ValueError, OverflowError, OSError) as cause:
        raise Malformed(f"it was modified {modified_ms} ms after 1970, which is no time") from cause
    return instant_digits(moment)


@dataclass(frozen=True, slots=True)
class _Seen:
    name: InstantName
    file: FileInfo
    config: TableConfig

    @property
    def completion_time(self) -> str | None:
        if self.name.state is not State.COMPLETED:
            return None
        if self.name.completion_time is not None:
            return self.name.completion_time
        with reading(f"{self.config.timeline_folder}/{self.file.name}"):
            return completion_time_from(self.file.modified_ms, self.config)

    @property
    def progress(self) -> tuple[int, str]:
        # A completed file without a completion time in layout 2 is a leftover of an upgrade. Of two
        # that have one, the earlier belongs to an attempt that was given up, and came late.
        return self.name.state.rank, self.name.completion_time or ""


def _collapse(files: Iterable[FileInfo], config: TableConfig) -> Timeline:
    found = tuple(files)
    if config.layout_version == LAYOUT_1 and not config.timeline_timezone_utc:
        return _made(found, config)  # times follow the zone of this process
    return _made_once(_Files(found, config.layout_version, config.timeline_folder, config))


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a timeline, which are the same ones as long as nothing happens to the table."""

    files: tuple[FileInfo, ...]
    layout_version: int
    folder: str
    config: TableConfig = field(compare=False)


@lru_cache(maxsize=16)  # every part of a write looks at the timeline, which hardly ever changed
def _made_once(seen: _Files) -> Timeline:
    return _made(seen.files, seen.config)


def _made(files: Iterable[FileInfo], config: TableConfig) -> Timeline:
    groups: dict[tuple[str, Action], list[_Seen]] = {}
    file_names = set()
    for file in files:
        name = InstantName.parse(file.name, config.layout_version)
        if name is None or name.action is Action.SCHEMACOMMIT:
            continue
        file_names.add(file.name)
        key = (name.requested_time, name.action.completed_as)
        groups.setdefault(key, []).append(_Seen(name, file, config))
    instants = sorted(map(_instant, groups.values()), key=requested_order)
    return Timeline(instants=tuple(instants), file_names=frozenset(file_names))


def _instant(seen: list[_Seen]) -> Instant:
    furthest = max(seen, key=lambda s: s.progress)
    planned = min(seen, key=lambda s: s.progress).name.action
    action = furthest.name.action
    return Instant(
        requested_time=furthest.name.requested_time,
        action=action,
        state=furthest.name.state,
        completion_time=furthest.completion_time,
        file_name=furthest.file.name,
        pending_action=planned if planned is not action else None,
    )


def _refuse_lost(storage: Storage, config: TableConfig) -> None:
    """Refuse a table that has data files, and on its timeline nothing that could have written them.

    A new table has neither. One whose timeline was lost would read as empty, and the next write
    would begin it anew. Writes put their instant before their files, so the second look at the
    timeline shows one that began since the first.
    """
    path = next(filter(is_data_file, _outside_meta(storage)), None)
    if path is not None and not _has_instants(storage, config):
        raise CorruptFileError(
            config.timeline_folder,
            f"the timeline has no instant, but there are data files, such as {path}",
            next_step=f"restore the folder {config.timeline_folder} from a backup or the storage's "
            "versions; without it nobody can tell which files count",
        )


def _has_instants(storage: Storage, config: TableConfig) -> bool:
    files = storage.list(config.timeline_folder).files
    return any(InstantName.parse(file.name, config.layout_version) for file in files)


def _outside_meta(storage: Storage) -> Iterator[str]:
    top = storage.list("")
    yield from (file.name for file in top.files)
    for name in top.folders:
        if name != _META_FOLDER:
            yield from storage.files_below(name)


def _refuse_folders(config: TableConfig, folder: Folder) -> None:
    """Refuse a timeline where a folder has the name of an instant: the file there is lost."""
    for name in folder.folders:
        if InstantName.parse(name, config.layout_version) is not None:
            raise CorruptFileError(
                f"{config.timeline_folder}/{name}", "it is a folder, and instants are files"
            )


def _both_folders(storage: Storage, config: TableConfig) -> tuple[Folder, frozenset[str]]:
    """Return the timeline folder, and what lies in `.hoodie`.

    A table whose timeline lies partly elsewhere is refused.

    An upgrade or downgrade moves the timeline first and the properties last, so what is left after
    a crash in between would read as a smaller or empty table.
    """
    if config.layout_version == LAYOUT_1:
        folder = meta = storage.list(config.timeline_folder)
        if _TIMELINE_FOLDER not in folder.folders:
            return folder, _names(meta)
        elsewhere, layout = f"{_META_FOLDER}/{_TIMELINE_FOLDER}", LAYOUT_2
        other = storage.list(elsewhere)
    else:
        elsewhere, layout = _META_FOLDER, LAYOUT_1
        folder, other = storage.both(
            lambda: storage.list(config.timeline_folder), lambda: storage.list(elsewhere)
        )
        meta = other
    for file in other.files:
        name = InstantName.parse(file.name, layout)
        if name is not None:
            raise UnsupportedTableError(
                f"the table's properties say timeline layout {config.layout_version}, "
                f"but {elsewhere}/{file.name} belongs to layout {layout}",
                next_step="an upgrade or downgrade stopped half-way: run it again with the tool "
                "that started it, or restore the .hoodie folder from a backup",
            )
    return folder, _names(meta)


def _names(folder: Folder) -> frozenset[str]:
    return frozenset((*folder.folders, *(file.name for file in folder.files)))
