"""Java's hash codes for whole columns of text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.formats.java_hash import java_string_hash

Hashes = npt.NDArray[np.uint32]

#: Texts are hashed in blocks of about this many bytes, which stay in the processor's cache.
_BLOCK_BYTES = 1 << 18


def string_hashes(texts: pa.ChunkedArray) -> Hashes:
    """Return `String.hashCode` of each text as an unsigned number; 0 for null."""
    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    count = len(array)
    if not count:
        return np.zeros(0, np.uint32)
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, count + 1, array.offset * 4)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    lengths = np.diff(offsets)
    if array.null_count:
        lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    if len(data) and data[offsets[0] : offsets[-1]].max(initial=0) > 127:
        return np.array(
            [0 if t is None else java_string_hash(t) & 0xFFFFFFFF for t in array.to_pylist()],
            np.uint32,
        )
    found = np.zeros(count, np.uint32)
    widest = int(lengths.max())
    step = max(1, _BLOCK_BYTES // max(1, widest))
    for start in range(0, count, step):
        own = lengths[start : start + step]
        begin = offsets[start : start + len(own)]
        found[start : start + len(own)] = _ascii_hashes(data, begin, own)
    return found


def _ascii_hashes(
    data: npt.NDArray[np.uint8], begin: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32]
) -> Hashes:
    hashes = np.zeros(len(lengths), np.uint32)
    for at in range(int(lengths.max(initial=0))):
        inside = lengths > at
        if inside.all():
            hashes = hashes * np.uint32(31) + data[begin + at]
        else:
            rows = np.flatnonzero(inside)
            hashes[rows] = hashes[rows] * np.uint32(31) + data[begin[rows] + at]
    return hashes


def buckets(parts: Sequence[pa.ChunkedArray], count: int) -> npt.NDArray[np.int64]:
    """Return the bucket of each key, given the texts that the simple bucket index hashes."""
    made = np.ones(len(parts[0]), np.uint32)
    for part in parts:
        made = made * np.uint32(31) + string_hashes(part)
    found: npt.NDArray[np.int64] = (made & np.uint32(0x7FFFFFFF)).astype(np.int64) % count
    return found
