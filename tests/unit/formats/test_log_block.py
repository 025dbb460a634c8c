"""Log blocks: the envelope, damage that a crash leaves, and which blocks count."""

from __future__ import annotations

import contextlib
import io
import struct
import zipfile
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden.harness import TABLES
from tidelake.errors import Malformed
from tidelake.formats.log_block import (
    MAGIC,
    BlockKind,
    HeaderKey,
    LogBlock,
    avro_records,
    block_instants,
    decode_blocks,
    encode_block,
    encode_rollback,
    join_avro_block,
    split_avro_block,
    valid_blocks,
)

T1, T2, T3, T4, T5, T6 = (f"2026030110000000{n}" for n in range(1, 7))

DELETE_BLOCK = bytes.fromhex(
    "234855444923000000000000004e0000000100000001"
    "0000000100000000000000113230323430313031303030303030303030"
    "0000000000000015000000030000000d0202046b310206703d31040000"
    "000000000000000000000054"
)
ROLLBACK_BLOCK = bytes.fromhex(
    "234855444923000000000000005b0000000100000000"
    "0000000300000000000000113230323430313031303030303030303032"
    "00000001000000113230323430313031303030303030303031"
    "000000030000000130"
    "0000000000000000000000000000000000000061"
)


def avro(instant: str, content: bytes = b"rows", **more: str) -> bytes:
    return encode_block(BlockKind.AVRO_DATA, headers(instant, **more), content)


def headers(instant: str, **more: str) -> Mapping[int, str]:
    named: dict[int, str] = {HeaderKey[key]: value for key, value in more.items()}
    return {HeaderKey.INSTANT_TIME: instant, **named}


def shape(data: bytes) -> list[tuple[BlockKind, int]]:
    return [(block.kind, block.offset) for block in decode_blocks(data)]


def test_delete_block_is_taken_apart_and_put_together_again() -> None:
    (block,) = decode_blocks(DELETE_BLOCK)
    assert (block.kind, block.instant_time) == (BlockKind.DELETE, "20240101000000000")
    assert bytes(block.content).hex() == "000000030000000d0202046b310206703d31040000"
    assert encode_block(block.kind, block.headers, block.content) == DELETE_BLOCK


def test_rollback_block_is_taken_apart_and_put_together_again() -> None:
    (block,) = decode_blocks(ROLLBACK_BLOCK)
    assert block.is_rollback
    assert block.target_instant_time == "20240101000000001"
    assert encode_block(block.kind, block.headers) == ROLLBACK_BLOCK


def test_every_header_is_kept_and_unknown_ones_are_tolerated() -> None:
    known = headers(
        T3,
        SCHEMA='"int"',
        COMPACTED_BLOCK_TIMES=f"{T1},{T2}",
        RECORD_POSITIONS="AQ==",
        IS_PARTIAL="true",
        BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS=T1,
    )
    (block,) = decode_blocks(encode_block(BlockKind.AVRO_DATA, {**known, 77: "later"}, b"x"))
    assert block.schema == '"int"'
    assert block.compacted_block_times == (T1, T2)
    assert (block.record_positions, block.base_instant_of_positions) == ("AQ==", T1)
    assert block.is_partial
    assert block.headers[77] == "later"


def test_empty_file_has_no_blocks() -> None:
    assert decode_blocks(b"") == []


def test_blocks_follow_each_other() -> None:
    first = avro(T1)
    assert shape(first + DELETE_BLOCK) == [
        (BlockKind.AVRO_DATA, 0),
        (BlockKind.DELETE, len(first)),
    ]


@pytest.mark.parametrize("kept", [7, 13, 14, 20, 60])
def test_block_cut_short_is_corrupt_and_the_blocks_before_it_stay(kept: int) -> None:
    first = avro(T1)
    blocks = decode_blocks(first + avro(T2)[:kept])
    assert [block.kind for block in blocks] == [BlockKind.AVRO_DATA, BlockKind.CORRUPT]
    assert blocks[1].damage


def test_a_rest_too_short_for_a_magic_is_the_end_of_the_file() -> None:
    assert shape(avro(T1) + b"#HUD") == [(BlockKind.AVRO_DATA, 0)]


def test_garbage_behind_a_block_takes_the_block_with_it() -> None:
    # Hudi cannot tell a torn overwrite from a sound block there, and drops it.
    assert shape(avro(T1) + b"\x00garbage after the last block") == [(BlockKind.CORRUPT, 0)]


def test_reading_goes_on_at_the_magic_behind_a_torn_block() -> None:
    torn = avro(T1)[:40]
    assert shape(torn + avro(T2)) == [(BlockKind.CORRUPT, 0), (BlockKind.AVRO_DATA, 40)]


def test_lengths_that_disagree_make_a_corrupt_block() -> None:
    lying = bytearray(avro(T1))
    lying[-1] ^= 1
    blocks = decode_blocks(bytes(lying) + avro(T2))
    assert [block.kind for block in blocks] == [BlockKind.CORRUPT, BlockKind.AVRO_DATA]
    assert "in front" in (blocks[0].damage or "")


@pytest.mark.parametrize("size", [-1, 0, 31, 2**40, 2**62, -(2**63)])
def test_absurd_block_length_is_corrupt(size: int) -> None:
    lying = MAGIC + struct.pack(">q", size) + avro(T1)[14:]
    assert shape(lying) == [(BlockKind.CORRUPT, 0)]


def test_magic_inside_a_sound_block_is_content() -> None:
    (block,) = decode_blocks(avro(T1, b"a" + MAGIC + b"b"))
    assert bytes(block.content) == b"a" + MAGIC + b"b"


@pytest.mark.parametrize(
    ("at", "value", "cause"),
    [
        (14, 0, "log format version 0"),
        (14, 2, "log format version 2"),
        (18, 9, "block type 9"),
        (18, 2, "block type 2"),
        (22, -1, "claims -1 header entries"),
        (22, 2**30, "header entries"),
        (30, 2**30, "wants 1073741824 bytes"),
        (34, -1, "no UTF-8"),
        (51, 1, "wants 4294967300 bytes"),
    ],
)
def test_lies_inside_a_sound_envelope_are_malformed(at: int, value: int, cause: str) -> None:
    lying = bytearray(avro(T1))
    lying[at : at + 4] = struct.pack(">i", value)
    with pytest.raises(Malformed, match=cause):
        decode_blocks(bytes(lying))


def test_file_that_is_no_log_is_malformed() -> None:
    with pytest.raises(Malformed, match="#HUDI#"):
        decode_blocks(b"PAR1 is another format")


def test_avro_content_is_split_and_joined() -> None:
    content = bytes.fromhex("000000030000000100000002020a")
    version, count, body = split_avro_block(content)
    assert (version, count, bytes(body).hex()) == (3, 1, "00000002020a")
    assert join_avro_block([b"\x02\x0a"]) == content
    assert list(map(bytes, avro_records(content))) == [b"\x02\x0a"]


@pytest.mark.parametrize(
    "content", ["000000030000000100000003020a", "000000030000000100000001020a"]
)
def test_avro_records_that_do_not_fill_the_block_are_malformed(content: str) -> None:
    with pytest.raises(Malformed):
        list(avro_records(bytes.fromhex(content)))


@pytest.mark.parametrize(
    "content", ["", "00000003", "0000000400000000", "00000003ffffffff", "0000000300000002"]
)
def test_avro_content_that_lies_is_malformed(content: str) -> None:
    with pytest.raises(Malformed):
        split_avro_block(bytes.fromhex(content))


@pytest.mark.parametrize("kind", [BlockKind.CORRUPT, BlockKind.AVRO_DATA])
def test_encoding_refuses_what_no_reader_accepts(kind: BlockKind) -> None:
    with pytest.raises(ValueError, match=r"corrupt|INSTANT_TIME"):
        encode_block(kind, {})


def data(
    instant: str, *, replaces: tuple[str, ...] = (), kind: BlockKind = BlockKind.AVRO_DATA
) -> LogBlock:
    more = {"COMPACTED_BLOCK_TIMES": ",".join(replaces)} if replaces else {}
    return LogBlock(kind=kind, headers=headers(instant, **more))


def undo(target: str, at: str = T6) -> LogBlock:
    more = {"TARGET_INSTANT_TIME": target, "COMMAND_BLOCK_TYPE": "0"}
    return LogBlock(kind=BlockKind.COMMAND, headers=headers(at, **more))


TORN = LogBlock(kind=BlockKind.CORRUPT, damage="cut short")
CHANGES = LogBlock(kind=BlockKind.CDC_DATA, headers=headers(T1))

#: What lies in the log files of a slice, and the instants whose blocks count, oldest first.
TABLE: dict[str, tuple[list[LogBlock], list[str]]] = {
    "nothing": ([], []),
    "order of the files, not of time": ([data(T2), data(T1)], [T2, T1]),
    "corrupt blocks are skipped": ([data(T1), TORN, data(T2)], [T1, T2]),
    "change logs are no part": ([CHANGES, data(T2)], [T2]),
    "two blocks of an instant": ([data(T1), data(T1)], [T1, T1]),
    "rolled back": ([data(T1), data(T2), undo(T2)], [T1]),
    "rolled back, then written again": ([data(T2), undo(T2), data(T1), data(T2)], [T1, T2]),
    "rollback of nothing": ([data(T1), undo(T3)], [T1]),
    "log compaction": ([data(T1), data(T2), data(T3, replaces=(T1, T2))], [T3]),
    "log compaction overtaken": ([data(T1), data(T3), data(T4, replaces=(T1,))], [T4, T3]),
    "log compaction stands where its newest input stood": (
        [data(T1), data(T2), data(T3), data(T4, replaces=(T1, T3))],
        [T2, T4],
    ),
    "log compaction of a log compaction": (
        [data(T1), data(T2, replaces=(T1,)), data(T3), data(T4, replaces=(T2, T3))],
        [T4],
    ),
    "log compaction rolled back": ([data(T1), data(T2, replaces=(T1,)), undo(T2)], [T1]),
    "log compaction without its inputs": ([data(T2, replaces=(T1,)), data(T3)], [T3]),
}


@pytest.mark.parametrize("story", TABLE)
def test_which_blocks_count(story: str) -> None:
    blocks, counts = TABLE[story]
    assert [block.instant_time for block in valid_blocks(blocks)] == counts


def test_blocks_of_one_instant_keep_their_order() -> None:
    found = valid_blocks([data(T1), data(T1, kind=BlockKind.DELETE), data(T2)])
    assert [block.kind for block in found] == [
        BlockKind.AVRO_DATA, BlockKind.DELETE, BlockKind.AVRO_DATA,
    ]  # fmt: skip


def test_later_invisible_and_out_of_range_blocks_are_skipped_one_by_one() -> None:
    blocks = [data(T1), data(T5), data(T2), data(T3), data(T4)]
    found = valid_blocks(
        blocks, latest_instant=T4, is_visible=lambda t: t != T3, in_range=lambda t: t > T1
    )
    assert [block.instant_time for block in found] == [T2, T4]


def test_a_rollback_outside_the_window_still_counts() -> None:
    found = valid_blocks([data(T1), undo(T1, at=T6)], latest_instant=T2, in_range=lambda t: t == T1)
    assert found == []


def test_log_compaction_out_of_the_window_leaves_its_inputs() -> None:
    blocks = [data(T1), data(T2), data(T3, replaces=(T1, T2))]
    assert [b.instant_time for b in valid_blocks(blocks, latest_instant=T2)] == [T1, T2]


def test_unknown_command_is_malformed() -> None:
    command = LogBlock(kind=BlockKind.COMMAND, headers=headers(T1, COMMAND_BLOCK_TYPE="1"))
    with pytest.raises(Malformed, match="unknown command '1'"):
        valid_blocks([command])


def test_block_without_an_instant_is_malformed() -> None:
    with pytest.raises(Malformed, match="INSTANT_TIME"):
        valid_blocks([LogBlock(kind=BlockKind.AVRO_DATA)])


def test_block_of_an_instant_that_is_no_time_is_malformed() -> None:
    damaged = encode_block(BlockKind.DELETE, {HeaderKey.INSTANT_TIME: "202&1115081741159"})
    with pytest.raises(Malformed, match="is of the instant '202&1115081741159'"):
        valid_blocks(decode_blocks(damaged))


@pytest.mark.parametrize("table", ["v6_mor_rollback_direct", "v9_mor_log_garbage_tail"])
def test_the_instants_of_a_log_are_those_of_its_blocks(table: str) -> None:
    with zipfile.ZipFile(TABLES / f"{table}.zip") as archive:
        logs = [
            archive.read(n) for n in archive.namelist() if ".log." in n and "metadata/" not in n
        ]
    assert logs
    for data in logs:
        found = {b.instant_time for b in decode_blocks(data) if b.kind is not BlockKind.CORRUPT}
        assert block_instants(io.BytesIO(data)) >= found
        cut = data[:-5]
        whole = {b.instant_time for b in decode_blocks(cut) if b.kind is not BlockKind.CORRUPT}
        assert block_instants(io.BytesIO(cut)) >= whole


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_damaged_logs_give_instants_or_an_error(tail: bytes, at: int, value: int) -> None:
    block = encode_rollback(instant_time="20260101000000000", target_instant_time="1")
    data = bytearray(block + block + tail)
    data[at % len(data)] = value
    with contextlib.suppress(Malformed):
        assert all(isinstance(found, str) for found in block_instants(io.BytesIO(data)))
