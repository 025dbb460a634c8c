"""The blocks of a log file: their envelope, which of them count, and in what order."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import BinaryIO

from tidelake.errors import Malformed
from tidelake.formats._byte_reader import ByteReader

MAGIC = b"#HUDI#"
FORMAT_VERSION = 1
CONTENT_VERSION = 3
_ROLLBACK_COMMAND = "0"
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
#: Version, kind, an empty header, content length, an empty footer and the total.
_SMALLEST_BLOCK = 4 + 4 + 4 + 8 + 4 + 8


#: A write adds a block or two to a log, and a log is full at some size: more of them say nothing,
#: and each takes more memory than it has bytes.
_MOST_BLOCKS = 100_000


class BlockKind(IntEnum):
    """What a block holds; the numbers are those on disk."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """The keys of a block header; the numbers are those on disk."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


_KINDS = {int(kind): kind for kind in BlockKind if kind is not BlockKind.CORRUPT}
_IN_A_SLICE = frozenset(
    {BlockKind.DELETE, BlockKind.AVRO_DATA, BlockKind.HFILE_DATA, BlockKind.PARQUET_DATA}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBlock:
    """One block of a log file.

    `offset` is the place of the block's magic in the file. `headers` keeps the keys of newer
    writers under their number. A CORRUPT block has no headers, its `content` is what lies between
    its magic and the next one, and `damage` says what is wrong.
    """

    kind: BlockKind
    headers: Mapping[int, str] = field(default_factory=dict)
    content: bytes | memoryview = b""
    offset: int = 0
    format_version: int = FORMAT_VERSION
    damage: str | None = None

    @property
    def instant_time(self) -> str:
        """Return the requested time of the instant that wrote the block."""
        found = self.headers.get(HeaderKey.INSTANT_TIME)
        if not found:
            raise Malformed(
                f"the {self.kind.name} block at offset {self.offset} has no INSTANT_TIME"
            )
        if not (found.isascii() and found.isdigit()):
            # Such a block would pass for one of a write that never completed.
            raise Malformed(f"the block at offset {self.offset} is of the instant {found!r}")
        return found

    @property
    def target_instant_time(self) -> str | None:
        """Return the instant that a rollback block takes back."""
        return self.headers.get(HeaderKey.TARGET_INSTANT_TIME)

    @property
    def schema(self) -> str | None:
        """Return the Avro schema, as JSON text, of the records in the block."""
        return self.headers.get(HeaderKey.SCHEMA)

    @property
    def compacted_block_times(self) -> tuple[str, ...]:
        """Return the instants whose blocks this one replaces, oldest first."""
        text = self.headers.get(HeaderKey.COMPACTED_BLOCK_TIMES, "")
        return tuple(part for part in text.split(",") if part)

    @property
    def record_positions(self) -> str | None:
        """Return the encoded row numbers of the block's records; see `record_positions.decode`."""
        return self.headers.get(HeaderKey.RECORD_POSITIONS)

    @property
    def base_instant_of_positions(self) -> str | None:
        """Return the instant of the base file that the record positions count rows of."""
        return self.headers.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS)

    @property
    def is_partial(self) -> bool:
        """Return whether the records hold only the columns that changed."""
        return self.headers.get(HeaderKey.IS_PARTIAL, "").lower() == "true"

    @property
    def is_rollback(self) -> bool:
        """Return whether the block takes back the blocks of `target_instant_time`."""
        if self.kind is not BlockKind.COMMAND:
            return False
        command = self.headers.get(HeaderKey.COMMAND_BLOCK_TYPE)
        if command != _ROLLBACK_COMMAND:
            raise Malformed(f"unknown command {command!r} in the block at offset {self.offset}")
        return True


def decode_blocks(data: bytes) -> list[LogBlock]:
    """Return every block of a log file, in file order.

    What a crash leaves behind is a CORRUPT block and no error: a block cut short, or one whose two
    lengths disagree, or one followed by something that is no block. Contents are views into `data`.
    """
    if len(data) >= len(MAGIC) and not data.startswith(MAGIC):
        raise Malformed("a log file starts with #HUDI#, but this one does not")
    blocks: list[LogBlock] = []
    at = 0
    while at + len(MAGIC) <= len(data):
        if len(blocks) == _MOST_BLOCKS:
            raise Malformed(f"a log file has more than {_MOST_BLOCKS} blocks before offset {at}")
        damage = _damage_at(data, at)
        if damage is None:
            block, at = _decode_block(data, at)
        else:
            block, at = _corrupt_block(data, at, damage)
        blocks.append(block)
    return blocks


def block_instants(file: BinaryIO) -> set[str]:
    """Return the instants that wrote to a log file, from the headers of its blocks alone.

    Those of blocks that readers drop, because garbage follows them, are among them.
    """
    found: set[str] = set()
    size = file.seek(0, io.SEEK_END)
    at = 0
    while at + len(MAGIC) <= size:
        file.seek(at)
        head = file.read(len(MAGIC) + 8 + 12)
        length = _INT64.unpack_from(head, len(MAGIC))[0] if len(head) == len(MAGIC) + 20 else 0
        end = at + len(MAGIC) + 8 + length
        if not head.startswith(MAGIC) or length < _SMALLEST_BLOCK or end > size:
            # Only a search for the next block gets past what a crash left.
            file.seek(at)
            rest = decode_blocks(MAGIC + file.read()[len(MAGIC) :])
            return found | {b.instant_time for b in rest if b.kind is not BlockKind.CORRUPT}
        headers = _INT32.unpack_from(head, len(head) - 4)[0]
        for _ in range(headers):
            entry = file.read(8)
            if len(entry) < 8:
                raise Malformed(f"the file ends inside the headers of the block at offset {at}")
            key, width = _INT32.unpack(entry[:4])[0], _INT32.unpack(entry[4:])[0]
            if width < 0 or file.tell() + width > end:
                raise Malformed(f"the log block at offset {at} has a header of {width} bytes")
            if key == HeaderKey.INSTANT_TIME:
                found.add(file.read(width).decode("utf-8", "replace"))
            else:
                file.seek(width, io.SEEK_CUR)
        at = end
    return found


def encode_rollback(*, instant_time: str, target_instant_time: str) -> bytes:
    """Return the block that takes back what `target_instant_time` wrote before it in a slice."""
    return encode_block(
        BlockKind.COMMAND,
        {
            HeaderKey.INSTANT_TIME: instant_time,
            HeaderKey.TARGET_INSTANT_TIME: target_instant_time,
            HeaderKey.COMMAND_BLOCK_TYPE: _ROLLBACK_COMMAND,
        },
    )


def _damage_at(data: bytes, at: int) -> str | None:
    start = at + len(MAGIC) + 8
    if start > len(data):
        return "the file ends inside the block's length"
    size = _INT64.unpack_from(data, start - 8)[0]
    if size < _SMALLEST_BLOCK:
        return f"the block's length is {size}, too small for any block"
    end = start + size
    if end > len(data):
        return f"the block's length is {size}, but {len(data) - start} bytes are left"
    total = _INT64.unpack_from(data, end - 8)[0]
    if total - len(MAGIC) != size:
        return f"the block's length is {size} in front and {total - len(MAGIC)} behind"
    # Hudi takes a rest too short for a magic for the end of the file.
    if len(data) - end >= len(MAGIC) and not data.startswith(MAGIC, end):
        return "no block and no end of file follows the block"
    return None


def _corrupt_block(data: bytes, at: int, damage: str) -> tuple[LogBlock, int]:
    start = at + len(MAGIC)
    following = data.find(MAGIC, start)
    end = len(data) if following < 0 else following
    content = memoryview(data)[start:end]
    return LogBlock(kind=BlockKind.CORRUPT, content=content, offset=at, damage=damage), end


def _decode_block(data: bytes, at: int) -> tuple[LogBlock, int]:
    start = at + len(MAGIC) + 8
    end = start + int(_INT64.unpack_from(data, start - 8)[0])
    reader = ByteReader(data, f"the log block at offset {at}", at=start, end=end - 8)
    version = reader.int32()
    if version != FORMAT_VERSION:
        raise Malformed(f"log format version {version} at offset {at} is unknown; it should be 1")
    kind = _KINDS.get(ordinal := reader.int32())
    if kind is None:
        raise Malformed(f"block type {ordinal} at offset {at} is unknown")
    headers = _decode_map(reader)
    content = reader.take(reader.int64())
    _decode_map(reader)
    if reader.left:
        raise Malformed(f"{reader.what} has {reader.left} bytes after its footer")
    return LogBlock(kind=kind, headers=headers, content=content, offset=at), end


def _decode_map(reader: ByteReader) -> Mapping[int, str]:
    count = reader.int32()
    if count < 0 or count * 8 > reader.left:
        raise Malformed(f"{reader.what} claims {count} header entries")
    found = {}
    for _ in range(count):
        key = reader.int32()
        found[key] = reader.text(reader.int32())
    return found


def encode_block(
    kind: BlockKind,
    headers: Mapping[int, str],
    content: bytes | memoryview = b"",
    *,
    is_archive: bool = False,
) -> bytes:
    """Return the bytes of one block, ready to stand alone or after another in a log file.

    Blocks of an archive are of many instants and name none.
    """
    if kind is BlockKind.CORRUPT:
        raise ValueError("a corrupt block is only ever found, never written")
    if not is_archive and not headers.get(HeaderKey.INSTANT_TIME):
        raise ValueError(f"a {kind.name} block needs the header INSTANT_TIME")
    parts: list[bytes | memoryview] = [
        _INT32.pack(FORMAT_VERSION),
        _INT32.pack(kind),
        _INT32.pack(len(headers)),
    ]
    for key in sorted(headers):
        value = headers[key].encode()
        parts += [_INT32.pack(key), _INT32.pack(len(value)), value]
    parts += [_INT64.pack(len(content)), content, _INT32.pack(0)]
    size = sum(map(len, parts)) + 8
    return b"".join([MAGIC, _INT64.pack(size), *parts, _INT64.pack(size + len(MAGIC))])


def split_avro_block(content: bytes | memoryview) -> tuple[int, int, memoryview]:
    """Return content version, record count and length-prefixed records of an Avro or CDC block."""
    reader = ByteReader(content, "the Avro block")
    version = reader.int32()
    if not 1 <= version <= CONTENT_VERSION:
        raise Malformed(f"version {version} of an Avro block is unknown; it should be 1 to 3")
    count = reader.int32()
    if count < 0 or count * 4 > reader.left:
        raise Malformed(f"the Avro block claims {count} records in {reader.left} bytes")
    return version, count, reader.take(reader.left)


def join_avro_blocks(blocks: Sequence[LogBlock]) -> LogBlock:
    """Return one Avro block with the records of several, which have the headers of the first."""
    parts = [split_avro_block(block.content) for block in blocks]
    head = (CONTENT_VERSION, sum(count for _, count, _ in parts))
    content = b"".join((*map(_INT32.pack, head), *(body for _, _, body in parts)))
    return replace(blocks[0], content=content)


def avro_records(content: bytes | memoryview) -> Iterator[memoryview]:
    """Return the encoded records of an Avro or CDC block; the inverse of `join_avro_block`."""
    _, count, body = split_avro_block(content)
    reader = ByteReader(body, "the Avro block")
    for _ in range(count):
        yield reader.take(reader.int32())
    if reader.left:
        raise Malformed(f"the Avro block has {reader.left} bytes after its {count} records")


def join_avro_block(records: Iterable[bytes]) -> bytes:
    """Return the content of an Avro or CDC block that holds the encoded `records`."""
    parts = []
    for record in records:
        parts += [_INT32.pack(len(record)), record]
    return avro_block(len(parts) // 2, parts)


def avro_block(count: int, parts: Sequence[bytes]) -> bytes:
    """Return the content of an Avro block of `count` records that are length-prefixed already."""
    return b"".join([_INT32.pack(CONTENT_VERSION), _INT32.pack(count), *parts])


def valid_blocks(
    blocks: Iterable[LogBlock],
    *,
    latest_instant: str | None = None,
    is_visible: Callable[[str], bool] | None = None,
    in_range: Callable[[str], bool] | None = None,
) -> list[LogBlock]:
    """Return the data and delete blocks that a reader of the slice applies, oldest first.

    `blocks` are those of all log files of one slice in merge order. Blocks later than
    `latest_instant`, not `is_visible`, or not `in_range` are left out; a rollback block takes back
    what its target wrote before it; a block of a log compaction stands at the place of the newest
    block that it replaces, because blocks written in between must still win.
    """
    by_instant: dict[str, list[LogBlock]] = {}
    for block in blocks:
        if block.is_rollback:
            by_instant.pop(block.target_instant_time or "", None)
        elif block.kind in _IN_A_SLICE:
            instant = block.instant_time
            if (
                (latest_instant is None or instant <= latest_instant)
                and (is_visible is None or is_visible(instant))
                and (in_range is None or in_range(instant))
            ):
                by_instant.setdefault(instant, []).append(block)
    return _resolve_log_compactions(by_instant)


def _resolve_log_compactions(by_instant: dict[str, list[LogBlock]]) -> list[LogBlock]:
    replaced_by: dict[str, str] = {}
    newest_first: dict[str, None] = {}
    for instant in reversed(by_instant):
        replaced = by_instant[instant][0].compacted_block_times
        final = replaced_by.get(instant, instant)
        if replaced:
            replaced_by.update(dict.fromkeys(replaced, final))
        else:
            newest_first.setdefault(final)
    return [block for instant in reversed(newest_first) for block in by_instant[instant]]
