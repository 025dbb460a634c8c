"""A prefix of an object store."""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, ClassVar, TypeVar, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from typing_extensions import Buffer, override

from tidelake.errors import ConfigError, MissingFileError, StorageError
from tidelake.storage.protocol import FileInfo, Folder, StorageSpec, Tagged

if TYPE_CHECKING:
    from obstore import Attributes, GetOptions, ListResult, ObjectMeta, PutMode, PutResult
    from obstore.store import ObjectStore

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")

_THREADS = 32
_BUFFER_BYTES = 1 << 20
#: Waits before a request is made again that the client itself does not repeat, and for how long.
_DELAYS_MS = (100, 200, 400, 800, 1600)
_DEADLINE_S = 10
#: The attribute of an object that tells by which call it was made; a name that all stores take.
_MARK = "tidelakewrite"
_REFUSALS = (
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
#: What no object may have in its name, as far as the client goes; listings of S3 cannot show it.
CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
#: What the client says of a listing that has such a name.
_ODD_NAME = re.compile('Error parsing Path "(.*?)": Encountered illegal character', re.DOTALL)
#: What a server says of requests that it did not carry out, but for those to be made again.
_REFUSED = re.compile(r"status code: 4(?!08|09|25|29)\d\d")

#: Where clients ask the machine for credentials when nobody gave them any.
_METADATA_SERVICE = re.compile(
    r"/latest/(api/token|meta-data)|/computeMetadata/|/metadata/identity/oauth2|//169\.254\."
)
_GIVE_CREDENTIALS = {
    "s3": "give fs.s3a.access.key and fs.s3a.secret.key as options, or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY in the environment; for a public bucket give aws_skip_signature=true",
    "gs": "give google_service_account=FILE as an option, or GOOGLE_SERVICE_ACCOUNT in the "
    "environment; for a public bucket give google_skip_signature=true",
}
_GIVE_AZURE_CREDENTIALS = (
    "give azure_storage_account_key as an option, or AZURE_STORAGE_ACCOUNT_KEY in the environment; "
    "for a public container give azure_skip_signature=true"
)


class ObjectStorage:
    """Objects of `store`, whose own prefix is the root."""

    def __init__(
        self, store: ObjectStore, spec: StorageSpec, *, delays_ms: Sequence[int] = _DELAYS_MS
    ) -> None:
        """Take the waits between attempts at requests that the client itself makes once."""
        self._store = store
        self._spec = spec
        self._delays_ms = delays_ms

    @property
    def spec(self) -> StorageSpec:
        """Return where the objects lie and with which options to reach them."""
        return self._spec

    def read(self, path: str) -> bytes:
        """Return the whole object, or raise `MissingFileError`."""
        return self.read_tagged(path).data

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        """Return every object, in the order asked for, reading many at a time."""
        if len(paths) < 2:
            return [self.read(path) for path in paths]
        with ThreadPoolExecutor(min(_THREADS, len(paths))) as pool:
            return list(pool.map(self.read, paths))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`, fewer at the end of the object."""
        if length <= 0:
            return b""

        def read() -> bytes:
            with self._guard(path):
                data = bytes(obstore.get_range(self._store, path, start=start, length=length))
            self._refuse_cut(path, start, data, length)
            return data

        try:
            return self._again(read)
        except StorageError:
            # Stores refuse a range that starts at the end, each with words of its own.
            info = self.stat(path)
            if info is not None and start >= info.size_bytes:
                return b""
            raise

    def _refuse_cut(self, path: str, start: int, data: bytes, length: int) -> None:
        """Raise when a reply ended before the object does; a proxy may pass on the half of one."""
        if len(data) >= length:
            return
        info = self.stat(path)
        if info is not None and start + len(data) < info.size_bytes:
            raise self._cut_short(path, length, start, len(data))

    def _cut_short(self, path: str, wanted: int, start: int, came: int) -> StorageError:
        return StorageError(
            f"{self._spec.uri}/{path}",
            f"the reply to a request for {wanted} bytes from {start} ended after {came}",
        )

    def open(self, path: str) -> BinaryIO:
        """Return a seekable reader of the object, or raise `MissingFileError`."""
        size_bytes, tail = self._tail(path)
        raw = _Reader(self, path, size_bytes, tail)
        return cast("BinaryIO", io.BufferedReader(raw, _BUFFER_BYTES))

    def _tail(self, path: str) -> tuple[int, bytes]:
        """Return the size of an object and its end, where readers of most formats begin.

        Of a small object that is all, with one request.
        """
        # An empty object has no end, and some stores do not know what that is.
        with suppress(StorageError), self._guard(path):
            last: GetOptions = {"range": {"suffix": _BUFFER_BYTES}}
            found = obstore.get(self._store, path, options=last)
            size_bytes, data = found.meta["size"], bytes(found.bytes())
            if len(data) == min(size_bytes, _BUFFER_BYTES):
                return size_bytes, data
        info = self.stat(path)
        if info is None:
            raise MissingFileError(path)
        return info.size_bytes, b""

    def stat(self, path: str) -> FileInfo | None:
        """Return the object's facts, or None when no such object exists."""
        try:
            with self._guard(path):
                return _info(obstore.head(self._store, path))
        except MissingFileError:
            return None

    def list(self, folder: str) -> Folder:
        """Return the direct content of `folder`; empty when nothing lies below it."""

        def look() -> ListResult[Sequence[ObjectMeta]]:
            with self._guard(folder):
                return obstore.list_with_delimiter(self._store, folder or None)

        try:
            found = self._again(look)
        except MissingFileError:
            return Folder()  # not even the bucket exists
        # Consoles create an empty object to stand for a folder; it is listed inside itself.
        files = [_info(meta) for meta in found["objects"] if meta["path"].rstrip("/") != folder]
        folders = [prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"]]
        return Folder(sorted(files, key=lambda file: file.name), sorted(folders))

    def exists(self, folder: str) -> bool:
        """Return whether anything lies below `folder`."""

        def look() -> bool:
            with self._guard(folder):
                batches = obstore.list(self._store, folder or None, chunk_size=1)
                return any(len(batch) > 0 for batch in batches)

        try:
            return self._again(look)
        except MissingFileError:
            return False

    def files_below(self, folder: str) -> Sequence[str]:
        """Return the paths, sorted, of all objects below `folder`."""

        def look() -> list[str]:
            with self._guard(folder):
                batches = obstore.list(self._store, folder or None)
                return [meta["path"] for batch in batches for meta in batch]

        try:
            found = self._again(look)
        except MissingFileError:
            return []
        # As in `list`, an object that stands for a folder is none of its files.
        return sorted(path for path in found if path.rstrip("/") != folder)

    def make_folder(self, folder: str) -> None:
        """Do nothing: a prefix exists as long as an object has it."""

    def delete_folder(self, folder: str) -> None:
        """Delete everything below `folder`, many objects at a time."""
        found = self.files_below(folder)
        if not found:
            return
        self._delete(folder, found)

    def put(self, path: str, data: bytes) -> None:
        """Write the object, replacing what was there."""
        self._refuse_odd([path])
        with self._guard(path):
            obstore.put(self._store, path, data, use_multipart=False)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the object, or return False when it exists already."""
        return self._put_once(path, data, "create") is not None

    def read_tagged(self, path: str) -> Tagged:
        """Return the whole object with its entity tag, or raise `MissingFileError`."""

        def read() -> Tagged:
            # The reply to a request for a range tells the size of the whole.
            with self._guard(path):
                found = obstore.get(self._store, path, options={"range": {"offset": 0}})
                data, size_bytes = bytes(found.bytes()), found.meta["size"]
            if len(data) != size_bytes:
                raise self._cut_short(path, size_bytes, 0, len(data))
            return Tagged(data, found.meta["e_tag"] or "")

        try:
            return self._again(read)
        except StorageError as cause:
            if not cause.is_refusal:
                raise
        # An empty object has no range.
        with self._guard(path):
            found = obstore.get(self._store, path)
            return Tagged(bytes(found.bytes()), found.meta["e_tag"] or "")

    def put_if_tagged(self, path: str, data: bytes, tag: str) -> str | None:
        """Replace the object that still has `tag`; return its new tag, or None when it has not."""
        return self._put_once(path, data, {"e_tag": tag})

    def _put_once(self, path: str, data: bytes, mode: PutMode) -> str | None:
        """Write the object on a condition; return its tag, or None when the condition fails.

        The client, or a proxy on the way, may make the request again when a reply got lost, and is
        then told that the condition fails because of its own first attempt. The object tells by a
        mark whose it is.
        """
        self._refuse_odd([path])
        mark: Attributes = {_MARK: os.urandom(16).hex()}

        def put() -> PutResult:
            with self._guard(path):
                return obstore.put(
                    self._store, path, data, mode=mode, attributes=mark, use_multipart=False
                )

        try:
            return self._again(put)["e_tag"] or ""
        except (_ExistsError, MissingFileError):
            return self._again(lambda: self._tag_of_marked(path, mark[_MARK]))

    def _tag_of_marked(self, path: str, mark: str) -> str | None:
        try:
            with self._guard(path):
                found = obstore.get(self._store, path, options={"head": True})
        except MissingFileError:
            return None
        return found.meta["e_tag"] or "" if found.attributes.get(_MARK) == mark else None

    def delete(self, path: str) -> None:
        """Delete the object; a missing object is no error."""
        self._delete(path, path)

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete objects, up to a thousand with one request; a missing object is no error."""
        if paths:
            self._delete(paths[0].rpartition("/")[0], list(paths))

    def _delete(self, path: str, found: str | Sequence[str]) -> None:
        self._refuse_odd([found] if isinstance(found, str) else found)

        def delete() -> None:
            with self._guard(path):
                obstore.delete(self._store, found)

        try:
            self._again(delete)
        except MissingFileError:
            return

    def _again(self, act: Callable[[], T]) -> T:
        """Return what a request gives that the client makes once, however the connection ends.

        Of a listing it makes each page again, but not one of which the reply is cut off.
        """
        until_s = time.monotonic() + _DEADLINE_S
        for delay_ms in self._delays_ms:
            try:
                return act()
            except StorageError as cause:
                if cause.is_refusal or time.monotonic() > until_s:
                    raise
            time.sleep(delay_ms / 1000)  # noqa: TID251 - as the client, which has its own clock
        return act()

    def both(self, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
        """Do two things of which neither waits for the other, at once."""
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(second)
            return first(), beside.result()

    def local_path(self, path: str) -> str | None:  # noqa: ARG002 - the protocol's parameter
        """Return None: objects have no path."""
        return None

    def _refuse_odd(self, names: Iterable[str]) -> None:
        for name in names:
            if CONTROL_CHARACTER.search(name):
                raise self._odd_name(name)

    def _odd_name(self, name: str) -> StorageError:
        return StorageError(
            self._spec.uri,
            f"the object {name!r} has a control character, such as a tab or a newline, in "
            "its name: the client neither writes, lists nor reads it",
            is_refusal=True,
            next_step="give it another name, with the tool that wrote it if it is there already",
        )

    @contextmanager
    def _guard(self, path: str) -> Iterator[None]:
        _ClientThreads.refuse_child()
        try:
            yield
        except FileNotFoundError as cause:
            raise MissingFileError(path) from cause
        except (AlreadyExistsError, PreconditionError) as cause:
            raise _ExistsError from cause
        except ValueError as cause:
            if "\0" not in path and CONTROL_CHARACTER.search(path):
                raise self._odd_name(path) from cause  # it may be there
            raise MissingFileError(path) from cause  # a name that no object can have
        except (BaseError, OSError) as cause:
            odd = _ODD_NAME.search(str(cause))
            if odd is not None:
                raise self._odd_name(odd[1]) from cause
            where = f"{self._spec.uri}/{path}" if path else self._spec.uri
            if _METADATA_SERVICE.search(str(cause)):
                raise _no_credentials(where, self._spec.uri) from cause
            raise StorageError(where, _reason(cause), is_refusal=_is_refusal(cause)) from cause
        except BaseException as cause:
            # The client's own faults come as something that no handler of exceptions would see.
            if type(cause).__name__ != "PanicException":
                raise
            raise StorageError(self._spec.uri, f"the client failed: {cause}") from cause


class _ClientThreads:
    """The threads that make the client's requests: one set a process, which no fork copies."""

    _pid: ClassVar[int | None] = None

    @classmethod
    def refuse_child(cls) -> None:
        """Raise `ConfigError` where a request would wait for threads of the parent process."""
        pid = os.getpid()
        cls._pid = cls._pid or pid
        if cls._pid != pid:
            raise ConfigError(
                f"process {pid} was forked from {cls._pid}, which had reached an object store: the "
                "client's threads stayed there",
                next_step="start processes that reach object stores by the method spawn or "
                "forkserver of multiprocessing, or fork before the first table is opened",
            )


class _Reader(io.RawIOBase):
    """An object as a file whose reads are range requests."""

    def __init__(self, storage: ObjectStorage, path: str, size_bytes: int, tail: bytes) -> None:
        super().__init__()
        self._tail = tail
        self._storage = storage
        self._path = path
        self._size_bytes = size_bytes
        self._at = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
        if origin + offset < 0:
            raise ValueError(f"seek before the start of {self._path}")
        self._at = origin + offset
        return self._at

    @override
    def tell(self) -> int:
        return self._at

    @override
    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        wanted = min(len(view), self._size_bytes - self._at)
        if wanted <= 0:
            return 0
        in_tail = self._at - (self._size_bytes - len(self._tail))
        if in_tail >= 0:
            data = self._tail[in_tail : in_tail + wanted]
        else:
            data = self._storage.read_range(self._path, self._at, wanted)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class _ExistsError(Exception):
    pass


def _reason(cause: Exception) -> str:
    """Return what the server said, or else the line before the client dumps its structures."""
    text = str(cause)
    said = re.search(r"<Message>(.*?)</Message>", text, re.DOTALL)
    return said[1] if said else text.partition("\n")[0]


def _no_credentials(where: str, uri: str) -> StorageError:
    return StorageError(
        where,
        "no credentials are given, and this machine has none of its own",
        next_step=_GIVE_CREDENTIALS.get(uri.partition(":")[0], _GIVE_AZURE_CREDENTIALS),
        is_refusal=True,
    )


def _is_refusal(cause: Exception) -> bool:
    return isinstance(cause, _REFUSALS) or _REFUSED.search(str(cause)) is not None


def _info(meta: ObjectMeta) -> FileInfo:
    name = meta["path"].rpartition("/")[2]
    return FileInfo(name, meta["size"], int(meta["last_modified"].timestamp() * 1000))
