"""Hudi's bloom filters over record keys: Hadoop's wire formats, as base64 text."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import Self

from tidelake.errors import Malformed
from tidelake.formats._byte_reader import ByteReader
from tidelake.model import Word

_FORMAT = -1
_MURMUR = 1
_ROW_HEAD = struct.Struct(">iibi")
_DYNAMIC_HEAD = struct.Struct(">iii")
_MOST_HASHES = 1000
_M = np.uint32(0x5BD1E995)

#: Keys hashed together: few enough to stay in the processor's cache.
_BLOCK_KEYS = 8192
_NO_KEYS = np.zeros(1, np.int64)
_NO_BYTES = np.zeros(0, np.uint8)

#: Record keys as a list of texts, or as an Arrow array of them.
Keys: TypeAlias = "Sequence[str] | pa.Array"


class BloomKind(Word):
    """The type codes that footers carry."""

    SIMPLE = "SIMPLE"
    DYNAMIC_V0 = "DYNAMIC_V0"


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilter:
    """A set of keys that may answer yes for a key it does not hold, but never no for one it does.

    A dynamic filter grows by rows of equal size, each for `keys_per_row` keys; the last one counts
    its own in `keys_in_row`.
    """

    kind: BloomKind
    hash_count: int
    bits: int
    rows: tuple[bytes, ...]
    keys_per_row: int = 0
    keys_in_row: int = 0

    @classmethod
    def build(
        cls,
        keys: Keys,
        *,
        kind: BloomKind = BloomKind.DYNAMIC_V0,
        entries: int = 60_000,
        false_positives: float = 1e-9,
        max_entries: int = 100_000,
    ) -> Self:
        """Return the filter Hudi would write for `keys`, in the order of their writing."""
        bits = math.ceil(entries * (-math.log(false_positives) / math.log(2) ** 2))
        hash_count = math.ceil(math.log(2) * bits / entries)
        if kind is BloomKind.SIMPLE:
            row_of, in_row = np.zeros(len(keys), np.int64), 0
        else:
            row_of, in_row = _rows_for(len(keys), entries, max_entries)
        row_count = int(row_of.max()) + 1 if len(keys) else 1
        table = _KeyBytes(keys)
        rows = []
        for row in range(row_count):
            flags = np.zeros((bits + 7) // 8 * 8, np.bool_)
            for _, block in table.blocks(np.flatnonzero(row_of == row)):
                for places in _positions(block, hash_count, bits):
                    flags[places] = True
            rows.append(np.packbits(flags, bitorder="little").tobytes())
        return cls(
            kind=kind,
            hash_count=hash_count,
            bits=bits,
            rows=tuple(rows),
            keys_per_row=0 if kind is BloomKind.SIMPLE else entries,
            keys_in_row=in_row,
        )

    @classmethod
    def decode(cls, text: str, kind: BloomKind) -> Self:
        """Take the text of a footer or of the metadata table apart."""
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as cause:
            raise Malformed(f"the bloom filter is not base64: {cause}") from cause
        reader = ByteReader(data, "the bloom filter")
        hash_count, bits = _row_head(reader)
        keys_per_row = keys_in_row = 0
        if kind is BloomKind.SIMPLE:
            rows = [bytes(reader.take((bits + 7) // 8))]
        else:
            keys_per_row, keys_in_row, row_count = (reader.int32() for _ in range(3))
            if row_count < 1 or row_count * _ROW_HEAD.size > reader.left:
                raise Malformed(f"the bloom filter claims {row_count} rows")
            rows = []
            for _ in range(row_count):
                if _row_head(reader) != (hash_count, bits):
                    raise Malformed("the rows of the bloom filter differ in size")
                rows.append(bytes(reader.take((bits + 7) // 8)))
        if reader.left:
            raise Malformed(f"the bloom filter has {reader.left} bytes too many")
        return cls(
            kind=kind,
            hash_count=hash_count,
            bits=bits,
            rows=tuple(rows),
            keys_per_row=keys_per_row,
            keys_in_row=keys_in_row,
        )

    def encode(self) -> str:
        """Return the text as Hudi writes it; the inverse of `decode`."""
        head = _ROW_HEAD.pack(_FORMAT, self.hash_count, _MURMUR, self.bits)
        data = b"".join(head + row for row in self.rows)
        if self.kind is BloomKind.DYNAMIC_V0:
            counts = _DYNAMIC_HEAD.pack(self.keys_per_row, self.keys_in_row, len(self.rows))
            data = head + counts + data
        return base64.b64encode(data).decode("ascii")

    def may_contain(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Return for each key whether the filter may hold it."""
        found = np.zeros(len(keys), np.bool_)
        rows = [np.frombuffer(row, np.uint8) for row in self.rows]
        for indexes, block in _KeyBytes(keys).blocks(np.arange(len(keys))):
            held = np.ones((len(rows), len(indexes)), np.bool_)
            for places in _positions(block, self.hash_count, self.bits):
                for row, bits in enumerate(rows):
                    held[row] &= (bits[places >> 3] >> (places & 7).astype(np.uint8) & 1) == 1
            found[indexes] = held.any(axis=0)
        return found


def _row_head(reader: ByteReader) -> tuple[int, int]:
    layout, hash_count, hash_type, bits = _ROW_HEAD.unpack(reader.take(_ROW_HEAD.size))
    if layout != _FORMAT or hash_type != _MURMUR:
        raise Malformed(
            f"the bloom filter has layout {layout} and hash type {hash_type}; "
            f"known are layout {_FORMAT} and hash type {_MURMUR}"
        )
    if not 1 <= hash_count <= _MOST_HASHES or bits < 1:
        raise Malformed(f"the bloom filter claims {hash_count} hashes over {bits} bits")
    return hash_count, bits


def _rows_for(keys: int, keys_per_row: int, max_entries: int) -> tuple[npt.NDArray[np.int64], int]:
    """Return the row that each key goes to, and the count that the filter keeps of the last row."""
    row_count = max(1, -(-max_entries // keys_per_row))
    full = row_count * keys_per_row
    order = np.arange(keys, dtype=np.int64)
    # Past the cap, the key that finds it goes to row 0 and the ones after it go round, from row 0.
    round_robin = np.maximum(order - full - 1, 0) % row_count
    row_of = np.where(order < full, order // keys_per_row, round_robin)
    rows_made = min(row_count, max(1, -(-keys // keys_per_row)))
    return row_of, keys - (rows_made - 1) * keys_per_row


class _KeyBytes:
    """Keys as UTF-8, side by side."""

    def __init__(self, keys: Keys) -> None:
        texts = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string())
        texts = texts.cast(pa.large_string())
        _, offsets, data = texts.buffers()
        ends = _NO_KEYS
        if len(texts):
            ends = np.frombuffer(offsets, np.int64)[texts.offset :][: len(texts) + 1]
        self._starts = ends[:-1]
        self._lengths = np.diff(ends)
        self._data = np.frombuffer(data, np.uint8) if data is not None else _NO_BYTES

    def blocks(
        self, chosen: npt.NDArray[np.int64]
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]]:
        """Return indexes of keys of equal length, and their bytes one row a key."""
        lengths = self._lengths[chosen]
        for length in np.unique(lengths).tolist():
            equal = chosen[lengths == length]
            for at in range(0, len(equal), _BLOCK_KEYS):
                indexes = equal[at : at + _BLOCK_KEYS]
                yield indexes, self._data[self._starts[indexes][:, None] + np.arange(length)]


def _positions(
    table: npt.NDArray[np.uint8], hash_count: int, bits: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Return the bit numbers of keys of equal length, hash by hash."""
    count, length = table.shape
    whole = length // 4 * 4
    words = np.ascontiguousarray(table[:, :whole]).view("<u4").T.astype(np.uint32, order="C")
    words *= _M
    words ^= words >> np.uint32(24)
    words *= _M
    rest = np.zeros(count, np.uint32)
    # Hadoop reads the rest backwards and sign-extends each byte, unlike the published MurmurHash2.
    for shift, column in enumerate(range(length - 1, whole - 1, -1)):
        rest ^= table[:, column].astype(np.int8).astype(np.int32).astype(np.uint32) << (8 * shift)
    hashed = np.zeros(count, np.uint32)
    for _ in range(hash_count):
        hashed ^= np.uint32(length)
        for word in words:
            hashed *= _M
            hashed ^= word
        if length > whole:
            hashed ^= rest
            hashed *= _M
        hashed ^= hashed >> np.uint32(13)
        hashed *= _M
        hashed ^= hashed >> np.uint32(15)
        size = np.abs(hashed.view(np.int32)).view(np.uint32)
        # Unlike the remainder, a division by a constant is quick in numpy.
        yield (size - size // np.uint32(bits) * np.uint32(bits)).astype(np.int64)
