"""Hudi's bloom filters over record keys: Hadoop's wire formats, as base64 text."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
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

UInt32s = npt.NDArray[np.uint32]


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
        keys: Sequence[str],
        *,
        kind: BloomKind = BloomKind.DYNAMIC_V0,
        entries: int = 60_000,
        false_positives: float = 1e-9,
        max_entries: int = 100_000,
    ) -> Self:
        """Return the filter Hudi would write for `keys`, in the order of their writing."""
        bits = math.ceil(entries * (-math.log(false_positives) / math.log(2) ** 2))
        hash_count = math.ceil(math.log(2) * bits / entries)
        places = _positions([key.encode() for key in keys], hash_count, bits)
        if kind is BloomKind.SIMPLE:
            row_of, in_row = np.zeros(len(keys), np.int64), 0
        else:
            row_of, in_row = _rows_for(len(keys), entries, max_entries)
        row_count = int(row_of.max()) + 1 if len(keys) else 1
        return cls(
            kind=kind,
            hash_count=hash_count,
            bits=bits,
            rows=tuple(_bit_array(places[row_of == row], bits) for row in range(row_count)),
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

    def may_contain(self, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return for each key whether the filter may hold it."""
        places = _positions([key.encode() for key in keys], self.hash_count, self.bits)
        found = np.zeros(len(keys), np.bool_)
        for row in self.rows:
            bits = np.frombuffer(row, np.uint8)
            hits = bits[places >> 3] >> (places & 7).astype(np.uint8) & 1
            found |= hits.all(axis=1)
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


def _bit_array(places: npt.NDArray[np.int64], bits: int) -> bytes:
    flags = np.zeros((bits + 7) // 8 * 8, np.bool_)
    flags[places.ravel()] = True
    return np.packbits(flags, bitorder="little").tobytes()


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


def _positions(keys: Sequence[bytes], hash_count: int, bits: int) -> npt.NDArray[np.int64]:
    """Return the bit numbers of each key, one row a key; equally long keys are hashed together."""
    places = np.zeros((len(keys), hash_count), np.int64)
    by_length: dict[int, list[int]] = {}
    for index, key in enumerate(keys):
        by_length.setdefault(len(key), []).append(index)
    for length, indexes in by_length.items():
        joined = b"".join([keys[index] for index in indexes])
        table = np.frombuffer(joined, np.uint8).reshape(len(indexes), length)
        places[indexes] = _positions_of_equal_length(table, hash_count, bits)
    return places


def _positions_of_equal_length(
    table: npt.NDArray[np.uint8], hash_count: int, bits: int
) -> npt.NDArray[np.int64]:
    count, length = table.shape
    whole = length // 4 * 4
    words = np.ascontiguousarray(table[:, :whole]).view("<u4").astype(np.uint32)
    words *= _M
    words ^= words >> 24
    words *= _M
    rest = np.zeros(count, np.uint32)
    # Hadoop reads the rest backwards and sign-extends each byte, unlike the published MurmurHash2.
    for shift, column in enumerate(range(length - 1, whole - 1, -1)):
        rest ^= table[:, column].astype(np.int8).astype(np.int32).astype(np.uint32) << (8 * shift)
    places = np.empty((count, hash_count), np.int64)
    hashed = np.zeros(count, np.uint32)
    for turn in range(hash_count):
        hashed ^= np.uint32(length)
        for word in words.T:
            hashed *= _M
            hashed ^= word
        if length > whole:
            hashed ^= rest
            hashed *= _M
        hashed ^= hashed >> 13
        hashed *= _M
        hashed ^= hashed >> 15
        places[:, turn] = np.abs(hashed.view(np.int32).astype(np.int64)) % bits
    return places
