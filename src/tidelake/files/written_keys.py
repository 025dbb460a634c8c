"""Which record keys two writes both brought, by the files that they wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelake.errors import reading
from tidelake.files.base_file import readable, source_of
from tidelake.files.log_records import raw_records
from tidelake.formats import delete_block
from tidelake.formats.bloom_filter import BloomFilter
from tidelake.formats.log_block import BlockKind, HeaderKey, LogBlock, decode_blocks
from tidelake.formats.parquet_footer import from_metadata
from tidelake.records.schema import COMMIT_TIME, RECORD_KEY
from tidelake.storage import Storage

_BASE = ".parquet"
_DATA = (BlockKind.AVRO_DATA, BlockKind.PARQUET_DATA, BlockKind.HFILE_DATA)


def shared_keys(
    storage: Storage, ours: Mapping[str, str], theirs: Mapping[str, str], *, limit: int = 5
) -> Sequence[str]:
    """Return some keys that both brought; each mapping is from files to the instants of interest.

    Bloom filters of our base files are asked first, so that of the keys in their files few are kept
    in memory at a time.
    """
    found: dict[str, None] = {}
    for path, instant in ours.items():
        bloom = _bloom(storage, path)
        for their_path, their_instant in theirs.items():
            for keys in _written(storage, their_path, their_instant):
                likely = keys if bloom is None else keys.filter(_may_hold(bloom, keys))
                if len(likely):
                    both = (
                        mine.filter(pc.is_in(mine, likely))
                        for mine in _written(storage, path, instant)
                    )
                    found.update((key, None) for some in both for key in some.to_pylist())
                if len(found) >= limit:
                    return sorted(found)[:limit]
    return sorted(found)


def _written(storage: Storage, path: str, instant_time: str) -> Iterator[pa.StringArray]:
    """Return the keys in a file that an instant wrote there, a batch or a block at a time."""
    if path.endswith(_BASE):
        with readable(path), pq.ParquetFile(source_of(storage, path)) as file:
            for batch in file.iter_batches(columns=[COMMIT_TIME, RECORD_KEY]):
                is_of = pc.equal(batch.column(COMMIT_TIME), instant_time)
                yield batch.column(RECORD_KEY).filter(is_of)
        return
    with reading(path):
        for block in decode_blocks(storage.read(path)):
            if block.headers.get(HeaderKey.INSTANT_TIME) == instant_time:
                yield _in_block(block)


def _in_block(block: LogBlock) -> pa.StringArray:
    if block.kind is BlockKind.DELETE:
        return pa.array(delete_block.decode(block.content).keys, pa.string())
    if block.kind not in _DATA:
        return pa.array([], pa.string())
    return raw_records(block, [RECORD_KEY]).column(RECORD_KEY).combine_chunks()


def _may_hold(bloom: BloomFilter, keys: pa.StringArray) -> pa.BooleanArray:
    return pa.array(bloom.may_contain(keys.to_pylist()))


def _bloom(storage: Storage, path: str) -> BloomFilter | None:
    if not path.endswith(_BASE):
        return None
    with readable(path), pq.ParquetFile(source_of(storage, path)) as file:
        return from_metadata(file.metadata).bloom_filter
