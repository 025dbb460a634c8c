"""A data file in the making: the marker first, then the bytes, then a look whether it is wanted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timezone

import pyarrow as pa

from tidelake.errors import InstantLostError, SchemaError, StorageError
from tidelake.files.wanted import delete_unwanted, is_wanted
from tidelake.files.write_task import GroupTarget, WriteSpec
from tidelake.formats import partition_metadata
from tidelake.formats.marker_name import MarkerKind, marker_path
from tidelake.formats.partition_metadata import PartitionMetadata
from tidelake.formats.partition_path import folders_above
from tidelake.formats.properties import java_date
from tidelake.formats.table_path import META_FOLDER
from tidelake.model.instant_digits import shown_moment
from tidelake.storage import Storage


class NewFile:
    """A data file that no reader sees before its instant completes.

    Where the storage has real files the bytes go straight to the file's own name, so that a crash
    leaves nothing that the marker does not name.
    """

    def __init__(self, storage: Storage, spec: WriteSpec, path: str, kind: MarkerKind) -> None:
        """Put the marker and open the file."""
        self._storage = storage
        self._instant = spec.instant_time
        self._owner = spec.owner
        self._waits = spec.waits
        self._kind = kind
        self._marker = marker_path(spec.marker_folder, path, kind)
        self.path = path
        storage.put(self._marker, b"")
        self._local = storage.local_path(path)
        if self._local is None:
            self.sink: pa.NativeFile = pa.BufferOutputStream()
            return
        storage.make_folder(path.rpartition("/")[0])
        with self.writing():
            self.sink = pa.OSFile(self._local, "wb")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn what the operating system says into `StorageError`, or into `InstantLostError`.

        Whoever rolls a write back deletes its files, those too that are being written.
        """
        try:
            yield
        except OSError as cause:
            self._refuse_lost()
            raise StorageError(self.path, cause.strerror or str(cause)) from cause

    def begin_again(self) -> pa.Buffer:
        """Return what was written so far, and forget it."""
        if self._local is None:
            written = self.sink.getvalue()
            self.sink = pa.BufferOutputStream()
            return written
        with self.writing():
            self.sink.close()
            with pa.OSFile(self._local, "rb") as file:
                written = file.read_buffer()
            self.sink = pa.OSFile(self._local, "wb")
        return written

    def finish(self) -> int:
        """Make the file durable and return its size.

        Raises `InstantLostError`, and takes the file away, when somebody ended the write meanwhile.
        """
        if self._local is None:
            data = self.sink.getvalue()
            self._storage.put(self.path, data.to_pybytes())
            size_bytes = data.size
        else:
            with self.writing():
                size_bytes = self.sink.tell()
                self.sink.close()
                _sync(self._local)
        self._refuse_lost()
        return int(size_bytes)

    def discard(self) -> None:
        """Take the file away; its marker goes with those of the write."""
        self.close()
        self._storage.delete(self.path)

    def _refuse_lost(self) -> None:
        """Take the file away and raise `InstantLostError` when somebody ended the write."""
        if not is_wanted(self._storage, self._instant, self._owner, waits=self._waits):
            delete_unwanted(self._storage, self.path, self._kind, self._instant)
            self._storage.delete(self._marker)
            raise InstantLostError(
                f"instant {self._instant} was ended while {self.path} was being written",
                next_step="run the write again",
            )

    def close(self) -> None:
        """Let go of the file, finished or not; what lies there is left to the rollback."""
        if not self.sink.closed:
            self.sink.close()


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_partition(storage: Storage, target: GroupTarget, spec: WriteSpec) -> None:
    """Put the file that makes the target's folder a partition, unless it is known to be there."""
    if target.partition_known:
        return
    path = in_partition(target.partition, partition_metadata.FILE_NAME)
    if storage.stat(path) is None:
        _refuse_nested(storage, target.partition)
        depth = target.partition.count("/") + 1 if target.partition else 0
        made = PartitionMetadata(commit_time=spec.instant_time, partition_depth=depth)
        moment = shown_moment(spec.instant_time).replace(tzinfo=timezone.utc)
        saved_at = java_date(int(moment.timestamp()) * 1000)
        storage.put_if_absent(path, partition_metadata.encode(made, saved_at))


def _refuse_nested(storage: Storage, partition: str) -> None:
    """Raise `SchemaError` for a partition inside of another: no listing looks below a partition."""
    for above in folders_above(partition):
        if storage.stat(in_partition(above, partition_metadata.FILE_NAME)) is not None:
            raise nested_partition(above, partition)
    folders = (name for name in storage.list(partition).folders if name != META_FOLDER)
    todo = [in_partition(partition, name) for name in folders]
    while todo:
        below = todo.pop()
        folder = storage.list(below)
        if any(file.name == partition_metadata.FILE_NAME for file in folder.files):
            raise nested_partition(partition, below)
        todo += [in_partition(below, name) for name in folder.folders]


def nested_partition(outer: str, inner: str) -> SchemaError:
    """Return the error for two partitions of which one lies inside of the other."""
    return SchemaError(
        f"partition {inner!r} lies inside of partition {outer!r}: its rows could not be read back",
        next_step="correct or leave out rows with such a partition value, or create the table with "
        "hoodie.datasource.write.partitionpath.urlencode=true; nothing was written",
    )


def in_partition(partition: str, name: str) -> str:
    """Return the path, relative to the table, of the file `name` of a partition."""
    return f"{partition}/{name}" if partition else name
