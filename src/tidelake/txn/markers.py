"""The markers of one instant: which files it may have left behind."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidelake.formats.marker_name import (
    Marker,
    is_served_list,
    marker_folder,
    parse_marker,
)
from tidelake.storage import Storage


def list_markers(storage: Storage, instant_time: str) -> Sequence[Marker] | None:
    """Return the markers of an instant, kept as files or by Hudi's timeline server.

    None means that they say nothing: there are none, or the server's lists are damaged.
    """
    folder = marker_folder(instant_time)
    names = [path[len(folder) + 1 :] for path in storage.files_below(folder)]
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


def delete_strays(storage: Storage, instant_time: str, wanted: Collection[str]) -> Sequence[str]:
    """Delete the files that have a marker and are not `wanted`; return their paths.

    They come from tasks that were retried or ran twice: what they wrote would count as soon as the
    instant completes.
    """
    markers = list_markers(storage, instant_time) or ()
    strays = sorted({marker.path for marker in markers} - set(wanted))
    for path in strays:
        storage.delete(path)
    return strays


def delete_markers(storage: Storage, instant_time: str) -> None:
    """Delete the markers of an instant that is done with its files."""
    storage.delete_folder(marker_folder(instant_time))
