"""A storage that fails where a test wants it to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import BinaryIO, TypeVar

from tidelake.errors import StorageError
from tidelake.model import Word
from tidelake.storage import FileInfo, Folder, InProcessSpec, Storage, StorageSpec, Tagged

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


class Crash(BaseException):
    """The process ended; whoever holds the storage can do nothing more."""


#: The calls that change what lies on storage.
CHANGES = frozenset({"put", "put_if_absent", "put_if_tagged", "delete", "delete_folder"})


class Fault(Word):
    """How a call fails."""

    CRASH_BEFORE = "crash before"
    """The process ends before the call reaches the storage."""
    CRASH_AFTER = "crash after"
    """The process ends once the call has taken effect."""
    ERROR = "error"
    """The storage refuses the call, and works again afterwards."""
    LOST_REPLY = "lost reply"
    """The call takes effect, and the caller is told that it failed."""
    LOST_CALL = "lost call"
    """The call takes no effect, and the caller is told that nobody knows."""
    LATE = "late"
    """The caller is told that nobody knows, and the call takes effect when `deliver` is called."""


class FaultyStorage:
    """Another storage whose calls are counted, and of which some fail.

    `fault(number, name, path)` says what happens to a call, counted from 1, or None. A delete of a
    folder counts once for each file, so that a crash can come in between.
    """

    def __init__(
        self, inner: Storage, fault: Callable[[int, str, str], Fault | None] = lambda *_: None
    ) -> None:
        self._inner = inner
        self._fault = fault
        self._crashed = False
        self.calls: list[tuple[str, str]] = []
        """Name and path of every call so far."""
        self._late: list[Callable[[], object]] = []

    @classmethod
    def failing_at(cls, inner: Storage, number: int, fault: Fault) -> FaultyStorage:
        """Return a storage of which only the call with this number fails."""
        return cls(inner, lambda at, _name, _path: fault if at == number else None)

    @property
    def spec(self) -> StorageSpec:
        """Return the way to this storage, or to the one behind where processes can share that."""
        found = self._inner.spec
        return replace(found, root=self) if isinstance(found, InProcessSpec) else found

    def read(self, path: str) -> bytes:
        """Return the whole file, or raise `MissingFileError`."""
        return self._call("read", path, lambda: self._inner.read(path))

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        """Return every file, in the order asked for."""
        return [self.read(path) for path in paths]

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`."""
        return self._call("read", path, lambda: self._inner.read_range(path, start, length))

    def open(self, path: str) -> BinaryIO:
        """Return a seekable reader of the file."""
        return self._call("read", path, lambda: self._inner.open(path))

    def stat(self, path: str) -> FileInfo | None:
        """Return the file's facts, or None when no such file exists."""
        return self._call("stat", path, lambda: self._inner.stat(path))

    def list(self, folder: str) -> Folder:
        """Return the direct content of `folder`."""
        return self._call("list", folder, lambda: self._inner.list(folder))

    def exists(self, folder: str) -> bool:
        """Return whether `folder` exists."""
        return self._call("exists", folder, lambda: self._inner.exists(folder))

    def files_below(self, folder: str) -> Sequence[str]:
        """Return the paths, sorted, of all files in `folder` and in the folders below it."""
        return self._call("files_below", folder, lambda: self._inner.files_below(folder))

    def make_folder(self, folder: str) -> None:
        """Create `folder` and those above it, where the storage has folders of their own."""
        self._call("make_folder", folder, lambda: self._inner.make_folder(folder))

    def delete_folder(self, folder: str) -> None:
        """Delete `folder` with all below it, file by file."""
        for path in self._inner.files_below(folder):
            self.delete(path)
        self._call("delete_folder", folder, lambda: self._inner.delete_folder(folder))

    def put(self, path: str, data: bytes) -> None:
        """Write the file, replacing what was there."""
        self._call("put", path, lambda: self._inner.put(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file with its whole content, or return False when it exists already."""
        return self._call("put_if_absent", path, lambda: self._inner.put_if_absent(path, data))

    def read_tagged(self, path: str) -> Tagged:
        """Return the whole file with its tag, or raise `MissingFileError`."""
        return self._call("read", path, lambda: self._inner.read_tagged(path))

    def put_if_tagged(self, path: str, data: bytes, tag: str) -> str | None:
        """Replace the file that still has `tag`; return its new tag, or None when it has not."""
        return self._call("put_if_tagged", path, lambda: self._inner.put_if_tagged(path, data, tag))

    def delete(self, path: str) -> None:
        """Delete the file; a missing file is no error."""
        self._call("delete", path, lambda: self._inner.delete(path))

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete files one by one, so that a crash can come in between."""
        for path in paths:
            self.delete(path)

    def both(self, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
        """Do the one, and then the other."""
        return first(), second()

    def local_path(self, path: str) -> str | None:
        """Return the operating system's path of the file when it has one."""
        return self._inner.local_path(path)

    def deliver(self) -> Sequence[object]:
        """Let the calls that are late take effect; return what they return."""
        late, self._late = self._late, []
        return [act() for act in late]

    def _call(self, name: str, path: str, act: Callable[[], T]) -> T:
        if self._crashed:
            raise Crash
        self.calls.append((name, path))
        fault = self._fault(len(self.calls), name, path)
        if fault is Fault.CRASH_BEFORE:
            self._crash()
        if fault is Fault.ERROR:
            raise StorageError(
                path, f"made to fail at call {len(self.calls)}, {name}", is_refusal=True
            )
        if fault is Fault.LATE and name in CHANGES:
            self._late.append(act)
        if fault in (Fault.LATE, Fault.LOST_CALL):
            raise StorageError(path, f"made to lose call {len(self.calls)}, {name}")
        try:
            result = act()
        finally:
            if fault is Fault.CRASH_AFTER:
                self._crash()
        if fault is Fault.LOST_REPLY:
            raise StorageError(path, f"made to lose the reply to call {len(self.calls)}, {name}")
        return result

    def _crash(self) -> None:
        self._crashed = True
        raise Crash
