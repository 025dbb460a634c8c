"""Log files of the metadata table: a block of values, and one of keys that go."""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.formats import delete_block
from tidelake.formats.delete_block import DeleteRecords, OrderingKind
from tidelake.formats.hfile_writer import encode_hfile
from tidelake.formats.log_block import BlockKind, HeaderKey, encode_block


def encode_log(
    values: Mapping[bytes, bytes | None], schema: str, instant_time: str, partition: str
) -> bytes:
    """Return a log file with these values by key, None for a key that goes.

    `schema` is that of the values, `partition` the one of the metadata table.
    """
    blocks = []
    kept = sorted((key, value) for key, value in values.items() if value is not None)
    if kept:
        headers: dict[int, str] = {HeaderKey.INSTANT_TIME: instant_time, HeaderKey.SCHEMA: schema}
        blocks.append(encode_block(BlockKind.HFILE_DATA, headers, encode_hfile(kept, schema)))
    gone = [key.decode() for key, value in values.items() if value is None]
    if gone:
        deletes = DeleteRecords(
            keys=gone,
            partitions=[partition] * len(gone),
            ordering=[0] * len(gone),
            kinds=[OrderingKind.INT] * len(gone),
        )
        headers = {HeaderKey.INSTANT_TIME: instant_time}
        blocks.append(encode_block(BlockKind.DELETE, headers, delete_block.encode(deletes)))
    return b"".join(blocks)
