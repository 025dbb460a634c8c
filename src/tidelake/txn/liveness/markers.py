"""The markers of one instant: which files it may have left behind."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidelake.formats.file_name import parse_base
from tidelake.formats.marker_name import (
    Marker,
    is_served_list,
    marker_folder,
    parse_marker,
)
from tidelake.storage import Storage


def marker_files(storage: Storage, instant_time: str) -> Sequence[str]:
    """Return the paths of the files in which the markers of an instant are kept."""
    return storage.files_below(marker_folder(instant_time))


def list_markers(
    storage: Storage, instant_time: str, files: Sequence[str] | None = None
) -> Sequence[Marker] | None:
    """Return the markers of an instant, kept as files or by Hudi's timeline server.

    None means that they say nothing: there are none, or the server's lists are damaged. `files` are
    those of `marker_files`, for who has asked.
    """
    folder = marker_folder(instant_time)
    paths = marker_files(storage, instant_time) if files is None else files
    names = [path[len(folder) + 1 :] for path in paths]
    lists = [f"{folder}/{name}" for name in names if is_served_list(name)]
    served = [
        parse_marker(line)
        for data in storage.read_many(lists)
        for line in data.decode("utf-8", "replace").split("\n")
        if line
    ]
    if None in served:
        return None
    found = (*map(parse_marker, names), *served)
    return [marker for marker in found if marker is not None] or None


def delete_strays(
    storage: Storage,
    instant_time: str,
    wanted: Collection[str],
    files: Sequence[str] | None = None,
) -> Sequence[str]:
    """Delete the files that have a marker and are not `wanted`; return their paths.

    They come from tasks that were retried or ran twice: what they wrote would count as soon as the
    instant completes.
    """
    markers = list_markers(storage, instant_time, files) or ()
    marked = {marker.path for marker in markers if is_of(marker.path, instant_time)}
    strays = sorted(marked - set(wanted))
    storage.delete_all(strays)
    return strays


def is_of(path: str, instant_time: str) -> bool:
    """Return whether the instant may have made the file: a base file has its writer's time.

    So have logs from table version 8 on; before, that of the slice they belong to.
    """
    folder, _, name = path.rpartition("/")
    base = parse_base(folder, name, 0)
    return base is None or base.instant_time == instant_time


def delete_markers(storage: Storage, instant_time: str) -> None:
    """Delete the markers of an instant that is done with its files."""
    storage.delete_folder(marker_folder(instant_time))
