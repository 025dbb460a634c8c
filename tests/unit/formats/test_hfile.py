"""HFiles that HBase and Hudi wrote: scan, look up, and damage."""

from __future__ import annotations

import gzip
import struct
import zipfile
from functools import cache
from pathlib import Path
from random import Random  # noqa: TID251 - every use is seeded

import pytest

from tests.golden import harness
from tidelake.errors import Malformed
from tidelake.formats.hfile import HFile

#: Written by HBase for the tests of hudi-rs (Apache-2.0), with values that follow from the keys.
ARCHIVE = Path(harness.__file__).parent / "hfiles.zip"
FILES = {
    "gzip_three_levels": 10_000,
    "gzip_fake_first_keys": 20_000,
    "gzip_repeated_keys": 4_200,
    "plain": 5_000,
    "gzip_empty": 0,
}


@cache
def hfile_bytes(name: str) -> bytes:
    with zipfile.ZipFile(ARCHIVE) as archive:
        return archive.read(f"{name}.hfile")


@cache
def native_bytes() -> bytes:
    """Return an HFile of Hudi's own writer, whose index keys lack HBase's suffix."""
    with zipfile.ZipFile(harness.TABLES / "v9_cow_full_mdt_default.zip") as archive:
        name = max(n for n in archive.namelist() if "/files/" in n and n.endswith(".hfile"))
        return archive.read(name)


@pytest.mark.parametrize(("name", "entries"), FILES.items())
def test_scan_gives_every_entry_in_key_order(name: str, entries: int) -> None:
    file = HFile.of_bytes(hfile_bytes(name))
    found = list(file.scan())
    keys = [key for key, _ in found]
    assert (len(found), file.entry_count) == (entries, entries)
    assert keys == sorted(keys)
    assert all(value.startswith(b"hudi-value-") for _, value in found)


@pytest.mark.parametrize("name", FILES)
def test_lookup_finds_what_is_there_and_nothing_else(name: str) -> None:
    file = HFile.of_bytes(hfile_bytes(name))
    entries = dict(reversed(list(file.scan())))
    present = Random(1).sample(sorted(entries), min(60, len(entries)))
    absent = [b"", b"a", b"zzz", *(key + b"0" for key in present), *(key[:-1] for key in present)]
    assert file.lookup([*absent, *present]) == {key: entries[key] for key in present}


@pytest.mark.parametrize("name", [name for name in FILES if name != "gzip_empty"])
def test_prefix_lookup_equals_a_filtered_scan(name: str) -> None:
    file = HFile.of_bytes(hfile_bytes(name))
    entries = list(file.scan())
    chance = Random(2)
    for _ in range(12):
        key = chance.choice(entries)[0]
        prefixes = (key[: chance.randint(len(key) - 4, len(key))], b"nothing-like-this")
        wanted = [entry for entry in entries if entry[0].startswith(prefixes)]
        assert list(file.lookup_prefixes(prefixes)) == wanted
    assert list(file.lookup_prefixes([b""])) == entries


def test_lookup_reads_a_few_blocks_only() -> None:
    data = hfile_bytes("plain")
    asked: list[int] = []

    def read(offset: int, length: int) -> bytes:
        asked.append(length)
        return data[offset : offset + length]

    file = HFile(len(data), read)
    assert file.lookup([b"hudi-key-000002500"]) == {b"hudi-key-000002500": b"hudi-value-000002500"}
    assert sum(asked) < len(data) / 8


def test_file_of_hudis_own_writer_is_read() -> None:
    file = HFile.of_bytes(native_bytes())
    keys = [key.decode() for key, _ in file.scan()]
    assert "__all_partitions__" in keys
    assert set(file.lookup([b"__all_partitions__"])) == {b"__all_partitions__"}
    assert '"HoodieMetadataRecord"' in file.schema
    assert file.info["maxRecordKey"].decode() == keys[-1]
    assert file.meta_block("bloomFilter") is not None
    assert file.meta_block("other") is None


def test_file_without_a_schema_says_so_when_asked() -> None:
    file = HFile.of_bytes(hfile_bytes("plain"))
    with pytest.raises(Malformed, match="schema"):
        _ = file.schema


def block(magic: bytes, payload: bytes, *, packed: bytes | None = None) -> bytes:
    stored = gzip.compress(payload, mtime=0) if packed is None else packed
    head = struct.pack(
        ">8siiqbii", magic, len(stored) + 4, len(payload), -1, 0, 16384, 33 + len(stored)
    )
    return head + stored + bytes(4)


def cell(row: bytes, value: bytes) -> bytes:
    key = struct.pack(">h", len(row)) + row + b"\0" + b"\x7f" + b"\xff" * 7 + b"\x04"
    return struct.pack(">ii", len(key), len(value)) + key + value + b"\0"


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def assemble(
    data: bytes, index: bytes, *, count: int = 1, codec: int = 1, levels: int = 1
) -> bytes:
    """Put a one-level HFile together around its data block and its index payload."""
    pairs = {b"KEY_VALUE_VERSION": b"\0\0\0\x01", b"MAX_MEMSTORE_TS_KEY": bytes(8)}
    info = b""
    for key, value in pairs.items():
        pair = b"\x0a" + varint(len(key)) + key + b"\x12" + varint(len(value)) + value
        info += b"\x0a" + varint(len(pair)) + pair
    body = data + block(b"IDXROOT2", index) + block(b"IDXROOT2", b"")
    body += block(b"FILEINF2", b"PBUF" + varint(len(info)) + info)
    fields = {2: len(data), 5: count, 6: 0, 7: 1, 8: levels, 12: codec}
    proto = b"".join(varint(number << 3) + varint(value) for number, value in fields.items())
    trailer = b'TRABLK"$' + varint(len(proto)) + proto
    return body + trailer.ljust(4092, b"\0") + b"\0\0\0\x03"


@pytest.mark.parametrize("length", [125, 126, 128, 130, 136, 141, 143, 144, 200, 300])
def test_index_keys_with_the_length_of_early_native_writers_are_read(length: int) -> None:
    row = b"k" * (length - 2)
    data = block(b"DATABLK*", cell(row, b"v"))
    key = struct.pack(">h", len(row)) + row
    index = struct.pack(">qi", 0, len(data)) + varint(len(key)) + key
    assert HFile.of_bytes(assemble(data, index)).lookup([row]) == {row: b"v"}


def plain_index(data: bytes, row: bytes = b"a") -> bytes:
    key = struct.pack(">h", len(row)) + row
    return struct.pack(">qi", 0, len(data)) + varint(len(key)) + key


def test_block_that_unfolds_without_end_is_refused() -> None:
    bomb = gzip.compress(bytes(50_000_000), mtime=0)
    data = block(b"DATABLK*", cell(b"a", b"v"), packed=bomb)
    file = HFile.of_bytes(assemble(data, plain_index(data)))
    with pytest.raises(Malformed, match="unfolds"):
        list(file.scan())


def test_block_that_claims_too_much_is_refused_before_unpacking() -> None:
    data = bytearray(block(b"DATABLK*", cell(b"a", b"v")))
    data[12:16] = struct.pack(">i", 100_000_000)
    file = HFile.of_bytes(assemble(bytes(data), plain_index(bytes(data))))
    with pytest.raises(Malformed, match="cannot unfold"):
        list(file.scan())


def test_index_that_names_a_block_twice_is_refused() -> None:
    data = block(b"DATABLK*", cell(b"a", b"v"))
    file = HFile.of_bytes(assemble(data, plain_index(data) * 2, count=2))
    with pytest.raises(Malformed, match="overlap"):
        list(file.scan())


@pytest.mark.parametrize(("codec", "name"), [(0, "LZO"), (3, "SNAPPY"), (6, "ZSTD"), (99, "99")])
def test_unknown_codec_is_named(codec: int, name: str) -> None:
    data = block(b"DATABLK*", cell(b"a", b"v"))
    with pytest.raises(Malformed, match=name):
        HFile.of_bytes(assemble(data, plain_index(data), codec=codec))


def test_other_version_is_named() -> None:
    with pytest.raises(Malformed, match="version 2"):
        HFile.of_bytes(hfile_bytes("plain")[:-1] + b"\x02")


@pytest.mark.parametrize("data", [b"", b"short", bytes(5000), b"PAR1" * 2000])
def test_what_is_no_hfile_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        HFile.of_bytes(data)


@pytest.mark.parametrize("seed", range(200))
def test_mutated_files_end_in_entries_or_malformed(seed: int) -> None:
    chance = Random(seed)
    source = chance.choice([native_bytes(), hfile_bytes("gzip_three_levels"), hfile_bytes("plain")])
    data = bytearray(source)
    for _ in range(chance.randint(1, 3)):
        # The parts that are read first are small, so they get most of the damage.
        start = chance.choice([0, len(data) - 4096, max(0, len(data) - 9000)])
        at = min(start + chance.randrange(5000), len(data) - 1)
        data[at] = chance.randrange(256)
    if chance.random() < 0.2:
        del data[: chance.randrange(50)]
    try:
        file = HFile.of_bytes(bytes(data))
        list(file.scan())
        file.lookup([b"hudi-key-000000100"])
        file.meta_block("bloomFilter")
    except Malformed:
        pass
