"""A folder of another storage, as a storage of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import BinaryIO, TypeVar

from tidelake.storage.protocol import FileInfo, Folder, Storage, StorageSpec, Tagged

A = TypeVar("A")
B = TypeVar("B")


class SubStorage:
    """The folder `prefix` of `parent`; errors name the path as `parent` knows it."""

    def __init__(self, parent: Storage, prefix: str) -> None:
        self._parent = parent
        self._prefix = prefix.strip("/")

    @property
    def spec(self) -> StorageSpec:
        """Return the parent's way to the folder."""
        parent = self._parent.spec
        return replace(parent, uri=f"{parent.uri.rstrip('/')}/{self._prefix}")

    def read(self, path: str) -> bytes:
        """Return the whole file, or raise `MissingFileError`."""
        return self._parent.read(self._full(path))

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        """Return every file, in the order asked for."""
        return self._parent.read_many([self._full(path) for path in paths])

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`, fewer at the end of the file."""
        return self._parent.read_range(self._full(path), start, length)

    def open(self, path: str) -> BinaryIO:
        """Return a seekable reader of the file, or raise `MissingFileError`."""
        return self._parent.open(self._full(path))

    def stat(self, path: str) -> FileInfo | None:
        """Return the file's facts, or None when no such file exists."""
        return self._parent.stat(self._full(path))

    def list(self, folder: str) -> Folder:
        """Return the direct content of `folder`; empty when the folder does not exist."""
        return self._parent.list(self._full(folder))

    def exists(self, folder: str) -> bool:
        """Return whether `folder` exists."""
        return self._parent.exists(self._full(folder))

    def files_below(self, folder: str) -> Sequence[str]:
        """Return the paths, sorted, of all files in `folder` and in the folders below it."""
        found = self._parent.files_below(self._full(folder))
        return [path[len(self._prefix) + 1 :] for path in found]

    def make_folder(self, folder: str) -> None:
        """Create `folder` and those above it, where the storage has folders of their own."""
        self._parent.make_folder(self._full(folder))

    def delete_folder(self, folder: str) -> None:
        """Delete `folder` with all below it; a missing folder is no error."""
        self._parent.delete_folder(self._full(folder))

    def put(self, path: str, data: bytes) -> None:
        """Write the file, replacing what was there."""
        self._parent.put(self._full(path), data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file with its whole content, or return False when it exists already."""
        return self._parent.put_if_absent(self._full(path), data)

    def read_tagged(self, path: str) -> Tagged:
        """Return the whole file with its tag, or raise `MissingFileError`."""
        return self._parent.read_tagged(self._full(path))

    def put_if_tagged(self, path: str, data: bytes, tag: str) -> str | None:
        """Replace the file that still has `tag`; return its new tag, or None when it has not."""
        return self._parent.put_if_tagged(self._full(path), data, tag)

    def delete(self, path: str) -> None:
        """Delete the file; a missing file is no error."""
        self._parent.delete(self._full(path))

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete files, with few requests and in any order; a missing file is no error."""
        self._parent.delete_all([self._full(path) for path in paths])

    def both(self, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
        """Do two things of which neither waits for the other, at once where that saves time."""
        return self._parent.both(first, second)

    def local_path(self, path: str) -> str | None:
        """Return the operating system's path of the file when it has one."""
        return self._parent.local_path(self._full(path))

    def _full(self, path: str) -> str:
        return f"{self._prefix}/{path}" if path else self._prefix
