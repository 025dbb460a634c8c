"""Footers of base files, read without their rows."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from tidelake.errors import Malformed, reading
from tidelake.formats import parquet_footer
from tidelake.formats.parquet_footer import ParquetFooter
from tidelake.storage import Storage

# Footers without a bloom filter fit mostly, so those files take one request.
_FIRST_READ_BYTES = 64 << 10
_READERS = 16


def read_footer(storage: Storage, path: str, size_bytes: int) -> ParquetFooter:
    """Return the footer of one base file, or raise `CorruptFileError` or `MissingFileError`."""
    with reading(path):
        if not path.endswith(".parquet"):
            raise Malformed("only Parquet files have a Parquet footer")
        start = max(0, size_bytes - _FIRST_READ_BYTES)
        tail = storage.read_range(path, start, size_bytes - start)
        wanted = parquet_footer.footer_bytes(tail)
        if len(tail) < wanted <= size_bytes:
            tail = storage.read_range(path, size_bytes - wanted, wanted)
        return parquet_footer.decode(tail)


def check_tails(storage: Storage, sizes: Mapping[str, int]) -> None:
    """Raise `CorruptFileError` or `MissingFileError` for a base file that is cut short or gone.

    Only the last bytes of each file are read, which is where a Parquet file says how long it is.
    """
    with ThreadPoolExecutor(_READERS) as pool:
        for _ in pool.map(lambda path: _check_tail(storage, path, sizes[path]), sizes):
            pass


def _check_tail(storage: Storage, path: str, size_bytes: int) -> None:
    with reading(path):
        start = max(0, size_bytes - parquet_footer.TAIL_BYTES)
        tail = storage.read_range(path, start, size_bytes - start)
        if parquet_footer.footer_bytes(tail) > size_bytes:
            raise Malformed(f"its footer is longer than the {size_bytes} bytes of the file")


def read_footers(storage: Storage, sizes: Mapping[str, int]) -> dict[str, ParquetFooter]:
    """Return the footers of many base files by path, given the size of each."""
    if len(sizes) <= 1:
        return {path: read_footer(storage, path, size) for path, size in sizes.items()}
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(lambda path: read_footer(storage, path, sizes[path]), sizes)
        return dict(zip(sizes, found, strict=True))
