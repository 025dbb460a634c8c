"""Row numbers of a base file as log blocks carry them: 64-bit Roaring bitmaps in base64."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from tidelake.errors import Malformed
from tidelake.formats._byte_reader import ByteReader

_WITHOUT_RUNS = 12346
_WITH_RUNS = 12347
_LARGEST_ARRAY = 4096
_FEWEST_FOR_OFFSETS = 4
_BITMAP_BYTES = 8192

Positions = npt.NDArray[np.uint64]


def decode(text: str, *, at_most: int) -> Positions:
    """Return the row numbers in ascending order: the i-th belongs to the i-th record of the block.

    `at_most` is the number of records in the block; more positions than that are malformed, so
    that a few damaged bytes cannot ask for gigabytes.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as cause:
        raise Malformed(f"record positions are not base64: {cause}") from cause
    reader = ByteReader(data, "the record positions")
    buckets = _little(reader, 8)
    if buckets * 8 > reader.left:
        raise Malformed(f"the record positions claim {buckets} buckets in {reader.left} bytes")
    found: list[Positions] = []
    budget = at_most
    for _ in range(buckets):
        high = _little(reader, 4) << 32
        low = _bitmap32(reader, budget)
        budget -= len(low)
        found.append(low + np.uint64(high))
    positions = np.concatenate(found) if found else np.empty(0, np.uint64)
    if len(positions) > 1 and not bool(np.all(positions[1:] > positions[:-1])):
        raise Malformed("the record positions are not in ascending order")
    return positions


def encode(positions: Iterable[int]) -> str:
    """Return the header text for a set of row numbers."""
    bitmap = BitMap64(positions)
    bitmap.run_optimize()
    return base64.b64encode(bitmap.serialize()).decode("ascii")


def _little(reader: ByteReader, size: int) -> int:
    return int.from_bytes(reader.take(size), "little")


def _bitmap32(reader: ByteReader, budget: int) -> Positions:
    cookie = _little(reader, 4)
    is_run = b""
    if cookie & 0xFFFF == _WITH_RUNS:
        containers = (cookie >> 16) + 1
        is_run = bytes(reader.take((containers + 7) // 8))
    elif cookie == _WITHOUT_RUNS:
        containers = _little(reader, 4)
    else:
        raise Malformed(f"the record positions are no Roaring bitmap (cookie {cookie})")
    heads = np.frombuffer(reader.take(containers * 4), "<u2").reshape(-1, 2)
    if not is_run or containers >= _FEWEST_FOR_OFFSETS:
        reader.take(containers * 4)  # offsets, which a reader in file order does not need
    total = int(heads[:, 1].astype(np.int64).sum()) + containers
    if total > budget:
        raise Malformed(f"{total} record positions for at most {budget} records")
    found: list[Positions] = []
    for index, (key, count_less_one) in enumerate(heads.tolist()):
        run = bool(is_run) and bool(is_run[index // 8] >> (index % 8) & 1)
        low = _container(reader, count_less_one + 1, run=run)
        found.append(low.astype(np.uint64) + np.uint64(key << 16))
    return np.concatenate(found) if found else np.empty(0, np.uint64)


def _container(reader: ByteReader, count: int, *, run: bool) -> npt.NDArray[np.int64]:
    if run:
        runs = np.frombuffer(reader.take(_little(reader, 2) * 4), "<u2").reshape(-1, 2)
        starts, more = runs.astype(np.int64).T
        if int(more.sum()) + len(runs) != count or bool(np.any(starts + more > 0xFFFF)):
            raise Malformed("the runs of the record positions do not add up")
        lengths = more + 1
        firsts = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        return firsts + np.arange(count)
    if count <= _LARGEST_ARRAY:
        return np.frombuffer(reader.take(count * 2), "<u2").astype(np.int64)
    bits = np.frombuffer(reader.take(_BITMAP_BYTES), np.uint8)
    low = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    if len(low) != count:
        raise Malformed(f"{len(low)} record positions where {count} were announced")
    return low
