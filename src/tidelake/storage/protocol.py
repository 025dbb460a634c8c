"""What every storage must offer; paths are relative to the storage's root and use `/`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol, TypeVar

from typing_extensions import Never, override

from tidelake.errors import ConfigError

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file as a listing shows it; `name` is the last path part."""

    name: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Folder:
    """The direct content of one folder, both parts sorted by name."""

    files: Sequence[FileInfo] = ()
    folders: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Tagged:
    """The content of a file, and a tag that it has as long as nobody writes it again."""

    data: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class StorageSpec:
    """How to reach a table's folder; a plain value that travels to executors."""

    uri: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class InProcessSpec(StorageSpec):
    """How to reach a folder of `root`, which lives in this process alone."""

    root: Storage = field(kw_only=True, repr=False, compare=False)

    @override
    def __reduce__(self) -> Never:
        """Raise `ConfigError`: a copy would be another storage."""
        raise ConfigError(
            f"{self.uri} lives in this process alone",
            next_step="put the table into a folder or an object store that workers reach",
        )


class Storage(Protocol):
    """A folder on some file system or object store."""

    @property
    def spec(self) -> StorageSpec:
        """Return the value from which `open_storage` makes this storage again."""

    def read(self, path: str) -> bytes:
        """Return the whole file, or raise `MissingFileError`."""

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        """Return every file, in the order asked for, or raise `MissingFileError`."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`, fewer at the end of the file."""

    def open(self, path: str) -> BinaryIO:
        """Return a seekable reader of the file, or raise `MissingFileError`."""

    def stat(self, path: str) -> FileInfo | None:
        """Return the file's facts, or None when no such file exists."""

    def list(self, folder: str) -> Folder:
        """Return the direct content of `folder`; empty when the folder does not exist."""

    def exists(self, folder: str) -> bool:
        """Return whether `folder` exists (on object stores: whether anything lies below it)."""

    def files_below(self, folder: str) -> Sequence[str]:
        """Return the paths, sorted, of all files in `folder` and in the folders below it."""

    def make_folder(self, folder: str) -> None:
        """Create `folder` and those above it, where the storage has folders of their own."""

    def delete_folder(self, folder: str) -> None:
        """Delete `folder` with all below it; a missing folder is no error."""

    def put(self, path: str, data: bytes) -> None:
        """Write the file, replacing what was there."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file with its whole content, or return False when another call has made it.

        Where the reply to a request gets lost, the file that it made is that of this call.
        """

    def read_tagged(self, path: str) -> Tagged:
        """Return the whole file with its tag, or raise `MissingFileError`."""

    def put_if_tagged(self, path: str, data: bytes, tag: str) -> str | None:
        """Replace the file that still has `tag`; return its new tag, or None when it has not."""

    def delete(self, path: str) -> None:
        """Delete the file; a missing file is no error."""

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete files, with few requests and in any order; a missing file is no error."""

    def both(self, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
        """Do two things of which neither waits for the other, at once where that saves time.

        Where it does not, the first comes first.
        """

    def local_path(self, path: str) -> str | None:
        """Return the operating system's path of the file when it has one."""
