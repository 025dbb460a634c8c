"""Files in this process's memory, for tests and simulations."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import BinaryIO

from tidelake.errors import MissingFileError
from tidelake.storage.protocol import FileInfo, Folder, StorageSpec, Tagged


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
        for path, data in (files or {}).items():
            self.put(path, data)

    @property
    def spec(self) -> StorageSpec:
        """Return a value that no other process can open."""
        return StorageSpec("memory://")

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
        prefix = f"{folder}/" if folder else ""
        files = []
        folders = set()
        for path in sorted(self._files):
            if path.startswith(prefix):
                name, below, _ = path[len(prefix) :].partition("/")
                info = None if below else self.stat(path)
                if info is None:
                    folders.add(name)
                else:
                    files.append(info)
        return Folder(files, sorted(folders))

    def exists(self, folder: str) -> bool:
        """Return whether anything lies below `folder`."""
        return not folder or any(path.startswith(f"{folder}/") for path in self._files)

    def files_below(self, folder: str) -> Sequence[str]:
        """Return the paths, sorted, of all files in `folder` and in the folders below it."""
        return sorted(path for path in self._files if not folder or path.startswith(f"{folder}/"))

    def make_folder(self, folder: str) -> None:
        """Do nothing: here a folder is what its files say it is."""

    def delete_folder(self, folder: str) -> None:
        """Delete everything below `folder`."""
        for path in self.files_below(folder):
            self.delete(path)

    def put(self, path: str, data: bytes) -> None:
        """Write the file, replacing what was there."""
        written = next(self._tick)
        self._files[path] = (data, self._now_ms() if self._now_ms else written, written)

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
        self._files.pop(path, None)

    def local_path(self, path: str) -> str | None:  # noqa: ARG002 - the protocol's parameter
        """Return None: memory has no path."""
        return None
