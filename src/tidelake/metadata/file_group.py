"""One file group of the metadata table: a base HFile and the logs on top of it, merged by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tidelake.errors import (
    ClockAheadError,
    CorruptFileError,
    LockLostError,
    LockTimeoutError,
    Malformed,
    MissingFileError,
    SnapshotLostError,
    StorageError,
    TidelakeError,
)
from tidelake.formats import delete_block, metadata_record
from tidelake.formats.file_name import parse_log
from tidelake.formats.hfile import HFile
from tidelake.formats.log_block import (
    BlockKind,
    LogBlock,
    avro_records,
    decode_blocks,
    valid_blocks,
)
from tidelake.formats.metadata_encoding import transcode
from tidelake.formats.metadata_record import FileList, MetadataRecord
from tidelake.metadata.merge import is_live, merge
from tidelake.metadata.names import METADATA_FOLDER
from tidelake.model import BaseFile, FileSlice
from tidelake.storage import Storage

WAY_OUT = (
    "read with hoodie.metadata.enable=false to list storage instead; a write with "
    "tidelake.metadata.rebuild=true builds the metadata table anew, one with "
    "hoodie.metadata.enable=false takes it out of use"
)
#: Base files up to this size are read at once, greater ones block by block.
_READ_WHOLE_BYTES = 8 * 1024 * 1024


#: Makes one value of all that were written for a key, oldest first; None stands for a delete.
Combine = Callable[[Sequence["bytes | None"]], "bytes | None"]


@contextmanager
def reading_metadata(path: str) -> Iterator[None]:
    """Name the file, as the data table knows it, and the way out in errors about its metadata."""
    try:
        yield
    except Malformed as cause:
        raise CorruptFileError(_full(path), str(cause), next_step=WAY_OUT) from cause
    except CorruptFileError as cause:
        raise CorruptFileError(_full(cause.path), cause.cause, next_step=WAY_OUT) from cause
    except MissingFileError as cause:
        raise MissingFileError(cause.path, next_step=WAY_OUT) from cause
    except (StorageError, LockLostError, LockTimeoutError, ClockAheadError, SnapshotLostError):
        raise  # that says nothing of what lies there
    except TidelakeError as cause:
        raise CorruptFileError(_full(path), cause.problem, next_step=WAY_OUT) from cause


def _full(path: str) -> str:
    return path if path.startswith(METADATA_FOLDER) else f"{METADATA_FOLDER}/{path}".rstrip("/")


class Wanted(Protocol):
    """Which keys of a file group a reader asks for."""

    def of(self, file: HFile) -> Iterable[tuple[bytes, bytes]]:
        """Return the wanted entries of an HFile."""

    def has(self, key: str) -> bool:
        """Return whether `key` is wanted."""


class Keys:
    """These keys and no others."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = frozenset(keys)

    def of(self, file: HFile) -> Iterable[tuple[bytes, bytes]]:
        """Return the wanted entries of an HFile."""
        return file.lookup(key.encode() for key in self._keys).items()

    def has(self, key: str) -> bool:
        """Return whether `key` is wanted."""
        return key in self._keys


class Prefixes:
    """All keys that start with one of these."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._prefixes = tuple(prefixes)

    def of(self, file: HFile) -> Iterable[tuple[bytes, bytes]]:
        """Return the wanted entries of an HFile."""
        return file.lookup_prefixes(prefix.encode() for prefix in self._prefixes)

    def has(self, key: str) -> bool:
        """Return whether `key` is wanted."""
        return key.startswith(self._prefixes)


class Stored(NamedTuple):
    """A value as it is stored, and under which schema."""

    value: bytes
    schema: str
    log_time: str
    """The instant in the name of its log; nothing for one of the base file."""


@dataclass(frozen=True, slots=True)
class _HFileLayer:
    path: str
    file: HFile

    def find(self, wanted: Wanted) -> Iterator[tuple[str, MetadataRecord | None]]:
        for key, value in wanted.of(self.file):
            try:
                yield key.decode(), metadata_record.decode(value, self.file.schema)[1]
            except UnicodeDecodeError as cause:
                raise Malformed(f"the key {key!r} is no UTF-8 text") from cause


@dataclass(frozen=True, slots=True)
class _RecordLayer:
    path: str
    records: Mapping[str, MetadataRecord | None]

    def find(self, wanted: Wanted) -> Iterator[tuple[str, MetadataRecord | None]]:
        return ((key, record) for key, record in self.records.items() if wanted.has(key))

    def deleted(self) -> Iterator[str]:
        for key, record in self.records.items():
            if record is not None:
                raise Malformed("a block of plain records has no values to pass on as they are")
            yield key


class MetadataFileGroup:
    """The merged records of one file group."""

    def __init__(
        self,
        storage: Storage,
        file_slice: FileSlice,
        *,
        is_visible: Callable[[str], bool],
        may_be_torn: Callable[[str], bool],
    ) -> None:
        """Read nothing yet.

        `is_visible` tells for the instant of a log block whether it counts, `may_be_torn` for the
        path of a log file whether a crash may have left a damaged block in it.
        """
        self.file_id = file_slice.group.file_id
        self._storage = storage
        self._slice = file_slice
        self._is_visible = is_visible
        self._may_be_torn = may_be_torn
        self._layers: Sequence[_HFileLayer | _RecordLayer] | None = None

    def find(self, wanted: Wanted) -> dict[str, MetadataRecord]:
        """Return the merged records of the wanted keys."""
        if self._layers is None:
            self._layers = list(self._load())
        merged: dict[str, MetadataRecord | None] = {}
        for layer in self._layers:
            with reading_metadata(layer.path):
                for key, record in layer.find(wanted):
                    merged[key] = merge(merged.get(key), record)
        return {key: rec for key, rec in merged.items() if rec is not None and is_live(rec)}

    def buried(self, wanted: Keys) -> dict[str, frozenset[str]]:
        """Return the files that were named under a key before the key as a whole was deleted.

        When the key is written again, Apache Hudi's compaction forgets that delete and everything
        in the logs before it, and lists what the base file has.
        """
        if self._layers is None:
            self._layers = list(self._load())
        named: dict[str, set[str]] = {}
        graves: dict[str, frozenset[str]] = {}
        for layer in self._layers:
            with reading_metadata(layer.path):
                for key, record in layer.find(wanted):
                    if isinstance(record, FileList):
                        named.setdefault(key, set()).update(record.entries)
                    elif record is None:
                        graves[key] = frozenset(named.get(key, ()))
        return graves

    def newest(self, wanted: Wanted) -> dict[str, Stored]:
        """Return the newest value of each wanted key as it is stored."""
        if self._layers is None:
            self._layers = list(self._load())
        found: dict[str, Stored] = {}
        for layer in self._layers:
            with reading_metadata(layer.path):
                if isinstance(layer, _HFileLayer):
                    log = parse_log("", layer.path.rpartition("/")[2], 0)
                    log_time = "" if log is None else log.instant_time
                    for key, value in wanted.of(layer.file):
                        found[key.decode()] = Stored(value, layer.file.schema, log_time)
                else:
                    for gone in layer.deleted():
                        found.pop(gone, None)
        return found

    def schemas(self) -> frozenset[str]:
        """Return the schemas under which the values of the group were written."""
        if self._layers is None:
            self._layers = list(self._load())
        files = (layer.file for layer in self._layers if isinstance(layer, _HFileLayer))
        return frozenset(file.schema for file in files)

    def merged(self, combine: Combine, schema: str) -> Iterator[tuple[bytes, bytes]]:
        """Return every key that is left with its value under `schema`, in the order of a base file.

        `combine` makes one value of all that were written for a key, oldest first. Values of the
        base file that no log touches pass through; they are not held in memory.
        """
        if self._layers is None:
            self._layers = list(self._load())
        base: _HFileLayer | None = None
        newer: dict[bytes, list[bytes | None]] = {}
        for layer in self._layers:
            with reading_metadata(layer.path):
                if isinstance(layer, _RecordLayer):
                    for text in layer.deleted():
                        newer.setdefault(text.encode(), []).append(None)
                elif base is None and self._slice.base_file is not None:
                    base = layer
                else:
                    for key, value in layer.file.scan():
                        moved = transcode(value, layer.file.schema, schema)
                        newer.setdefault(key, []).append(moved)
        touched = sorted(newer)
        at = 0
        if base is not None:
            with reading_metadata(base.path):
                written_with = base.file.schema
                for key, value in base.file.scan():
                    while at < len(touched) and touched[at] < key:
                        yield from _combined(touched[at], combine, newer[touched[at]])
                        at += 1
                    moved = transcode(value, written_with, schema)
                    if at < len(touched) and touched[at] == key:
                        yield from _combined(key, combine, [moved, *newer[key]])
                        at += 1
                    else:
                        yield key, moved
        for key in touched[at:]:
            yield from _combined(key, combine, newer[key])

    def _load(self) -> Iterator[_HFileLayer | _RecordLayer]:
        layer, contents = self._storage.both(self._base_layer, self._log_contents)
        if layer is not None:
            yield layer
        logs = self._slice.log_files
        path_of: dict[int, str] = {}
        blocks: list[LogBlock] = []
        for log, data in zip(logs, contents, strict=True):
            with reading_metadata(log.path):
                found = decode_blocks(data)
                for block in found:
                    if block.damage and not self._may_be_torn(log.path):
                        raise Malformed(f"{block.damage} (log block at offset {block.offset})")
                path_of.update((id(block), log.path) for block in found)
                blocks += found
        with reading_metadata(logs[-1].path if logs else self.file_id):
            counted = valid_blocks(blocks, is_visible=self._is_visible)
        for block in counted:
            path = path_of[id(block)]
            with reading_metadata(path):
                yield _layer(path, block)

    def _base_layer(self) -> _HFileLayer | None:
        base = self._slice.base_file
        if base is None:
            return None
        with reading_metadata(base.path):
            return _HFileLayer(base.path, self._open_base(base))

    def _log_contents(self) -> Sequence[bytes]:
        with reading_metadata(self.file_id):
            return self._storage.read_many([log.path for log in self._slice.log_files])

    def _open_base(self, base: BaseFile) -> HFile:
        if base.size_bytes <= _READ_WHOLE_BYTES:
            return HFile.of_bytes(self._storage.read(base.path))
        return HFile(
            base.size_bytes,
            lambda offset, length: self._storage.read_range(base.path, offset, length),
        )


def _combined(
    key: bytes, combine: Combine, values: Sequence[bytes | None]
) -> Iterator[tuple[bytes, bytes]]:
    value = combine(values)
    if value is not None:
        yield key, value


def _layer(path: str, block: LogBlock) -> _HFileLayer | _RecordLayer:
    if block.kind is BlockKind.HFILE_DATA:
        return _HFileLayer(path, HFile.of_bytes(block.content))
    if block.kind is BlockKind.DELETE:
        return _RecordLayer(path, dict.fromkeys(delete_block.decode(block.content).keys))
    if block.kind is BlockKind.AVRO_DATA and block.schema is not None:
        records = (bytes(record) for record in avro_records(block.content))
        return _RecordLayer(path, dict(metadata_record.decode(r, block.schema) for r in records))
    raise Malformed(f"a {block.kind.name} block is not what the metadata table is made of")
