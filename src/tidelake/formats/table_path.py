"""What a name that came out of a file may point to.

Metadata table, plans, markers, manifests and commits name files and folders of their table. Damaged
or made by somebody else they may name anything, and whoever follows them reads or deletes it. Every
such name goes through here before it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidelake.errors import Malformed
from tidelake.formats.file_name import is_data_file

META_FOLDER = ".hoodie"

_INSTANT = re.compile(r"[0-9]+")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
#: Parts of a path that are no name of a folder or file.
_NO_NAMES = frozenset({"", ".", ".."})


def is_text(name: str) -> bool:
    """Return whether every engine can name a file or folder like this.

    File systems know names that are no UTF-8, which are halves of characters to Python.
    """
    return _NO_TEXT.search(name) is None


def partition(path: str) -> str:
    """Return a partition path below the table and outside of its `.hoodie`; "" is the table itself.

    Raise `Malformed` for any other.
    """
    parts = path.split("/") if path else []
    if parts[:1] == [META_FOLDER] or not _NO_NAMES.isdisjoint(parts) or not is_text(path):
        raise Malformed(f"{path!r} is no folder that may hold data of the table")
    return path


def entry(name: str) -> str:
    """Return the name of something directly in a folder, or raise `Malformed`."""
    if name in _NO_NAMES or "/" in name or not is_text(name):
        raise Malformed(f"{name!r} is no name of a file")
    return name


def data_file(folder: str, name: str) -> str:
    """Return the path of a base or log file in a partition, or raise `Malformed`."""
    if not is_data_file(entry(name)):
        raise Malformed(f"{name!r} is no name of a data file")
    return f"{partition(folder)}/{name}" if folder else name


def data_path(path: str) -> str:
    """Return the path of a base or log file from the table's root, or raise `Malformed`."""
    folder, _, name = path.rpartition("/")
    return data_file(folder, name)


def data_files(folder: str, paths: Iterable[str]) -> None:
    """Raise `Malformed` unless the last part of each path is a data file of the partition.

    What stands before is the place where the table was when a plan was made; it may have moved.
    """
    partition(folder)
    for path in paths:
        data_file(folder, path.rpartition("/")[2])


def is_instant_time(text: str) -> bool:
    """Return whether a text can be the time of an instant."""
    return _INSTANT.fullmatch(text) is not None


def instant_time(text: str) -> str:
    """Return the time of an instant, or raise `Malformed` for what can be none."""
    if not is_instant_time(text):
        raise Malformed(f"{text!r} is no time of an instant")
    return text
