"""HFiles as we write them: read back, and beside bytes that Apache Hudi accepted."""

from __future__ import annotations

import struct
import zlib
from random import Random  # noqa: TID251 - every use is seeded

import pytest

from tests.unit.formats.test_hfile import FILES, hfile_bytes, native_bytes
from tidelake.formats.hfile import HFile
from tidelake.formats.hfile_writer import encode_hfile

SCHEMA = '{"type":"record","name":"r","fields":[]}'


def read(data: bytes) -> list[tuple[bytes, bytes]]:
    return list(HFile.of_bytes(data).scan())


@pytest.mark.parametrize("name", [n for n in FILES if n != "gzip_repeated_keys"])
def test_what_hbase_wrote_comes_back(name: str) -> None:
    entries = read(hfile_bytes(name))
    file = HFile.of_bytes(encode_hfile(entries, SCHEMA, block_bytes=4096))
    assert (list(file.scan()), file.entry_count) == (entries, len(entries))


def test_what_hudi_wrote_comes_back_with_its_schema() -> None:
    before = HFile.of_bytes(native_bytes())
    after = HFile.of_bytes(encode_hfile(before.scan(), before.schema, is_base=True))
    assert list(after.scan()) == list(before.scan())
    assert after.schema == before.schema
    ends = ("minRecordKey", "maxRecordKey")
    assert [after.info[key] for key in ends] == [before.info[key] for key in ends]


def test_lookups_find_their_way_through_many_blocks() -> None:
    # Keys longer than 127 bytes have a length of more than one byte in the index.
    entries = {(b"%06d" % n) + b"k" * 150: b"v%d" % n for n in range(3000)}
    file = HFile.of_bytes(encode_hfile(entries.items(), SCHEMA, block_bytes=2000))
    wanted = Random(3).sample(sorted(entries), 50)
    assert file.lookup([*wanted, b"nothing", b"zzz"]) == {key: entries[key] for key in wanted}
    found = [key for key, _ in file.lookup_prefixes([b"0012"])]
    assert found == sorted(key for key in entries if key.startswith(b"0012"))


def test_bytes_are_those_that_apache_accepted() -> None:
    entries = [(b"__all_partitions__", b"v" * 0x15), (b"emea", b"w" * 0x59)]
    data = encode_hfile(entries, SCHEMA)
    head = struct.Struct(">8siiqbii")
    magic, on_disk, plain, previous, kind, chunk, with_head = head.unpack_from(data)
    assert (magic, plain, previous, kind, chunk) == (b"DATABLK*", 0xAE, -1, 0, 0x4000)
    assert on_disk == with_head - 33 + 4
    cells = zlib.decompress(data[33:with_head], wbits=31)
    suffix = "007fffffffffffffff04"
    first = f"0000001e00000015{'0012'}{b'__all_partitions__'.hex()}{suffix}{'76' * 21}00"
    second = f"0000001000000059{'0004'}{b'emea'.hex()}{suffix}{'77' * 89}00"
    assert cells.hex() == first + second
    index_at = 33 + on_disk
    size = head.unpack_from(data, index_at)[-1]
    index = zlib.decompress(data[index_at + 33 : index_at + size], wbits=31)
    assert index.hex() == (f"{0:016x}{33 + on_disk:08x}1e0012{b'__all_partitions__'.hex()}{suffix}")
    meta_at = index_at + 33 + head.unpack_from(data, index_at)[1]
    assert data[meta_at : meta_at + 57].hex() == (
        "494458524f4f543200000018" + "00000000" + "ff" * 8 + "000000400000000035"
        "1f8b08000000000002030300" + "00" * 12
    )
    assert data[-4:].hex() == "00000003"
    assert data[-4096:-4088] == b'TRABLK"$'


def test_an_empty_file_has_no_block() -> None:
    file = HFile.of_bytes(encode_hfile([], SCHEMA, is_base=True))
    assert (list(file.scan()), file.entry_count) == ([], 0)
    assert file.lookup([b"a"]) == {}


@pytest.mark.parametrize("keys", [[b"b", b"a"], [b"a", b"a"], [b"k" * 40_000]])
def test_keys_that_no_reader_would_find_are_refused(keys: list[bytes]) -> None:
    with pytest.raises(ValueError, match="HFile"):
        encode_hfile([(key, b"") for key in keys], SCHEMA)
