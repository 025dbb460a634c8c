"""Names of markers, which say what a write may have left behind.

A task that writes a data file keeps an order. It puts the marker, then the file, and then looks
whether the heartbeat of its instant is still there, and no seal beside it: a writer that completes
its instant puts the seal first, a process that rolls the instant back deletes the heartbeat first,
and both list the markers after that. So a task that finds the seal, or no heartbeat, deletes its
own file and fails, and the file of every other task is known by its marker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidelake.errors import Malformed
from tidelake.formats import table_path
from tidelake.model import Word

_SERVED_LIST = re.compile(r"MARKERS[0-9]+")
#: Where the folders of markers lie, one an instant.
MARKER_FOLDER = ".hoodie/.temp"

_SEALED = "sealed"
_MARKER = re.compile(r"(?P<path>.+)\.marker\.(?P<kind>CREATE|MERGE|APPEND)", re.DOTALL)


class MarkerKind(Word):
    """What is done to the file that the marker names."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"

    @classmethod
    def of_log(cls, table_version: int) -> MarkerKind:
        """Return the kind for log files; the other one makes Apache refuse the table."""
        return cls.CREATE if table_version >= 8 else cls.APPEND


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """One file, by its path relative to the table, that a write may have left behind."""

    path: str
    kind: MarkerKind


def marker_folder(instant_time: str) -> str:
    """Return the folder of the markers of one instant; raise `Malformed` for what is no instant.

    Without a name of its own the folder would be that of all writers.
    """
    return f"{MARKER_FOLDER}/{table_path.instant_time(instant_time)}"


def marker_path(folder: str, data_path: str, kind: MarkerKind) -> str:
    """Return the path of the empty file that must exist before the file at `data_path` does."""
    return f"{folder}/{data_path}.marker.{kind}"


def heartbeat_path(instant_time: str) -> str:
    """Return the file that exists as long as the writer of the instant wants its files."""
    return f".hoodie/.heartbeat/{instant_time}"


def seal_path(instant_time: str, owner: str | None = None) -> str:
    """Return the file that tells tasks that no more files of the instant are wanted.

    The heartbeat stays beside it until the instant has completed. `owner` is of one attempt at a
    plan: the seal of another attempt does not count for it.
    """
    attempt = f"{owner}." if owner else ""
    return f".hoodie/.heartbeat/.{instant_time}.{attempt}{_SEALED}"


def is_seal_of(name: str, instant_time: str) -> bool:
    """Return whether a file beside the heartbeats is a seal of the instant."""
    return name.startswith(f".{instant_time}.") and name.endswith(f".{_SEALED}")


def parse_marker(name: str) -> Marker | None:
    """Take a name below the marker folder apart; return None for a file of some other kind.

    A marker of anything but a data file of the table is of no kind: files go on a marker's word.
    """
    found = _MARKER.fullmatch(name)
    if found is None:
        return None
    try:
        path = table_path.data_path(found["path"])
    except Malformed:
        return None
    return Marker(path=path, kind=MarkerKind(found["kind"]))


def is_served_list(name: str) -> bool:
    """Return whether the file lists markers, one name a line, for Hudi's timeline server."""
    return _SERVED_LIST.fullmatch(name) is not None
