from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden.timelines import meta_files
from tidelake.errors import Malformed
from tidelake.formats import properties

TABLES = ["v6_cow_014", "v6_mor_kg_custom", "v8_mor_restored", "v9_cow_keygen_timestamp_millis"]


@pytest.mark.parametrize("table", TABLES)
def test_files_of_hudi_come_back_byte_for_byte(table: str) -> None:
    raw = meta_files(table)[".hoodie/hoodie.properties"]
    comments = [line[1:] for line in raw.decode().splitlines() if line.startswith("#")]
    assert len(comments) == 2
    assert properties.encode(properties.decode(raw), comments) == raw


@pytest.mark.parametrize("table", TABLES)
def test_the_checksum_covers_the_names(table: str) -> None:
    entries = properties.decode(meta_files(table)[".hoodie/hoodie.properties"])
    expected = properties.table_checksum(
        entries["hoodie.table.name"], entries.get("hoodie.database.name")
    )
    assert entries["hoodie.table.checksum"] == str(expected)


def test_the_checksum_of_a_metadata_table_has_no_database() -> None:
    raw = meta_files("v9_mor_types_full_mdt")[".hoodie/metadata/.hoodie/hoodie.properties"]
    entries = properties.decode(raw)
    assert "hoodie.database.name" not in entries
    checksum = properties.table_checksum(entries["hoodie.table.name"], None)
    assert entries["hoodie.table.checksum"] == str(checksum)


LINES = [
    (b"a=b", {"a": "b"}),
    (b"a:b", {"a": "b"}),
    (b"a b", {"a": "b"}),
    (b"  a \t = \t b ", {"a": "b "}),
    (b"a", {"a": ""}),
    (b"a=", {"a": ""}),
    (b"=b", {"": "b"}),
    (b"a=b=c:d", {"a": "b=c:d"}),
    (b"a\\=b=c", {"a=b": "c"}),
    (b"a\\ b=c", {"a b": "c"}),
    (b"# a=b\n! c=d\n\n \t\ne=f", {"e": "f"}),
    (b"a=b\\\n   c", {"a": "bc"}),
    (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    (b"a=b\\\n#c", {"a": "b#c"}),
    (b"a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
    (b"a=1\na=2", {"a": "2"}),
    (b"a=\\u00e9\\t\\z", {"a": "é\tz"}),
    (b"a=\\uD83D\\uDE00", {"a": "😀"}),
    (b"a=\xe9", {"a": "é"}),
    (b"a=b\\", {"a": "b"}),
    (b"", {}),
]


@pytest.mark.parametrize(("data", "entries"), LINES)
def test_lines_are_read_as_java_reads_them(data: bytes, entries: dict[str, str]) -> None:
    assert properties.decode(data) == entries


def test_an_escape_cut_short_is_malformed() -> None:
    with pytest.raises(Malformed, match="hexadecimal"):
        properties.decode(b"a=\\u12")


def test_a_schema_is_escaped_as_java_does() -> None:
    encoded = properties.encode({"k y": ' {"a":1} é😀'}, ["saved"])
    assert encoded == b'#saved\nk\\ y=\\ {"a"\\:1} \\u00E9\\uD83D\\uDE00\n'


@given(st.dictionaries(st.text(), st.text()))
def test_any_text_survives_the_round_trip(entries: dict[str, str]) -> None:
    assert properties.decode(properties.encode(entries)) == entries


@given(st.binary())
def test_any_bytes_are_read_or_malformed(data: bytes) -> None:
    try:
        properties.decode(data)
    except Malformed:
        return


def test_dates_are_printed_as_java_prints_them() -> None:
    assert properties.java_date(1794730322534) == "Sun Nov 15 08:12:02 UTC 2026"
    assert properties.java_date(0) == "Thu Jan 01 00:00:00 UTC 1970"
