"""HFile version 3, the sorted key-value file of the metadata table: scan and look up.

Reads what HBase and Hudi's own writer produce: gzip or plain blocks, index of any depth, index keys
with and without HBase's suffix. Checksums are not verified, as in Hudi's own reader.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from typing_extensions import Self

from tidelake.errors import Malformed
from tidelake.formats._byte_reader import ByteReader
from tidelake.formats._inflation import most_inflated

TRAILER_BYTES = 4096
_MAJOR_VERSION = 3
_DATA = b"DATABLK*"
_META = b"METABLKc"
_ROOT_INDEX = b"IDXROOT2"
_INNER_INDEX = (b"IDXINTE2", b"IDXLEAF2")
_FILE_INFO = b"FILEINF2"
_TRAILER = b'TRABLK"$'
_GZIP = 1
_PLAIN = 2
_CODECS = {0: "LZO", 3: "SNAPPY", 4: "LZ4", 5: "BZIP2", 6: "ZSTD"}
_BLOCK_HEAD = struct.Struct(">8siiqbii")
_CELL_HEAD = struct.Struct(">iih")
_PUT = 4
#: After the row: length of the (always empty) column family, timestamp and type.
_KEY_SUFFIX = 1 + 8 + 1
_ROW_LENGTH = 2
#: No block that Hudi writes comes near; a greater one is damage or an attack.
_LARGEST_BLOCK = 256 * 1024 * 1024
#: Deflate cannot pack tighter than this.
_BEST_RATIO = 1032
_DEEPEST_INDEX = 16
#: Below this, a varint that is not done has gone wrong.
_VARINT_BITS = 64

Read = Callable[[int, int], bytes]
"""Return up to `length` bytes from `offset`."""


@dataclass(frozen=True, slots=True)
class _IndexEntry:
    key: bytes
    offset: int
    size: int


class HFile:
    """A sorted map from keys to values, read block by block."""

    def __init__(self, size: int, read: Read) -> None:
        """Read trailer, indexes and file info of an HFile of `size` bytes."""
        self._read = read
        if size < TRAILER_BYTES:
            raise Malformed(f"an HFile has at least {TRAILER_BYTES} bytes, this one has {size}")
        self._end = size - TRAILER_BYTES
        trailer = _decode_trailer(read(self._end, TRAILER_BYTES))
        self.entry_count = trailer.entry_count
        self._codec = trailer.codec
        at = trailer.load_on_open
        if not 0 <= at <= self._end:
            raise Malformed(f"the HFile's index is said to lie at offset {at} of {size}")
        section = ByteReader(read(at, self._end - at), "the HFile's index section")
        root = ByteReader(self._next_block(section, _ROOT_INDEX), "the HFile's data index")
        metas = ByteReader(self._next_block(section, _ROOT_INDEX), "the HFile's meta index")
        self.info = _decode_info(self._next_block(section, _FILE_INFO))
        self._root = [_root_entry(root) for _ in _counted(trailer.data_index_count, root)]
        self._levels = trailer.levels
        self._metas = {
            entry.key: entry
            for entry in (_meta_entry(metas) for _ in _counted(trailer.meta_index_count, metas))
        }
        if _int_info(self.info, "MAX_MEMSTORE_TS_KEY"):
            raise Malformed(
                "the HFile holds several versions of its cells, which Hudi never writes"
            )
        self._has_mvcc = _int_info(self.info, "KEY_VALUE_VERSION") == 1
        self._flat: tuple[list[bytes], list[_IndexEntry]] | None = None

    @classmethod
    def of_bytes(cls, data: bytes | memoryview) -> Self:
        """Return the HFile that lies in memory, such as the content of a log block."""
        view = memoryview(data)
        return cls(len(view), lambda offset, length: bytes(view[offset : offset + length]))

    @property
    def schema(self) -> str:
        """Return the Avro schema, as JSON text, of the values."""
        found = self.info.get("schema")
        if found is None:
            raise Malformed("the HFile does not say the schema of its values")
        try:
            return found.decode()
        except UnicodeDecodeError as cause:
            raise Malformed("the HFile's schema is no UTF-8 text") from cause

    def meta_block(self, name: str) -> bytes | None:
        """Return the named blob, such as `bloomFilter`, or None when the file has none."""
        entry = self._metas.get(name.encode())
        return None if entry is None else self._block(entry, (_META,))

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """Return every key with its value, in the order of the file."""
        for entry in self._data_index()[1]:
            yield from self._cells(entry)

    def lookup(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the values of those of `keys` that the file holds, reading each block once."""
        firsts, entries = self._data_index()
        wanted: dict[int, set[bytes]] = {}
        for key in keys:
            block = bisect_right(firsts, key) - 1
            if block >= 0:
                wanted.setdefault(block, set()).add(key)
        found: dict[bytes, bytes] = {}
        for block in sorted(wanted):
            for key, value in self._cells(entries[block]):
                if key in wanted[block]:
                    found.setdefault(key, value)
        return found

    def lookup_prefixes(self, prefixes: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Return the entries whose key starts with one of `prefixes`, in the order of the file."""
        firsts, entries = self._data_index()
        wanted: dict[int, list[bytes]] = {}
        for prefix in set(prefixes):
            # A block holds such keys when it starts at or before their end and ends at or after
            # their start; the floor block may, all later ones that start with the prefix do.
            block = max(bisect_right(firsts, prefix) - 1, 0)
            while block < len(entries) and (
                firsts[block] <= prefix or firsts[block].startswith(prefix)
            ):
                wanted.setdefault(block, []).append(prefix)
                block += 1
        for block in sorted(wanted):
            starts = tuple(wanted[block])
            for key, value in self._cells(entries[block]):
                if key.startswith(starts):
                    yield key, value

    def _data_index(self) -> tuple[list[bytes], list[_IndexEntry]]:
        if self._flat is None:
            level = self._root
            for _ in range(self._levels - 1):
                _check_ascending(level, self._end)
                level = [inner for entry in level for inner in self._inner_index(entry)]
            _check_ascending(level, self._end)
            self._flat = [entry.key for entry in level], level
        return self._flat

    def _inner_index(self, entry: _IndexEntry) -> Iterator[_IndexEntry]:
        reader = ByteReader(self._block(entry, _INNER_INDEX), "an index block of the HFile")
        count = reader.int32()
        if count < 0 or count * 4 > reader.left:
            raise Malformed(f"an index block of the HFile claims {count} entries")
        places = [reader.int32() for _ in range(count + 1)]
        start = reader.at
        for begin, end in pairwise(places):
            if begin < 0 or end < begin + 12:
                raise Malformed("the entries of an index block of the HFile overlap")
            reader.at = start + begin
            offset, size = reader.int64(), reader.int32()
            yield _IndexEntry(_row(reader.take(end - begin - 12)), offset, size)

    def _block(self, entry: _IndexEntry, kinds: tuple[bytes, ...]) -> bytes:
        if entry.offset < 0 or not 0 < entry.size <= self._end - entry.offset:
            raise Malformed(
                f"a block of the HFile is said to take {entry.size} bytes at offset {entry.offset}"
            )
        data = self._read(entry.offset, entry.size)
        return self._next_block(ByteReader(data, "a block of the HFile"), *kinds)

    def _next_block(self, reader: ByteReader, *kinds: bytes) -> bytes:
        start = reader.at
        magic, on_disk, size, _, _, _, with_head = _BLOCK_HEAD.unpack(reader.take(_BLOCK_HEAD.size))
        if magic not in kinds:
            raise Malformed(f"the HFile has a block {magic!r} where {kinds[0]!r} belongs")
        body = reader.take(on_disk)
        packed = with_head - _BLOCK_HEAD.size
        if not 0 <= packed <= on_disk or not 0 <= size <= _LARGEST_BLOCK:
            raise Malformed(f"the lengths of the HFile block at {start} contradict each other")
        if self._codec == _PLAIN:
            if packed != size:
                raise Malformed(f"the HFile block at {start} has {packed} bytes, not {size}")
            return bytes(body[:packed])
        return _gunzip(body[:packed], size)

    def _cells(self, entry: _IndexEntry) -> Iterator[tuple[bytes, bytes]]:
        data = self._block(entry, (_DATA,))
        at = 0
        while at < len(data):
            row = at + _CELL_HEAD.size
            if row > len(data):
                raise Malformed("a data block of the HFile ends inside a cell")
            key_length, value_length, row_length = _CELL_HEAD.unpack_from(data, at)
            value = row - _ROW_LENGTH + key_length
            at = value + value_length
            if (
                row_length < 0
                or key_length < _ROW_LENGTH + row_length + _KEY_SUFFIX
                or value_length < 0
                or at + self._has_mvcc > len(data)
            ):
                raise Malformed("the lengths of a cell of the HFile contradict each other")
            if data[value - 1] != _PUT:
                raise Malformed(f"the HFile has a cell of type {data[value - 1]}, which is no put")
            if self._has_mvcc:
                at += _vint_size(data[at])
            yield data[row : row + row_length], data[value : value + value_length]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trailer:
    load_on_open: int
    data_index_count: int
    meta_index_count: int
    entry_count: int
    levels: int
    codec: int


def _decode_trailer(data: bytes) -> _Trailer:
    if len(data) != TRAILER_BYTES or not data.startswith(_TRAILER):
        raise Malformed("the file does not end with an HFile trailer")
    major = int.from_bytes(data[-3:], "big")
    if major != _MAJOR_VERSION:
        raise Malformed(f"HFile version {major} is unknown; it should be {_MAJOR_VERSION}")
    reader = ByteReader(data, "the HFile trailer", at=len(_TRAILER), end=TRAILER_BYTES - 4)
    numbers = {
        field: value for field, value in _protobuf(_delimited(reader)) if isinstance(value, int)
    }
    codec = numbers.get(12, _PLAIN)
    if codec not in (_GZIP, _PLAIN):
        raise Malformed(f"the HFile's codec {_CODECS.get(codec, codec)} is not supported")
    levels = numbers.get(8, 1)
    if not 1 <= levels <= _DEEPEST_INDEX:
        raise Malformed(f"the HFile claims an index of {levels} levels")
    return _Trailer(
        load_on_open=numbers.get(2, -1),
        data_index_count=numbers.get(5, 0),
        meta_index_count=numbers.get(6, 0),
        entry_count=numbers.get(7, 0),
        levels=levels,
        codec=codec,
    )


def _decode_info(block: bytes) -> Mapping[str, bytes]:
    if not block.startswith(b"PBUF"):
        raise Malformed("the HFile's file info does not start with PBUF")
    reader = ByteReader(block, "the HFile's file info", at=4)
    info: dict[str, bytes] = {}
    for field, pair in _protobuf(_delimited(reader)):
        if field == 1 and not isinstance(pair, int):
            parts = dict(_protobuf(ByteReader(pair, "an entry of the HFile's file info")))
            key, value = parts.get(1), parts.get(2)
            if isinstance(key, memoryview) and isinstance(value, memoryview):
                info[str(key, "utf-8", "replace")] = bytes(value)
    return info


def _int_info(info: Mapping[str, bytes], name: str) -> int:
    return int.from_bytes(info.get(name, b""), "big")


def _protobuf(reader: ByteReader) -> Iterator[tuple[int, int | memoryview]]:
    while reader.left:
        tag = _varint(reader)
        field, wire = tag >> 3, tag & 7
        if wire == 0:
            yield field, _varint(reader)
        elif wire == 1:
            reader.take(8)
        elif wire == 2:
            yield field, reader.take(_varint(reader))
        elif wire == 5:
            reader.take(4)
        else:
            raise Malformed(f"{reader.what} holds a field of the unknown wire type {wire}")


def _delimited(reader: ByteReader) -> ByteReader:
    return ByteReader(reader.take(_varint(reader)), reader.what)


def _varint(reader: ByteReader) -> int:
    value = shift = 0
    while True:
        byte = reader.uint8()
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
        if shift >= _VARINT_BITS + 7:
            raise Malformed(f"{reader.what} holds a number without an end")


def _vint_size(first: int) -> int:
    """Return the length of the Hadoop VInt whose first byte is `first`."""
    signed = first - 256 if first > 127 else first
    if signed >= -112:
        return 1
    return -119 - signed if signed < -120 else -111 - signed


def _hadoop_vint(reader: ByteReader) -> int:
    first = reader.uint8()
    more = _vint_size(first) - 1
    if not more:
        return first - 256 if first > 127 else first
    magnitude = int.from_bytes(reader.take(more), "big")
    return ~magnitude if first - 256 < -120 else magnitude


def _counted(count: int, reader: ByteReader) -> range:
    if count * 13 > reader.left:
        raise Malformed(f"{reader.what} claims {count} entries in {reader.left} bytes")
    return range(count)


def _root_entry(reader: ByteReader) -> _IndexEntry:
    offset, size = reader.int64(), reader.int32()
    start = reader.at
    try:
        return _IndexEntry(_row(reader.take(_hadoop_vint(reader))), offset, size)
    except Malformed:
        # Hudi 1.1.0 and 1.1.1 wrote the length the way protobuf does, which differs from 128 on.
        reader.at = start
        return _IndexEntry(_row(reader.take(_varint(reader))), offset, size)


def _meta_entry(reader: ByteReader) -> _IndexEntry:
    offset, size = reader.int64(), reader.int32()
    return _IndexEntry(bytes(reader.take(_hadoop_vint(reader))), offset, size)


def _row(key: memoryview) -> bytes:
    """Return the row of an index key, which may or may not carry HBase's suffix."""
    reader = ByteReader(key, "an index key of the HFile")
    return bytes(reader.take(reader.int16()))


def _check_ascending(level: list[_IndexEntry], end: int) -> None:
    # Two entries for one block, or a block inside its own index, could multiply without bound.
    at = 0
    for entry in level:
        if entry.offset < at or entry.size < _BLOCK_HEAD.size or entry.offset + entry.size > end:
            raise Malformed(
                "the HFile's index names blocks that overlap or lie outside of the file"
            )
        at = entry.offset + entry.size
    if any(left.key > right.key for left, right in pairwise(level)):
        raise Malformed("the HFile's index is not sorted")


def _gunzip(packed: memoryview, size: int) -> bytes:
    if size > min(len(packed) * _BEST_RATIO, most_inflated(len(packed))):
        raise Malformed(f"{len(packed)} packed bytes cannot unfold to {size}")
    unpack = zlib.decompressobj(wbits=31)
    try:
        data = unpack.decompress(packed, size + 1)
    except zlib.error as cause:
        raise Malformed(f"a block of the HFile does not decompress: {cause}") from cause
    if len(data) != size or not unpack.eof:
        raise Malformed(f"a block of the HFile unfolds to other than the {size} bytes announced")
    return data
