"""Which partitions and files a table has, seen through a plain listing of storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidelake.errors import CorruptFileError
from tidelake.formats import table_path
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.storage import FileInfo, Folder, Storage

META_FOLDER = ".hoodie"
_PARTITION_MARKER = ".hoodie_partition_metadata"


class Listing(Protocol):
    """A source of partitions and files; what it lists may still be uncommitted or replaced."""

    def partitions(self) -> Sequence[str]:
        """Return the partition paths relative to the table, sorted."""

    def files_of(self, partitions: Sequence[str]) -> Mapping[str, Sequence[FileInfo]]:
        """Return the files of each of `partitions`; an unknown partition has none."""


class KnownFiles:
    """Files of some partitions that were listed once, for whoever looks at them again."""

    def __init__(self, files: Mapping[str, Sequence[FileInfo]]) -> None:
        self._files = files

    def partitions(self) -> Sequence[str]:
        """Return the partition paths relative to the table, sorted."""
        return sorted(self._files)

    def files_of(self, partitions: Sequence[str]) -> Mapping[str, Sequence[FileInfo]]:
        """Return the files of each of `partitions`; an unknown partition has none."""
        return {p: self._files.get(p, ()) for p in partitions}


class StorageListing:
    """List storage itself.

    As in Hudi, a folder is a partition when it holds a partition marker file, and folders below a
    partition are never looked at. One that lost its marker is known by its data files.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._partitions: dict[str, Folder] | None = None

    def partitions(self) -> Sequence[str]:
        """Return the partition paths relative to the table, sorted."""
        return sorted(self._walked())

    def files_of(self, partitions: Sequence[str]) -> Mapping[str, Sequence[FileInfo]]:
        """Return the files of each of `partitions`; an unknown partition has none."""
        if self._partitions is None:
            return {p: self._storage.list(p).files for p in partitions}
        none = Folder()
        return {p: self._partitions.get(p, none).files for p in partitions}

    def _walked(self) -> Mapping[str, Folder]:
        if self._partitions is None:
            found: dict[str, Folder] = {}
            todo = [""]
            while todo:
                path = todo.pop()
                folder = self._storage.list(path)
                if any(map(_is_of_partition, folder.files)):
                    _refuse_no_text(path)
                    found[path] = folder
                    continue
                todo += [
                    f"{path}/{name}" if path else name
                    for name in folder.folders
                    if path or name != META_FOLDER
                ]
            self._partitions = found
        return self._partitions


def _refuse_no_text(path: str) -> None:
    if not table_path.is_text(path):
        raise CorruptFileError(
            path,
            "the name of this folder is no UTF-8, so that no engine can name its files",
            next_step="rename the folder, or move it out of the table",
        )


def _is_of_partition(file: FileInfo) -> bool:
    """Return whether a file lies in partitions only."""
    return (
        file.name.startswith(_PARTITION_MARKER)
        or parse_base("", file.name, 0) is not None
        or parse_log("", file.name, 0) is not None
    )
