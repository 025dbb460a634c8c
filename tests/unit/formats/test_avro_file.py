from __future__ import annotations

import json
import zlib

import pytest

from tests.golden.timelines import files_ending
from tidelake.errors import Malformed
from tidelake.formats import avro_file

SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}


def container(schema: object, body: bytes, *, count: bytes = b"\x02", codec: str = "") -> bytes:
    """Lay out a container by hand; all lengths stay below 64, one byte each."""
    text = json.dumps(schema).encode()
    entries = [(b"avro.schema", text)] + ([(b"avro.codec", codec.encode())] if codec else [])
    head = b"".join(number(len(k)) + k + number(len(v)) + v for k, v in entries)
    sync = b"0123456789abcdef"
    return b"".join(
        (b"Obj\x01", number(len(entries)), head, b"\0", sync, count, number(len(body)), body, sync)
    )


def number(value: int) -> bytes:
    out = bytearray()
    rest = value << 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def test_a_record_comes_back_under_its_name() -> None:
    assert avro_file.decode(avro_file.encode(SCHEMA, {"a": "é"})) == ("R", {"a": "é"})


def test_equal_records_give_equal_files() -> None:
    assert avro_file.encode(SCHEMA, {"a": "x"}) == avro_file.encode(SCHEMA, {"a": "x"})
    assert avro_file.encode(SCHEMA, {"a": "x"}) != avro_file.encode(SCHEMA, {"a": "y"})


def test_a_deflated_block_is_read() -> None:
    deflate = zlib.compressobj(wbits=-15)
    body = deflate.compress(b"\x02x") + deflate.flush()
    assert avro_file.decode(container(SCHEMA, body, codec="deflate")) == ("R", {"a": "x"})


@pytest.mark.parametrize("suffix", [".commit", ".clean", ".clean.requested"])
def test_every_truncation_of_a_real_file_is_told(suffix: str) -> None:
    whole = files_ending("v9_cow_archived_lsm", suffix)[0]
    for length in range(0, len(whole), 7):
        with pytest.raises(Malformed):
            avro_file.decode(whole[:length])


HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"

BROKEN = [
    ("no container", b"{}"),
    ("no records", container(SCHEMA, b"\x02x", count=b"\0")),
    ("a negative count", container(SCHEMA, b"\x02x", count=b"\x01")),
    ("a string that claims more than is there", container(SCHEMA, HUGE + b"x")),
    ("bytes behind the record", container(SCHEMA, b"\x02x\x02y")),
    ("an endless number", b"Obj\x01" + b"\xff" * 40),
    ("an unknown codec", container(SCHEMA, b"\x02x", codec="zstandard")),
    ("a body that does not inflate", container(SCHEMA, b"\xff\xff", codec="deflate")),
    ("a schema that is no JSON", container(SCHEMA, b"\x02x").replace(b"{", b"[", 1)),
    ("a schema that is no record", container("string", b"\x02x")),
    (
        "an array of nothing with a huge count",
        container(
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}],
            },
            HUGE + b"\0",
        ),
    ),
    (
        "a record inside itself",
        container({"type": "record", "name": "R", "fields": [{"name": "a", "type": "R"}]}, b"\0"),
    ),
]


@pytest.mark.parametrize("data", [d for _, d in BROKEN], ids=[name for name, _ in BROKEN])
def test_damage_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        avro_file.decode(data)


def test_bytes_behind_the_last_block_are_told() -> None:
    with pytest.raises(Malformed):
        avro_file.decode(container(SCHEMA, b"\x02x") + b"more")


def test_a_bare_record_must_fill_its_bytes() -> None:
    assert avro_file.decode_bare(b"\x02x", SCHEMA) == {"a": "x"}
    with pytest.raises(Malformed, match="ends after 2 of 3"):
        avro_file.decode_bare(b"\x02xy", SCHEMA)
    with pytest.raises(Malformed):
        avro_file.decode_bare(b"\x04x", SCHEMA)


def test_length_prefixed_records_are_bounded_by_the_data() -> None:
    text = json.dumps(SCHEMA)
    assert avro_file.decode_many(b"\0\0\0\x02\x02x\0\0\0\x02\x02y", text) == [
        {"a": "x"},
        {"a": "y"},
    ]
    with pytest.raises(Malformed, match="claims 2130706432 bytes"):
        avro_file.decode_many(b"\x7f\0\0\0\x02x", text)
