"""Files in this process's memory, for tests and simulations."""

from __future__ import annotations

import io
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import BinaryIO, TypeVar

from tidelake.errors import MissingFileError
from tidelake.storage.protocol import FileInfo, Folder, InProcessSpec, StorageSpec, Tagged

A = TypeVar("A")
B = TypeVar("B")

_AFTER_SLASH = chr(ord("/") + 1)


class MemoryStorage:
    """Files held in a dictionary.

    Modification times are what `now_ms` says; without it they count the writes, and never tie.
    """

    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        *,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self._tick = count(1)
        self._now_ms = now_ms
        self._files: dict[str, tuple[bytes, int, int]] = {}
        self._paths: list[str] = []
        """All paths, sorted, so that what lies in a folder lies together."""
        for path, data in (files or {}).items():
            self.put(path, data)

    def copied(self, now_ms: Callable[[], int] | None = None) -> MemoryStorage:
        """Return another storage with the same files, times and tags."""
        made = MemoryStorage(now_ms=now_ms)
        made._files, made._paths = dict(self._files), list(self._paths)
        made._tick = count(1 + max((written for _, _, written in self._files.values()), default=0))
        return made

    @property
    def spec(self) -> StorageSpec:
        """Return a value that no other process can open."""
        return InProcessSpec("memory://", root=self)

    def read(self, path: str) -> bytes:
        """Return the whole file, or raise `MissingFileError`."""
        if path not in self._files:
            raise MissingFileError(path)
        return self._files[path][0]

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        """Return every file, in the order asked for."""
        return [self.read(path) for path in paths]

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`, fewer at the end of the file."""
        return self.read(path)[start : start + length]

    def open(self, path: str) -> BinaryIO:
        """Return a seekable reader of the file, or raise `MissingFileError`."""
        return io.BytesIO(self.read(path))

    def stat(self, path: str) -> FileInfo | None:
        """Return the file's facts, or None when no such file exists."""
        found = self._files.get(path)
        return FileInfo(path.rpartition("/")[2], len(found[0]), found[1]) if found else None

    def list(self, folder: str) -> Folder:
        """Return the direct content of `folder`; empty when the folder does not exist."""
        at, end = self._span(folder)
        skipped = len(folder) + 1 if folder else 0
        files = []
        folders = []
        while at < end:
            path = self._paths[at]
            name, below, _ = path[skipped:].partition("/")
            if below:
                folders.append(name)
                at = self._span(path[: skipped + len(name)])[1]
            else:
                data, modified_ms, _ = self._files[path]
                files.append(FileInfo(name, len(data), modified_ms))
                at += 1
        return Folder(files, sorted(folders))

    def exists(self, folder: str) -> bool:
        """Return whether anything lies below `folder`."""
        first, end = self._span(folder)
        return not folder or first < end

    def files_below(self, folder: str) -> Sequence[str]:
        """Return the paths, sorted, of all files in `folder` and in the folders below it."""
        first, end = self._span(folder)
        return self._paths[first:end]

    def make_folder(self, folder: str) -> None:
        """Do nothing: here a folder is what its files say it is."""

    def delete_folder(self, folder: str) -> None:
        """Delete everything below `folder`."""
        for path in self.files_below(folder):
            self.delete(path)

    def put(self, path: str, data: bytes) -> None:
        """Write the file, replacing what was there."""
        written = next(self._tick)
        if path not in self._files:
            insort(self._paths, path)
        self._files[path] = (data, self._now_ms() if self._now_ms else written, written)

    def damage(self, path: str, data: bytes) -> None:
        """Write the file as something does that leaves its modification time as it was."""
        modified_ms = self._files[path][1] if path in self._files else None
        self.put(path, data)
        if modified_ms is not None:
            self._files[path] = (data, modified_ms, self._files[path][2])

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file, or return False when it exists already."""
        if path in self._files:
            return False
        self.put(path, data)
        return True

    def read_tagged(self, path: str) -> Tagged:
        """Return the whole file with its tag, or raise `MissingFileError`."""
        data = self.read(path)
        return Tagged(data, str(self._files[path][2]))

    def put_if_tagged(self, path: str, data: bytes, tag: str) -> str | None:
        """Replace the file that still has `tag`; return its new tag, or None when it has not."""
        if path not in self._files or self.read_tagged(path).tag != tag:
            return None
        self.put(path, data)
        return self.read_tagged(path).tag

    def delete(self, path: str) -> None:
        """Delete the file; a missing file is no error."""
        if self._files.pop(path, None) is not None:
            del self._paths[bisect_left(self._paths, path)]

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete files; a missing file is no error."""
        for path in paths:
            self.delete(path)

    def _span(self, folder: str) -> tuple[int, int]:
        """Return where among the sorted paths those below `folder` begin and end."""
        if not folder:
            return 0, len(self._paths)
        first = bisect_left(self._paths, f"{folder}/")
        return first, bisect_left(self._paths, f"{folder}{_AFTER_SLASH}", first)

    def both(self, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
        """Do the one, and then the other."""
        return first(), second()

    def local_path(self, path: str) -> str | None:  # noqa: ARG002 - the protocol's parameter
        """Return None: memory has no path."""
        return None
