"""HFile version 3 written, in the form that HBase's reader and Hudi's own both take.

Index keys are whole and their lengths are Hadoop's; the checksums are left out, as in files of
Hudi's own writer, which says so in every block.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping

from tidelake.formats.hfile import TRAILER_BYTES

#: Text that HBase's reader makes a comparator from.
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_BLOCK_HEAD = struct.Struct(">8siiqbii")
_CELL_HEAD = struct.Struct(">iih")
_INDEX_HEAD = struct.Struct(">qi")
_NO_CHECKSUM = 0
_BYTES_PER_CHECKSUM = 16384
_GZIP = 1
#: Length of the column family, timestamp and type: the same in all keys.
_KEY_SUFFIX = b"\0" + struct.pack(">q", 2**63 - 1) + b"\4"
_MVCC = b"\0"
_NO_BLOCK = -1
#: A data block is full at this size, before it is compressed.
_BLOCK_BYTES = 1 << 20
_LONGEST_KEY = 32767
#: Small blocks are packed as tightly as possible, greater ones in a fraction of the time.
_TIGHT_BYTES = 64 << 10


def encode_hfile(
    entries: Iterable[tuple[bytes, bytes]],
    schema: str,
    *,
    is_base: bool = False,
    block_bytes: int = _BLOCK_BYTES,
) -> bytes:
    """Return a file with these keys and values, in this order; `schema` is that of the values.

    A base file tells its least and its greatest key too. Raises `ValueError` for keys that do not
    ascend or are too long.
    """
    writer = _Writer(block_bytes)
    for key, value in entries:
        writer.add(key, value)
    return writer.finish(schema, is_base=is_base)


class _Writer:
    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._done: list[bytes] = []
        self._at = 0
        self._index: list[bytes] = []
        self._cells: list[bytes] = []
        self._cell_bytes = 0
        self._block_key = b""
        self._last_data = _NO_BLOCK
        self._count = self._key_bytes = self._value_bytes = 0
        self._plain_bytes = 0
        self._first_key: bytes | None = None
        self._last_key: bytes | None = None

    def add(self, key: bytes, value: bytes) -> None:
        if self._last_key is not None and key <= self._last_key:
            raise ValueError(f"the keys of an HFile ascend, but {key!r} follows {self._last_key!r}")
        if len(key) > _LONGEST_KEY:
            raise ValueError(f"a key of {len(key)} bytes is too long for an HFile")
        head = _CELL_HEAD.pack(len(key) + 12, len(value), len(key))
        size = len(head) + len(key) + len(_KEY_SUFFIX) + len(value) + 1
        if self._cells and self._cell_bytes + size > self._block_bytes:
            self._end_data_block()
        if not self._cells:
            self._block_key = key
        self._cells += (head, key, _KEY_SUFFIX, value, _MVCC)
        self._cell_bytes += size
        self._first_key = key if self._first_key is None else self._first_key
        self._last_key = key
        self._count += 1
        self._key_bytes += len(key)
        self._value_bytes += len(value)

    def _end_data_block(self) -> None:
        previous, at = self._last_data, self._at
        size = self._put(b"DATABLK*", b"".join(self._cells), previous)
        key = _whole_key(self._block_key)
        self._index.append(_INDEX_HEAD.pack(at, size) + _hadoop_vint(len(key)) + key)
        self._last_data = at
        self._plain_bytes += self._cell_bytes
        self._cells, self._cell_bytes = [], 0

    def _put(self, magic: bytes, payload: bytes, previous: int = _NO_BLOCK) -> int:
        packed = _gzip(payload)
        with_head = _BLOCK_HEAD.size + len(packed)
        checksums = bytes(4 * -(-with_head // _BYTES_PER_CHECKSUM))
        head = _BLOCK_HEAD.pack(
            magic,
            len(packed) + len(checksums),
            len(payload),
            previous,
            _NO_CHECKSUM,
            _BYTES_PER_CHECKSUM,
            with_head,
        )
        self._done += (head, packed, checksums)
        size = with_head + len(checksums)
        self._at += size
        return size

    def finish(self, schema: str, *, is_base: bool) -> bytes:
        if self._cells:
            self._end_data_block()
        load_on_open = self._at
        self._put(b"IDXROOT2", b"".join(self._index))
        self._put(b"IDXROOT2", b"")
        info_at = self._at
        self._put(b"FILEINF2", _encode_info(self._info(schema, is_base=is_base)))
        self._done.append(self._trailer(load_on_open, info_at))
        return b"".join(self._done)

    def _info(self, schema: str, *, is_base: bool) -> Mapping[str, bytes]:
        last = b"" if self._last_key is None else _whole_key(self._last_key)
        found = {
            "KEY_VALUE_VERSION": struct.pack(">i", 1),
            "MAX_MEMSTORE_TS_KEY": bytes(8),
            "hfile.AVG_KEY_LEN": struct.pack(">i", self._key_bytes // max(1, self._count)),
            "hfile.AVG_VALUE_LEN": struct.pack(">i", self._value_bytes // max(1, self._count)),
            "hfile.CREATE_TIME_TS": bytes(8),
            "hfile.LASTKEY": last,
        }
        if is_base:
            found["maxRecordKey"] = self._last_key or b""
            found["minRecordKey"] = self._first_key or b""
        return {**found, "schema": schema.encode()}

    def _trailer(self, load_on_open: int, info_at: int) -> bytes:
        numbers = (
            (1, info_at),
            (2, load_on_open),
            (3, self._plain_bytes),
            (5, len(self._index)),
            (6, 0),
            (7, self._count),
            (8, 1),
            (9, 0 if self._index else _NO_BLOCK),
            (10, max(0, self._last_data)),
        )
        fields = [_varint(field << 3) + _varint(value % 2**64) for field, value in numbers]
        fields += [_delimited(11, _COMPARATOR), _varint(12 << 3) + _varint(_GZIP)]
        message = b"".join(fields)
        head = b'TRABLK"$' + _varint(len(message)) + message
        return head.ljust(TRAILER_BYTES - 4, b"\0") + struct.pack(">i", 3)


def _encode_info(entries: Mapping[str, bytes]) -> bytes:
    pairs = (_delimited(1, name.encode()) + _delimited(2, value) for name, value in entries.items())
    message = b"".join(_delimited(1, pair) for pair in pairs)
    return b"PBUF" + _varint(len(message)) + message


def _whole_key(row: bytes) -> bytes:
    return struct.pack(">h", len(row)) + row + _KEY_SUFFIX


def _gzip(data: bytes) -> bytes:
    pack = zlib.compressobj(9 if len(data) <= _TIGHT_BYTES else 4, wbits=31)
    return pack.compress(data) + pack.flush()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _delimited(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _hadoop_vint(value: int) -> bytes:
    if value <= 127:
        return bytes([value])
    magnitude = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([256 - 112 - len(magnitude)]) + magnitude
