"""The verb `log-file`: the blocks of one log file."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.cli import text
from tidelake.cli.call import Call
from tidelake.cli.output import Json
from tidelake.errors import Malformed, reading
from tidelake.formats import delete_block
from tidelake.formats.log_block import (
    BlockKind,
    HeaderKey,
    LogBlock,
    decode_blocks,
    split_avro_block,
)
from tidelake.model.byte_size import byte_size_text
from tidelake.storage import open_storage

_HEADERS = {int(key): key.name for key in HeaderKey}
_KINDS = {
    BlockKind.COMMAND: "takes back the blocks of another instant",
    BlockKind.DELETE: "keys that were deleted",
    BlockKind.CORRUPT: "cut short or damaged; readers pass over it",
    BlockKind.AVRO_DATA: "rows in Avro",
    BlockKind.HFILE_DATA: "rows in an HFile, sorted by key",
    BlockKind.PARQUET_DATA: "rows in Parquet",
    BlockKind.CDC_DATA: "changes, for change queries only",
}


def as_json(block: LogBlock) -> Json:
    """Return the facts about one block."""
    return {
        "offset": block.offset,
        "kind": block.kind.name,
        "content_bytes": len(block.content),
        "records": record_count(block),
        "headers": {_HEADERS.get(key, str(key)): value for key, value in block.headers.items()},
        "damage": block.damage,
    }


def render(path: str, blocks: Sequence[LogBlock]) -> list[str]:
    """Return one line a block, and what the kinds mean."""
    if not blocks:
        return [f"{path} holds no block."]
    rows = []
    for block in blocks:
        records = record_count(block)
        rows.append(
            (
                str(block.offset),
                block.kind.name,
                block.headers.get(HeaderKey.INSTANT_TIME, "-"),
                "-" if records is None else str(records),
                byte_size_text(len(block.content)),
                _notes(block),
            )
        )
    lines = text.columns(
        ["OFFSET", "BLOCK", "INSTANT", "RECORDS", "CONTENT", "NOTES"],
        rows,
        right=["OFFSET", "RECORDS", "CONTENT"],
    )
    kinds = [(k.name, _KINDS[k]) for k in BlockKind if any(b.kind is k for b in blocks)]
    return [*lines, "", *text.pairs(kinds)]


def record_count(block: LogBlock) -> int | None:
    """Return how many records or keys the block holds, or None where its envelope does not say."""
    try:
        if block.kind in (BlockKind.AVRO_DATA, BlockKind.CDC_DATA):
            return split_avro_block(block.content)[1]
        if block.kind is BlockKind.DELETE:
            return len(delete_block.decode(block.content).keys)
    except Malformed:
        return None
    return None


def _notes(block: LogBlock) -> str:
    if block.damage is not None:
        return block.damage
    notes = []
    if block.kind is BlockKind.COMMAND:
        notes.append(f"rolls back {block.target_instant_time}")
    if block.is_partial:
        notes.append("changed columns only")
    if block.record_positions:
        notes.append(f"positions in the base file of {block.base_instant_of_positions}")
    if block.compacted_block_times:
        notes.append(f"replaces the blocks of {', '.join(block.compacted_block_times)}")
    return "; ".join(notes)


def run(call: Call) -> bool:
    """Show the blocks of the file that the command names."""
    given, inside = call.table, call.args.path
    folder, path = (given, inside) if inside else given.rpartition("/")[::2]
    data = open_storage(folder or ("/" if given.startswith("/") else "."), call.options).read(path)
    with reading(path):
        blocks = decode_blocks(data)
    if call.out.as_json:
        call.out.records(as_json(block) for block in blocks)
    else:
        call.out.lines(render(path, blocks))
    return True
