"""A folder of the machine's own file system."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat as modes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import BinaryIO, TypeVar

from tidelake.errors import MissingFileError, StorageError
from tidelake.storage.protocol import FileInfo, Folder, StorageSpec, Tagged

#: Permissions of new files, less what the process's umask takes away.
_MODE = 0o666
#: What file systems say that cannot hold a file without a name.
_NO_NAMELESS_FILES = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}
#: What a file system across a network says when it cannot tell what became of a request.
_IN_TRANSIT = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EINTR, errno.EAGAIN}
_ASIDE = count()
#: How often to begin anew when somebody deletes a folder in which a file is about to be made, or
#: makes a file in a folder that is about to go.
_FOLDER_ATTEMPTS = 10

#: Hudi reads files about the table into one array of Java's, which cannot hold more.
_MOST_BYTES = (1 << 31) - 1

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


class LocalStorage:
    """Files below `root`; symbolic links are followed, except to delete what lies elsewhere."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)  # noqa: PTH100 - Path.resolve would follow links
        self._prefix = self._root.rstrip("/") + "/"

    @property
    def spec(self) -> StorageSpec:
        """Return the root as a plain path."""
        return StorageSpec(self._root)

    def read(self, path: str) -> bytes:
        """Return the whole file, or raise `MissingFileError`."""
        with _guard(self._root, path), self._opened(path, buffering=0) as file:
            return _whole(path, file)

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        """Return every file, in the order asked for."""
        return [self.read(path) for path in paths]

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`, fewer at the end of the file."""
        with self.open(path) as file, _guard(self._root, path):
            file.seek(start)
            return file.read(length)

    def open(self, path: str) -> BinaryIO:
        """Return a seekable reader of the file, or raise `MissingFileError`."""
        with _guard(self._root, path):
            return self._opened(path)

    def stat(self, path: str) -> FileInfo | None:
        """Return the file's facts, or None when no such file exists."""
        try:
            with _guard(self._root, path):
                # With the slash at its end a root that is a file would not be found.
                found = os.stat(self._full(path) if path else self._root)  # noqa: PTH116 - hot
        except MissingFileError:
            return None
        if modes.S_ISDIR(found.st_mode):
            return None
        _refuse_special(path, found.st_mode)
        return _info(path.rpartition("/")[2], found)

    def list(self, folder: str) -> Folder:
        """Return the direct content of `folder`; empty when the folder does not exist."""
        files: list[FileInfo] = []
        folders: list[str] = []
        try:
            with _guard(self._root, folder), os.scandir(self._full(folder)) as entries:
                for entry in entries:
                    if entry.is_dir():
                        folders.append(entry.name)
                        continue
                    try:
                        found = entry.stat()
                        _refuse_special(f"{folder}/{entry.name}", found.st_mode)
                    except FileNotFoundError:
                        if not os.path.islink(entry.path):  # noqa: PTH114 - the path is text
                            continue  # deleted since the folder was opened
                        # What a link to nowhere stood for is missed by whoever reads it.
                        found = entry.stat(follow_symlinks=False)
                    files.append(_info(entry.name, found))
        except MissingFileError:
            return Folder()
        files.sort(key=lambda file: file.name)
        return Folder(files, sorted(folders))

    def exists(self, folder: str) -> bool:
        """Return whether `folder` exists."""
        with _guard(self._root, folder):
            return os.path.isdir(self._full(folder))  # noqa: PTH112 - hot

    def files_below(self, folder: str) -> Sequence[str]:
        """Return the paths, sorted, of all files in `folder` and in the folders below it."""
        with _guard(self._root, folder):
            root = os.path.realpath(self._root)
            return sorted(path[len(self._prefix) :] for path in _walked(self._full(folder), root))

    def make_folder(self, folder: str) -> None:
        """Create `folder` and those above it."""
        with _writing(self._root, folder):
            os.makedirs(self._full(folder), exist_ok=True)  # noqa: PTH103 - the path is text

    def delete_folder(self, folder: str) -> None:
        """Delete `folder` with all below it; a missing folder is no error."""
        self._refuse_elsewhere(folder)
        with _writing(self._root, folder):
            _while_folders_move(lambda: self._remove_tree(folder))

    def _remove_tree(self, folder: str) -> None:
        if os.path.lexists(self._full(folder)):
            shutil.rmtree(self._full(folder))

    def put(self, path: str, data: bytes) -> None:
        """Write the file, replacing what was there; readers see the old content or the new."""
        with _writing(self._root, path):
            self._drop_checksum(path)
        if self.put_if_absent(path, data):
            return
        with _writing(self._root, path), self._written_aside(path, data) as aside:
            os.replace(aside, self._full(path))  # noqa: PTH105 - both are text

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file with its whole content, or return False when it exists already."""
        with _writing(self._root, path):
            try:
                _while_folders_move(lambda: self._create(path, data))
            except FileExistsError:
                return False
            return True

    def _create(self, path: str, data: bytes) -> None:
        if not self._link_nameless(path, data):
            with self._written_aside(path, data) as aside:
                os.link(aside, self._full(path))

    def read_tagged(self, path: str) -> Tagged:
        """Return the whole file with its tag, or raise `MissingFileError`."""
        with _guard(self._root, path), self._opened(path, buffering=0) as file:
            return Tagged(_whole(path, file), _tag(os.fstat(file.fileno())))

    def put_if_tagged(self, path: str, data: bytes, tag: str) -> str | None:
        """Replace the file that still has `tag`; return its new tag, or None when it has not."""
        with _writing(self._root, path), self.guarded(path):
            full = self._full(path)
            try:
                if _tag(os.stat(full)) != tag:  # noqa: PTH116 - the path is text
                    return None
            except FileNotFoundError:
                return None
            self._drop_checksum(path)
            with self._written_aside(path, data) as aside:
                made = _tag(os.stat(aside))  # noqa: PTH116 - the path is text
                os.replace(aside, full)  # noqa: PTH105 - both are text
            return made

    @contextmanager
    def guarded(self, path: str) -> Iterator[None]:
        """Keep other processes of this machine out that guard the same path.

        What this leaves is an empty file beside it: to delete it would let two in.
        """
        folder, _, name = self._full(path).rpartition("/")
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - the path is text
        descriptor = os.open(f"{folder}/.{name}.guard", os.O_CREAT | os.O_RDWR, _MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def delete_if_tagged(self, path: str, tag: str) -> bool:
        """Delete the file that still has `tag`, or return False."""
        with _writing(self._root, path), self.guarded(path):
            try:
                if _tag(os.stat(self._full(path))) != tag:  # noqa: PTH116 - the path is text
                    return False
            except FileNotFoundError:
                return False
            os.unlink(self._full(path))  # noqa: PTH108 - the path is text
            return True

    def delete(self, path: str) -> None:
        """Delete the file; a missing file is no error."""
        self._refuse_elsewhere(path)
        try:
            with _guard(self._root, path):
                self._drop_checksum(path)
                os.unlink(self._full(path))  # noqa: PTH108 - the path is text
        except MissingFileError:
            return

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete files; a missing file is no error."""
        for path in paths:
            self.delete(path)

    def both(self, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
        """Do the one, and then the other."""
        return first(), second()

    def local_path(self, path: str) -> str | None:
        """Return the operating system's path of the file."""
        return self._full(path)

    def _drop_checksum(self, path: str) -> None:
        """Remove what Hadoop keeps beside a file of its own: it refuses other content under it."""
        folder, _, name = self._full(path).rpartition("/")
        try:
            os.unlink(f"{folder}/.{name}.crc")  # noqa: PTH108 - the path is text
        except (FileNotFoundError, NotADirectoryError):
            return

    def _opened(self, path: str, *, buffering: int = -1) -> BinaryIO:
        """Open the file, and nothing that would keep its reader waiting or reading for ever."""
        descriptor = os.open(self._full(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _refuse_special(path, os.fstat(descriptor).st_mode)
        except BaseException:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "rb", buffering)

    def _refuse_elsewhere(self, path: str) -> None:
        """Refuse to delete behind a link that leads out of the root; the link itself may go."""
        folder = self._full(path).rpartition("/")[0]
        with _guard(self._root, path):
            root, place = os.path.realpath(self._root), os.path.realpath(folder)
        if os.path.commonpath((root, place)) != root:
            raise StorageError(
                path,
                f"{folder} is a link that leads to {place}, out of {self._root}",
                next_step="nothing is deleted behind such links: delete the file there, or put the "
                "folder itself in place of the link",
            )

    def _full(self, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/"):
            raise StorageError(
                path,
                f"the path leads out of {self._root}",
                next_step="the metadata that names this file is damaged or was written for another "
                "place; `tidelake check TABLE` names it",
            )
        return self._prefix + path

    def _link_nameless(self, path: str, data: bytes) -> bool:
        """Write a file that has no name before it is whole, so that no crash leaves litter.

        Return False where the system has no such files.
        """
        if not hasattr(os, "O_TMPFILE"):
            return False
        full = self._full(path)
        folder = os.path.dirname(full)  # noqa: PTH120 - the path is text
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - the path is text
        try:
            descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY, _MODE)
        except OSError as cause:
            if cause.errno in _NO_NAMELESS_FILES:
                return False
            raise
        with os.fdopen(descriptor, "wb") as file:
            _write_durably(file, data)
            try:
                # A folder's descriptor makes Python follow the link, and is not used otherwise.
                os.link(f"/proc/self/fd/{descriptor}", full, src_dir_fd=descriptor)
            except FileNotFoundError:
                return False  # /proc is not there
        return True

    @contextmanager
    def _written_aside(self, path: str, data: bytes) -> Iterator[str]:
        """Write `data` durably to a file next to `path` and remove it again at the end."""
        folder, _, name = self._full(path).rpartition("/")
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - the path is text
        aside = f"{folder}/.{name[:200]}.{os.getpid()}-{next(_ASIDE)}.tmp"
        descriptor = os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                _write_durably(file, data)
            yield aside
        finally:
            Path(aside).unlink(missing_ok=True)


def _walked(top: str, root: str) -> Iterator[str]:
    """Yield the paths of all files below `top`, those behind links out of `root` too.

    A link to another place in `root`, or to one that holds it, shows what has a name of its own
    already, and may lead around in circles. No folder is looked into twice.
    """
    seen: set[tuple[int, int]] = set()
    todo = [top]
    while todo:
        at = todo.pop()
        try:
            here = os.stat(at)  # noqa: PTH116 - the path is text
            if (here.st_dev, here.st_ino) in seen:
                continue
            seen.add((here.st_dev, here.st_ino))
            with os.scandir(at) as entries:
                for entry in entries:
                    if not entry.is_dir():
                        yield entry.path
                    elif not entry.is_symlink() or _leads_out(entry.path, root):
                        todo.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue  # another process deleted it, or there is none


def _leads_out(link: str, root: str) -> bool:
    place = os.path.realpath(link)
    return os.path.commonpath((root, place)) not in (root, place)


def _while_folders_move(act: Callable[[], T]) -> T:
    """Do `act`, from its beginning when another process took or filled a folder meanwhile."""
    for _ in range(_FOLDER_ATTEMPTS - 1):
        try:
            return act()
        except OSError as cause:
            if cause.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise
    return act()


def _write_durably(file: BinaryIO, data: bytes) -> None:
    if not data:
        return  # an empty file has nothing to lose, and no sync of it would keep its name
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _whole(path: str, file: BinaryIO) -> bytes:
    size_bytes = os.fstat(file.fileno()).st_size
    if _is_of_table(path) and size_bytes > _MOST_BYTES:
        raise _too_large(path, size_bytes)
    try:
        return file.read()
    except MemoryError:
        raise _too_large(path, size_bytes) from None


def _is_of_table(path: str) -> bool:
    """Return whether a file is about the table, and none of its data files."""
    return path.startswith(".hoodie/")


def _too_large(path: str, size_bytes: int) -> StorageError:
    return StorageError(
        path,
        f"it has {size_bytes:,} bytes, which is more than can be read at once",
        next_step="no engine writes such a file: restore it from a backup, or give the process "
        "more memory where it is a large log",
    )


def _tag(found: os.stat_result) -> str:
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"


def _refuse_special(path: str, mode: int) -> None:
    """Refuse pipes, sockets and devices: they lie where files of the table belong."""
    if modes.S_ISDIR(mode):
        raise IsADirectoryError(path)
    if not modes.S_ISREG(mode):
        raise StorageError(
            path,
            "is a pipe, socket or device and no file",
            next_step="remove it from the table's folder; if a file of the table was there, "
            "restore that",
        )


def _info(name: str, found: os.stat_result) -> FileInfo:
    return FileInfo(name, found.st_size, found.st_mtime_ns // 1_000_000)


@contextmanager
def _writing(root: str, path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as cause:
        raise StorageError(
            _whole_path(root, path),
            getattr(cause, "strerror", None) or str(cause),
            is_refusal=getattr(cause, "errno", None) not in _IN_TRANSIT,
        ) from cause


@contextmanager
def _guard(root: str, path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as cause:
        raise MissingFileError(path) from cause
    except OSError as cause:
        raise StorageError(_whole_path(root, path), cause.strerror or str(cause)) from cause
    except ValueError as cause:
        # A name that no file system takes, such as one with a NUL character.
        raise MissingFileError(path) from cause


def _whole_path(root: str, path: str) -> str:
    """Return the path as people find it, whichever table it belongs to."""
    return f"{root}/{path}".rstrip("/") or "/"
