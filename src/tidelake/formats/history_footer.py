"""What the end of a history file tells of all its instants, so that the rest need not be read.

The Parquet footer has the range of each column. Before it, where Parquet keeps what few readers
know, stand the sorted hashes of all write ids in the file, and the footer says how many: a look-up
reads a few thousand bytes, however many commits the file holds.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.errors import Malformed

#: The least and the greatest value of a column.
Span = tuple[str, str]

#: Key of the footer under which stands how many hashes there are.
WRITE_IDS = "tidelake.write.id.hashes"
_HASH = np.dtype(">u4")
_HASH_BYTES = _HASH.itemsize
_HASHES_A_READ = 1024
_TRAILER_BYTES = 8  # the length of the footer, and the magic word


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFooter:
    """The ranges of a history file; None means that the footer does not say."""

    requested: Span | None
    completed: Span | None
    actions: Span | None


def decode(source: BinaryIO) -> HistoryFooter:
    """Return what the footer of a history file says, and read nothing else."""
    try:
        footer = pq.ParquetFile(source).metadata
        return HistoryFooter(
            requested=_span(footer, "instantTime"),
            completed=_span(footer, "completionTime"),
            actions=_span(footer, "action"),
        )
    except (pa.ArrowException, OSError, ValueError, MemoryError) as cause:
        raise Malformed(f"this is no sound Parquet file: {cause}") from cause


def _span(footer: Any, column: str) -> Span | None:
    """Return the range of a column over all row groups, None when a bound is missing."""
    at = footer.schema.names.index(column)
    found = [footer.row_group(n).column(at).statistics for n in range(footer.num_row_groups)]
    bounds = [(s.min, s.max) for s in found if s is not None and s.has_min_max]
    texts = [text for bound in bounds for text in bound]
    if len(bounds) < len(found) or not all(isinstance(text, str) for text in texts):
        return None
    return (min(texts), max(texts)) if texts else None


def may_hold(span: Span | None, first: str, last: str) -> bool:
    """Return whether a value from `first` to `last` may be in a column of this range."""
    return span is None or (span[0] <= last and first <= span[1])


def sorted_hashes(write_ids: Iterable[str]) -> bytes:
    """Return what `with_hashes` puts before the footer."""
    return b"".join(sorted({_hash(write_id) for write_id in write_ids}))


def hash_count(hashes: bytes) -> str:
    """Return what the footer says of hashes, under `WRITE_IDS`."""
    return str(len(hashes) // _HASH_BYTES)


def with_hashes(file: bytes, hashes: bytes) -> bytes:
    """Return a Parquet file with the hashes between its data and its footer.

    All positions in a footer count from the start of the file, so they stay as they are.
    """
    at = len(file) - _TRAILER_BYTES - _footer_length(file[-_TRAILER_BYTES:])
    return file[:at] + hashes + file[at:]


def may_hold_write_id(source: BinaryIO, write_id: str) -> bool:
    """Return whether a commit in a history file may have been made under this write id."""
    count = _hashes_before_footer(source)
    if count is None:
        return True
    end = source.seek(0, io.SEEK_END) - _TRAILER_BYTES
    start = end - _footer_length(_read(source, end, _TRAILER_BYTES)) - count * _HASH_BYTES
    if count < 0 or start < 0:
        raise Malformed(f"a history file cannot have {count} write ids")
    wanted = int.from_bytes(_hash(write_id), "big")
    low, high = 0, count
    # Hashes are spread evenly, so that the first guess is nearly always right.
    guess = count * wanted >> (8 * _HASH_BYTES)
    while low < high:
        first = max(low, guess - _HASHES_A_READ // 2)
        last = min(high, first + _HASHES_A_READ)
        data = _read(source, start + first * _HASH_BYTES, (last - first) * _HASH_BYTES)
        found = np.frombuffer(data, _HASH)
        if (found == wanted).any() or not (found[:-1] < found[1:]).all():
            return True  # what is not in order is damaged and rules nothing out
        if wanted < found[0]:
            high = first
        elif wanted > found[-1]:
            low = last
        else:
            return False
        guess = (low + high) // 2
    return False


def _hashes_before_footer(source: BinaryIO) -> int | None:
    """Return how many hashes a file has, None when it does not say, as those of Apache Hudi."""
    try:
        told = (pq.ParquetFile(source).metadata.metadata or {}).get(WRITE_IDS.encode())
        return None if told is None else int(told)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as cause:
        raise Malformed(f"this is no sound Parquet file: {cause}") from cause


def _read(source: BinaryIO, at: int, size: int) -> bytes:
    source.seek(at)
    data = source.read(size)
    if len(data) < size:
        raise Malformed("a history file is shorter than its footer says")
    return data


def _footer_length(trailer: bytes) -> int:
    return int.from_bytes(trailer[:4], "little")


def _hash(write_id: str) -> bytes:
    return hashlib.blake2b(write_id.encode(), digest_size=_HASH_BYTES).digest()
