"""Bloom filters: Hadoop's bytes, and membership."""

from __future__ import annotations

import base64
import struct

import pytest

from tidelake.errors import Malformed
from tidelake.formats.bloom_filter import BloomFilter, BloomKind

KEYS = ["a", "b", "日本"]
HADOOP = {
    BloomKind.SIMPLE: "/////wAAAAcBAAAAYKIQgERAcEhQBACAGA==",
    BloomKind.DYNAMIC_V0: ("/////wAAAAcBAAAAYAAAAAoAAAADAAAAAf////8AAAAHAQAAAGCiEIBEQHBIUAQAgBg="),
}


@pytest.mark.parametrize("kind", BloomKind)
def test_filter_is_built_as_hadoop_builds_it(kind: BloomKind) -> None:
    built = BloomFilter.build(KEYS, kind=kind, entries=10, false_positives=0.01)
    assert built.encode() == HADOOP[kind]


@pytest.mark.parametrize("kind", BloomKind)
def test_text_is_taken_apart_and_put_together_again(kind: BloomKind) -> None:
    decoded = BloomFilter.decode(HADOOP[kind], kind)
    assert (decoded.bits, decoded.hash_count) == (96, 7)
    assert decoded.encode() == HADOOP[kind]
    assert decoded.may_contain([*KEYS, "c", "zz", "key"]).tolist() == [True] * 3 + [False] * 3


def test_default_size_is_that_of_hudi() -> None:
    built = BloomFilter.build(["only"])
    assert (built.bits, built.hash_count, len(built.encode())) == (2_587_966, 30, 431_380)


def test_keys_of_every_length_and_sign_are_found() -> None:
    keys = [chr(0xE0 + n) * n + "x" * (n % 5) for n in range(1, 30)]
    assert BloomFilter.build(keys, entries=100).may_contain(keys).all()


@pytest.mark.parametrize(
    ("keys", "rows", "in_row"),
    [(0, 1, 0), (10, 1, 10), (11, 2, 1), (30, 3, 10), (31, 3, 11), (35, 3, 15)],
)
def test_dynamic_filter_grows_by_rows_until_the_cap(keys: int, rows: int, in_row: int) -> None:
    # The cap of 25 is passed by the third row of 10; from then on rows are filled in turn.
    names = [f"key-{n}" for n in range(keys)]
    built = BloomFilter.build(names, entries=10, false_positives=0.01, max_entries=25)
    assert (len(built.rows), built.keys_in_row) == (rows, in_row)
    assert built.may_contain(names).all()
    assert BloomFilter.decode(built.encode(), BloomKind.DYNAMIC_V0) == built


def test_keys_past_the_cap_go_round_from_the_first_row() -> None:
    def rows(count: int) -> tuple[bytes, ...]:
        names = [f"key-{n}" for n in range(count)]
        return BloomFilter.build(names, entries=2, false_positives=0.01, max_entries=4).rows

    changed = [
        [before != after for before, after in zip(rows(n), rows(n + 1), strict=True)]
        for n in range(4, 8)
    ]
    assert changed == [[True, False], [True, False], [False, True], [True, False]]


def damaged(at: int, value: int, kind: BloomKind = BloomKind.DYNAMIC_V0) -> str:
    data = bytearray(base64.b64decode(HADOOP[kind]))
    data[at : at + 4] = struct.pack(">i", value)
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no base64!",
        "AAAA",
        HADOOP[BloomKind.SIMPLE],
        damaged(0, 7),
        damaged(4, 2**30),
        damaged(4, 0),
        damaged(9, 2**31 - 1),
        damaged(9, 0),
        damaged(21, 0),
        damaged(21, 2**30),
        damaged(21, -1),
        base64.b64encode(base64.b64decode(HADOOP[BloomKind.DYNAMIC_V0]) + b"x").decode(),
    ],
)
def test_damaged_text_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        BloomFilter.decode(text, BloomKind.DYNAMIC_V0)
